/**
 * Two hundred connections to the sandbox for a minute, reading and writing as fast as they are answered. Prints requests,
 * errors, credits as the clients were told and as the sandbox counted them, and its memory along the way; exits with 1
 * where there was an error, where the credits differ, or where memory went on growing.
 *
 *   node bench/sandbox-crowd.ts [seconds, default 60]
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Agent, request } from 'undici';

const seconds = Number(process.argv[2] ?? 60);
const CONNECTIONS = 200;
const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));
const limits = ['--credits', '50000', '--period', '10', '--requests-per-second', '1000000'];
const sandbox = spawn(process.execPath, [main, 'sandbox', '--port', '0', '--tickets', '20000', '--json', ...limits], {
  stdio: ['ignore', 'pipe', 'pipe'],
});
const residentMb = (): number => {
  const status = readFileSync(`/proc/${sandbox.pid}/status`, 'utf8');
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
};

let ending = '';
sandbox.stderr.on('data', chunk => {
  ending += chunk;
});
const world = await new Promise<{ url: string; token: string }>(resolve => {
  let text = '';
  sandbox.stdout.on('data', chunk => {
    text += chunk;
    try {
      resolve(JSON.parse(text));
    } catch {
      // The document is not whole yet.
    }
  });
});
const agent = new Agent({ connections: CONNECTIONS });
const headers = { authorization: `Bearer ${world.token}`, 'content-type': 'application/json' };
const counts = { requests: 0, credits: 0, refused: 0, errors: 0 };

async function ask(method: string, path: string, json?: object): Promise<{ id: string }[]> {
  counts.requests++;
  try {
    const body = json === undefined ? null : JSON.stringify(json);
    const reply = await request(world.url + path, { method: method as 'GET', headers, body, dispatcher: agent });
    const text = await reply.body.text();
    counts.credits += Number(reply.headers['rate-limit-used']);
    if (reply.statusCode === 429) counts.refused++;
    else if (reply.statusCode >= 400) counts.errors++;
    return reply.statusCode === 200 && text.startsWith('[') ? JSON.parse(text) : [];
  } catch {
    counts.errors++;
    return [];
  }
}

const tickets = await ask('GET', '/tickets?per_page=100');
const started = performance.now();
const elapsed = (): number => (performance.now() - started) / 1000;
const memory: number[] = [];
const watch = setInterval(() => memory.push(residentMb()), 1000);

await Promise.all(
  Array.from({ length: CONNECTIONS }, async (_, client) => {
    for (let n = client; elapsed() < seconds; n++) {
      const { id } = tickets[n % tickets.length]!;
      if (n % 10 === 0) await ask('PATCH', `/tickets/${id}`, { subject: `Changed ${n}` });
      else if (n % 3 === 0) await ask('GET', `/tickets/${id}?embed=messages,labels`);
      else await ask('GET', `/tickets?sort=-updated_at&per_page=20&page=${(n % 50) + 1}`);
    }
  }),
);
const took = elapsed();
clearInterval(watch);
await agent.close();
sandbox.kill('SIGINT');
await new Promise(resolve => sandbox.on('close', resolve));

const counted = Number(/([\d,]+) credits/.exec(ending)?.[1]?.replaceAll(',', ''));
const middle = Math.max(...memory.slice(Math.floor(memory.length / 3), Math.floor((memory.length * 2) / 3)));
const last = Math.max(...memory.slice(Math.floor((memory.length * 2) / 3)));
const grown = last / middle;
const result = {
  connections: CONNECTIONS,
  seconds: Number(took.toFixed(1)),
  ...counts,
  requests_per_second: Math.round(counts.requests / took),
  credits_as_counted_by_the_sandbox: counted,
  resident_mb: { second_third: middle, last_third: last },
};
process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
process.exitCode = counts.errors === 0 && counted === counts.credits && grown < 1.1 ? 0 : 1;
