/**
 * A first load at no limit, in real processes: sandbox, sync, embedded PostgreSQL in a folder of their own. Prints the peak
 * memory of the sync.
 *
 *   node bench/first-load.ts [tickets, default 10000]
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));
const tickets = Number(process.argv[2] ?? 10_000);
const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-bench-'));
/** As the first line of main.ts starts it. */
const shelfdesk = ['--max-semi-space-size=2', '--heap-growing-percent=20', main];
const unlimited = ['--credits', '1000000000', '--requests-per-second', '1000000'];

const sandbox = spawn(
  process.execPath,
  [main, 'sandbox', '--port', '0', '--tickets', String(tickets), '--json', ...unlimited],
  {
    stdio: ['ignore', 'pipe', 'ignore'],
  },
);
try {
  const world = await new Promise<{ url: string; token: string }>(resolve => {
    let text = '';
    sandbox.stdout.on('data', chunk => {
      text += chunk;
      if (text.includes('}')) resolve(JSON.parse(text));
    });
  });
  const started = performance.now();
  const sync = spawn(process.execPath, [...shelfdesk, 'sync', '--json'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      PATH: process.env.PATH,
      HELPDESK_BASE_URL: world.url,
      HELPDESK_TOKEN: world.token,
      HELPDESK_CREDITS: '1000000000',
      HELPDESK_REQUESTS_PER_SECOND: '1000000',
    },
  });
  let peakKb = 0;
  const watch = setInterval(() => {
    const status = readFileSync(`/proc/${sync.pid}/status`, 'utf8');
    peakKb = Math.max(peakKb, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0));
  }, 50);
  const code = await new Promise(resolve => sync.on('close', resolve));
  clearInterval(watch);
  const seconds = (performance.now() - started) / 1000;
  console.log({
    code,
    tickets,
    seconds: Math.round(seconds),
    peak_mb: Math.round(peakKb / 1024),
  });
} finally {
  sandbox.kill();
  rmSync(folder, { recursive: true, force: true });
}
