/**
 * The sandbox with a large world, over real HTTP: how long it takes to start, what it holds in memory after 5,000 reads, and
 * the median of each kind of first page; and with two hundred connections that read and write as fast as they are answered.
 */
import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Agent, request } from 'undici';
import { medianOf, type Report, type Section } from '../report.ts';
import type { Served } from '../sandbox-world.ts';

const tickets = 1_000_000;
const reads = 5000;
/** Of each kind of page; the first ones warm up the code. */
const warm = 3;
const rounds = 12;
const connections = 200;
const crowdSeconds = 45;

export const sandbox: Section = {
  name: 'sandbox',
  title: 'The sandbox',
  about: `A world of ${tickets.toLocaleString('en-US')} tickets over HTTP, in a process of its own: each kind of sort, filter and count, before and after ${reads.toLocaleString('en-US')} reads of messages and a bulk action on ${(tickets / 200).toLocaleString('en-US')} tickets. Then another world, of 20,000 tickets, with ${connections} connections for ${crowdSeconds} seconds, a tenth of whose requests write.`,
  run: async report => {
    await readPages(report);
    await comeInCrowds(report);
  },
};

async function readPages({ quick, figure }: Report): Promise<void> {
  const size = quick ? tickets / 10 : tickets;
  const child = fork(fileURLToPath(new URL('../sandbox-world.ts', import.meta.url)), [String(size)], { execArgv: [] });
  try {
    const [served] = (await once(child, 'message')) as [Served];
    const agent = new Agent({ connections: 1 });
    const get = async (path: string) => {
      const headers = { authorization: `Bearer ${served.token}` };
      const begun = performance.now();
      const { statusCode, body } = await request(served.url + path, { headers, dispatcher: agent });
      const text = await body.text();
      if (statusCode !== 200) throw new Error(`${path}: ${statusCode} ${text}`);
      return { ms: performance.now() - begun, json: JSON.parse(text) };
    };
    const tell = async (what: 'memory' | 'bulk') => {
      child.send(what);
      const [answer] = await once(child, 'message');
      return answer as { peakMb: number };
    };
    const medians: number[] = [];
    const look = async () => {
      for (const path of pagesOf(served)) {
        const times: number[] = [];
        for (let n = 0; n < warm + rounds; n++) times.push((await get(path)).ms);
        medians.push(medianOf(times.slice(warm)));
      }
    };
    await look();
    for (let page = 1, read = 0; read < reads; page++) {
      const { json } = await get(`/tickets?sort=-updated_at&per_page=99&page=${page}&fields=id`);
      for (const { id } of json) await get(`/tickets/${id}?embed=messages`);
      read += json.length + 1;
    }
    await tell('bulk');
    await look();
    const { peakMb } = await tell('memory');
    figure({ what: 'a million tickets: start', unit: 's', rounds: [served.startMs / 1000] });
    figure({ what: 'a million tickets: memory, at most', unit: 'MB', rounds: [peakMb], atMost: 2000, headline: true });
    figure({
      what: `a million tickets: first pages, the slowest median of ${medians.length}`,
      unit: 'ms',
      rounds: [Math.max(...medians)],
      atMost: 50,
      headline: true,
    });
    await agent.close();
  } finally {
    child.kill();
  }
}

async function comeInCrowds({ quick, figure }: Report): Promise<void> {
  const main = fileURLToPath(new URL('../../../../src/main.ts', import.meta.url));
  const limits = ['--credits', '50000', '--period', '10', '--requests-per-second', '1000000'];
  const child = spawn(process.execPath, [main, 'sandbox', '--port', '0', '--tickets', '20000', '--json', ...limits], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(child, 'close');
  let ending = '';
  child.stderr.on('data', chunk => {
    ending += chunk;
  });
  const [line] = await once(child.stdout, 'data');
  const served = JSON.parse(String(line)) as { url: string; token: string };
  const agent = new Agent({ connections });
  const headers = { authorization: `Bearer ${served.token}`, 'content-type': 'application/json' };
  const counts = { requests: 0, credits: 0, errors: 0 };
  const ask = async (method: 'GET' | 'PATCH', path: string, json?: object): Promise<{ id: string }[]> => {
    counts.requests++;
    const body = json === undefined ? null : JSON.stringify(json);
    const reply = await request(served.url + path, { method, headers, body, dispatcher: agent }).catch(() => undefined);
    const text = await reply?.body.text().catch(() => undefined);
    if (reply === undefined || text === undefined || (reply.statusCode >= 400 && reply.statusCode !== 429)) {
      counts.errors++;
      return [];
    }
    counts.credits += Number(reply.headers['rate-limit-used']);
    return reply.statusCode === 200 && text.startsWith('[') ? JSON.parse(text) : [];
  };

  const all = await ask('GET', '/tickets?per_page=100');
  const seconds = quick ? crowdSeconds / 10 : crowdSeconds;
  const began = performance.now();
  const elapsed = (): number => (performance.now() - began) / 1000;
  const memoryMb: number[] = [];
  const watch = setInterval(() => memoryMb.push(residentMb(child.pid!)), 250);
  await Promise.all(
    Array.from({ length: connections }, async (_, client) => {
      for (let n = client; elapsed() < seconds; n++) {
        const { id } = all[n % all.length]!;
        if (n % 10 === 0) await ask('PATCH', `/tickets/${id}`, { subject: `Changed ${n}` });
        else if (n % 3 === 0) await ask('GET', `/tickets/${id}?embed=messages,labels`);
        else await ask('GET', `/tickets?sort=-updated_at&per_page=20&page=${(n % 50) + 1}`);
      }
    }),
  );
  const took = elapsed();
  clearInterval(watch);
  await agent.close();
  child.kill('SIGINT');
  await ended;

  const counted = Number(/([\d,]+) credits/.exec(ending)?.[1]?.replaceAll(',', ''));
  const third = memoryMb.length / 3;
  const grown = Math.max(...memoryMb.slice(2 * third)) / Math.max(...memoryMb.slice(third, 2 * third));
  figure({ what: 'a tie: requests answered', unit: 'a second', rounds: [counts.requests / took] });
  figure({ what: 'a tie: errors', unit: '', rounds: [counts.errors], atMost: 0 });
  const apart = Math.abs(counted - counts.credits);
  figure({ what: 'a tie: credits that clients and sandbox count differently', unit: '', rounds: [apart], atMost: 0 });
  figure({
    what: 'a tie: memory in the last third of the time, of that in the one before',
    unit: '×',
    rounds: [grown],
    atMost: 1.1,
  });
}

const residentMb = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;

/** One of each kind of list, and what is hard for it: few that match, or none. */
function pagesOf({ ids, middle }: Served): string[] {
  const sorts = ['updated_at', '-updated_at', 'created_at', '-created_at', 'user_id,-updated_at'];
  return [
    '/tickets',
    '/tickets?per_page=0&count=true',
    ...sorts.map(sort => `/tickets?per_page=100&sort=${sort}`),
    `/tickets?per_page=100&sort=updated_at&since_updated_at=${middle}`,
    `/tickets?per_page=100&sort=created_at&since_created_at=${middle}&count=true`,
    `/tickets?per_page=100&sort=updated_at&since_created_at=${middle}&count=true`,
    ...[`inbox_id=${ids.inbox}`, `user_id=${ids.user}`, 'user_id=null', `label_id=${ids.label}`, 'state=open'].flatMap(
      filter => [`/tickets?per_page=100&${filter}`, `/tickets?per_page=100&count=true&${filter}`],
    ),
    `/tickets?count=true&state=hold&type=call&spam=true&user_id=${ids.user}&inbox_id=${ids.inbox}`,
    ...[
      `id=${ids.ticket}`,
      'id=none',
      'inbox_id=none',
      'user_id=none',
      'label_id=none',
      'spam=true&state=hold',
    ].flatMap(filter => sorts.map(sort => `/tickets?count=true&sort=${sort}&${filter}`)),
    '/customers?per_page=100&count=true',
    `/customers?per_page=100&sort=created_at&since_created_at=${middle}&count=true`,
    '/customers?contacts.type=twitter&count=true',
    `/customers?contacts.type=email&count=true&contacts.value=${encodeURIComponent(ids.contact)}`,
    '/customers?contacts.type=email&contacts.value=nobody@nowhere.example',
  ];
}
