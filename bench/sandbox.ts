/**
 * The sandbox with a large world, over real HTTP: how long it takes to start, what it holds in memory after the start
 * and after 5,000 reads, and the median and the slowest of each kind of first page, beside the limits of 2 GB and 50 ms.
 * Exits 1 if one is passed (by a median: what else the machine does is in the slowest). Plain Node, in a process of its own.
 *
 *   node bench/sandbox.ts [tickets, default 1000000]
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'undici';
import { startSandbox } from '../src/sandbox/server.ts';
import { secondsOf } from './lab.ts';

const MOST_MB = 2000;
const MOST_MS = 50;
const READS = 5000;
/** Of each kind of page; the first ones warm up the code. */
const WARM = 3;
const ROUNDS = 12;

interface Served {
  url: string;
  token: string;
  start_ms: number;
  ids: Record<'ticket' | 'inbox' | 'user' | 'label' | 'contact', string>;
  middle: string;
}

if (process.send) await serve(Number(process.argv[2]));
else await measure(Number(process.argv[2] ?? 1_000_000));

async function serve(tickets: number): Promise<void> {
  const begun = performance.now();
  const { url, token, world } = await startSandbox({ tickets, credits: 1e9, requestsPerSecond: 1e9 });
  const first = <T>(all: Iterable<T>) => [...all][0]!;
  const ids = {
    ticket: world.byCreated.at(Math.floor(tickets / 2))!.id,
    inbox: first(world.inboxes.keys()),
    user: first(world.users.keys()),
    label: first(world.labels.keys()),
    contact: world.customers.byCreated.at(Math.floor(tickets / 5))!.contacts[0]?.value ?? 'nobody',
  };
  process.on('message', asked => {
    if (asked === 'bulk') world.actInBulk(5000, ids.label);
    process.send!({ memory: process.memoryUsage(), peak_mb: process.resourceUsage().maxRSS / 1000 });
  });
  const middle = world.byUpdated.at(Math.floor(tickets / 2))!.updated_at;
  process.send!({ url, token, start_ms: performance.now() - begun, ids, middle } satisfies Served);
}

async function measure(tickets: number): Promise<void> {
  const child = fork(import.meta.filename, [String(tickets)], { execArgv: [] });
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
      return answer as { memory: NodeJS.MemoryUsage; peak_mb: number };
    };

    console.log(`${tickets} tickets: start ${secondsOf(served.start_ms)} s`);
    show('after the start', await tell('memory'));
    const found = new Map<string, { median: number; slowest: number }>();
    const look = async (when: string) => {
      for (const path of pagesOf(served)) {
        const times: number[] = [];
        for (let n = 0; n < WARM + ROUNDS; n++) times.push((await get(path)).ms);
        const sorted = times.slice(WARM).toSorted((a, b) => a - b);
        found.set(`${path}${when}`, { median: sorted[ROUNDS / 2]!, slowest: sorted.at(-1)! });
      }
    };
    await look('');
    for (let page = 1, read = 0; read < READS; page++) {
      const { json } = await get(`/tickets?sort=-updated_at&per_page=99&page=${page}&fields=id`);
      for (const { id } of json) await get(`/tickets/${id}?embed=messages`);
      read += json.length + 1;
    }
    show(`after ${READS} reads`, await tell('memory'));
    const begun = performance.now();
    await tell('bulk');
    console.log(`a bulk action on 5000 tickets: ${Math.round(performance.now() - begun)} ms`);
    await look(' (after it)');
    const { peak_mb } = await tell('memory');

    const worst = [...found].toSorted(([, a], [, b]) => b.median - a.median);
    console.log('median, slowest of each first page:');
    for (const [path, { median, slowest }] of worst) {
      console.log(`${median.toFixed(1).padStart(7)} ms ${slowest.toFixed(1).padStart(7)} ms  ${path}`);
    }
    const [path, { median }] = worst[0]!;
    console.log(
      `peak ${Math.round(peak_mb)} MB of ${MOST_MB}; first page ${median.toFixed(1)} ms of ${MOST_MS}: ${path}`,
    );
    if (peak_mb > MOST_MB || median > MOST_MS) process.exitCode = 1;
    await agent.close();
  } finally {
    child.kill();
  }
}

function show(when: string, { memory, peak_mb }: { memory: NodeJS.MemoryUsage; peak_mb: number }): void {
  const mb = (bytes: number) => Math.round(bytes / 1e6);
  console.log(`${when}: ${mb(memory.rss)} MB, heap ${mb(memory.heapUsed)} MB in use; peak ${Math.round(peak_mb)} MB`);
}

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
