/** The sandbox with a large world, for packages/proofs/bench/sections/sandbox.ts: plain Node, in a process of its own, whose memory it tells. */
import { startSandbox } from '../../sandbox/src/server.ts';

export interface Served {
  url: string;
  token: string;
  startMs: number;
  ids: Record<'ticket' | 'inbox' | 'user' | 'label' | 'contact', string>;
  middle: string;
}

const tickets = Number(process.argv[2]);
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
  if (asked === 'bulk') world.actInBulk(tickets / 200, ids.label);
  process.send!({ peakMb: process.resourceUsage().maxRSS / 1000 });
});
const middle = world.byUpdated.at(Math.floor(tickets / 2))!.updated_at;
process.send!({ url, token, startMs: performance.now() - begun, ids, middle } satisfies Served);
