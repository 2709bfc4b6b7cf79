/** Credits of whole runs of the program, as the source counts them, over the least that could do. */

import { plansFor } from '../../../../src/engine/queue/schedule.ts';
import { openRun, withAccount } from '../../../../src/engine/runs/runs.ts';
import { claimSlot } from '../../../../src/engine/runs/slots.ts';
import { streamsOf } from '../../../../src/sources/index.ts';
import { account } from '../../sim/process.ts';
import { openDatabase } from '../lab.ts';
import type { Report, Section } from '../report.ts';
import { openVirtual, type Virtual } from '../virtual.ts';

const dayMs = 24 * 3_600_000;
/** How often it is looked at whether a run is over, on the virtual clock. */
const lookMs = 5000;
const asked = { 'first load': 1.02, nightly: 1.05 };
const limits = { credits: 1e9, periodMs: 60_000, requestsPerSecond: 1e9, reserve: 0 };
const pageSize = 100;
/** So many records `page` reaches. */
const depth = 10_000;

export const credits: Section = {
  name: 'credits',
  title: 'Credits',
  about: `What runs cost, as the source counts it, over the least that could do: the worker with its jobs, ledger and
schedule, the sandbox in process without limits, a real PostgreSQL, on a virtual clock. Nothing changes while a run is at work, so a
repetition gives the same figures.

The least of a **first load** of T tickets and C customers:

- ⌈T/99⌉ + 1 for tickets: of 100 on a page one belongs to the second from which the next page is asked for; and the end has to be seen.
- ⌈C/100⌉ + anchors for customers. An anchor is a time from which the list is begun anew, as pages reach ${depth.toLocaleString('en-US')} customers only:
  ⌈C/${depth.toLocaleString('en-US')}⌉ − 1, as if each were found with one request. (It is looked for by bisection, since a customer does not show when it was created.)
- 2·T for messages, ticket by ticket.
- names: they ride along with a ticket's messages, one credit for its inbox, one for all its labels. So one for each inbox that a ticket
  mentions, and one for as many labels as a ticket has at most.
- 1 for the users. Where spam and trash are hidden in the list of tickets, they are two lists more, ⌊n/100⌋ + 1 each.

The least of a **nightly run** (the schedule's, with the messages that wait after it, and without the sweep, which has a share of its own): ⌊(U+d)/100⌋ + 1 for U
changed tickets, ⌊(C+d)/100⌋ + 1 for C new customers, where d of each are shown again, because they lie in the lookback of two minutes before what was
claimed; 2·M for the M tickets whose messages are to be read again, which is all of U; new names; 1 for the users; and hidden spam and trash as above.
The changes are spread over a day: half of them replies, the rest new tickets, notes and states; for ten of them a new customer, for a hundred a new label. Snoozes end by
themselves: those tickets come on top, and are in U.`,
  run: async report => {
    const size = report.quick ? 1000 : 10_000;
    {
      await using desk = await open({ tickets: size });
      await load(report, desk);
      for (const changed of [0, 10, size / 20, size / 10]) await night(report, desk, changed);
      await weekLater(report, desk);
    }
    {
      await using hidden = await open({ tickets: size / 10, spamListed: false, trashListed: false });
      await load(report, hidden, ', spam and trash hidden');
      for (const changed of [0, 10]) await night(report, hidden, changed, ', spam and trash hidden');
    }
    await using many = await open({ tickets: size / 4, customers: report.quick ? 11_000 : 25_000 });
    await load(report, many, ', more of them than paging reaches');
  },
};

async function open(world: { tickets: number; customers?: number; spamListed?: boolean; trashListed?: boolean }) {
  await using stack = new AsyncDisposableStack();
  const { url } = stack.use(await openDatabase());
  const desk = stack.use(await openVirtual({ url, limits, latencyMs: chance => 20 + 100 * chance, ...world }));
  const opened = stack.move();
  return { ...desk, hidden: world.spamListed === false, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
type Desk = Virtual & { readonly hidden: boolean };

async function load(report: Report, desk: Desk, more = ''): Promise<void> {
  const { tickets, customers } = desk.services.helpdesk.world;
  const names = await namesOf(desk);
  const anchors = Math.ceil(customers.size / depth) - 1;
  const least =
    Math.ceil(tickets.size / (pageSize - 1)) +
    1 +
    Math.ceil(customers.size / pageSize) +
    anchors +
    2 * tickets.size +
    names +
    1;
  const streams = ['helpdesk.users', 'helpdesk.customers', 'helpdesk.tickets', 'helpdesk.messages'] as const;
  const used = await spent(desk, async () => {
    await desk.direct(pg =>
      withAccount(pg, account, client =>
        openRun(client, { account, kind: 'sync', streams, opener: desk.worker.id }, new Date(desk.scheduler.nowMs)),
      ),
    );
  });
  const of = `${tickets.size.toLocaleString('en-US')} tickets, ${customers.size.toLocaleString('en-US')} customers`;
  tell(report, { kind: 'first load', what: `first load, ${of}`, more }, used, least + hiddenPages(desk, 0));
}

async function night(report: Report, desk: Desk, changed: number, more = ''): Promise<void> {
  change(desk, changed);
  const least = await leastOfNight(desk);
  const used = await spent(desk, () => runNight(desk));
  const of = desk.services.helpdesk.world.tickets.size.toLocaleString('en-US');
  const what = `nightly, ${changed.toLocaleString('en-US')} of ${of} tickets changed`;
  tell(report, { kind: 'nightly', what, more }, used, least);
}

/** Renames are not announced, so names are asked for again when they are a week old. */
async function weekLater(report: Report, desk: Desk): Promise<void> {
  desk.scheduler.skip(7 * dayMs);
  const least = await leastOfNight(desk);
  const used = await spent(desk, () => runNight(desk));
  report.figure({
    what: 'once a week, in a night: to ask for the names of all labels and inboxes again',
    unit: 'credits',
    rounds: [used - least],
  });
}

function tell(
  report: Report,
  run: { kind: keyof typeof asked; what: string; more: string },
  used: number,
  least: number,
): void {
  const what = run.what + run.more;
  report.figure({ what: `${what}: credits`, unit: 'credits', rounds: [used] });
  report.figure({
    what: `${what}: credits, over the least (${least.toLocaleString('en-US')})`,
    unit: '×',
    rounds: [used / least],
    atMost: asked[run.kind],
    headline: run.more === '',
  });
}

async function leastOfNight(desk: Desk): Promise<number> {
  const { world } = desk.services.helpdesk;
  desk.services.catchUp();
  world.settle();
  const here = await rows(desk, `select id, extract(epoch from updated_at)::float8 * 1000 as ms from helpdesk.tickets`);
  const known = new Map(here.map(({ id, ms }) => [id, ms]));
  const all = [...world.tickets.values()];
  const changed = all.filter(({ id, updated_at }) => known.get(id) !== Date.parse(updated_at)).length;
  const [tops] = await rows(
    desk,
    `select ${['tickets', 'customers'].map(name => `extract(epoch from max(upper(covered)) filter (where stream = '${name}' and list = 'default'))::float8 * 1000 as ${name}`)}
     from sync.coverage`,
  );
  const listed = all.filter(({ spam, trash }) => !desk.hidden || !(spam || trash));
  const pages = (times: readonly string[], top: unknown) =>
    Math.floor(times.filter(time => Date.parse(time) >= Number(top) - 1000).length / pageSize) + 1;
  return (
    pages(
      listed.map(({ updated_at }) => updated_at),
      tops!.tickets,
    ) +
    pages(
      [...world.customers.values()].map(({ created_at }) => created_at),
      tops!.customers,
    ) +
    2 * changed +
    (await namesOf(desk)) +
    1 +
    hiddenPages(desk, Number(tops!.tickets) - 1000)
  );
}

/** Of the two lists of what is hidden in the other one. */
function hiddenPages({ hidden, services }: Desk, sinceMs: number): number {
  if (!hidden) return 0;
  const all = [...services.helpdesk.world.tickets.values()].filter(one => Date.parse(one.updated_at) >= sinceMs);
  const pages = (many: readonly unknown[]) => Math.floor(many.length / pageSize) + 1;
  return pages(all.filter(({ spam }) => spam)) + pages(all.filter(({ trash }) => trash));
}

/** For the names that tickets mention and that are not here. */
async function namesOf(desk: Desk): Promise<number> {
  const here = await rows(
    desk,
    `select id from helpdesk.labels where _observed_at is not null
     union all select id from helpdesk.inboxes where _observed_at is not null`,
  );
  const known = new Set(here.map(({ id }) => id));
  const tickets = [...desk.services.helpdesk.world.tickets.values()];
  const labels = tickets.map(({ label_ids }) => label_ids.filter(id => !known.has(id)));
  const most = Math.max(1, ...labels.map(({ length }) => length));
  const inboxes = new Set(tickets.map(({ inbox_id }) => inbox_id).filter(id => !known.has(id)));
  return Math.ceil(new Set(labels.flat()).size / most) + inboxes.size;
}

const rows = async ({ database }: Desk, sql: string): Promise<Record<string, unknown>[]> =>
  (await database.client.query(sql)).rows;

/** A day passes. */
function change({ scheduler, services }: Desk, changes: number): void {
  const { world } = services.helpdesk;
  const tickets = world.byCreated.length;
  const stepMs = dayMs / Math.max(1, changes);
  if (changes === 0) scheduler.skip(dayMs);
  for (let i = 0; i < changes; i++) {
    scheduler.skip(stepMs);
    const customer_id = i % 10 === 0 ? world.customers.add({ first_name: 'New' }).id : undefined;
    if (i % 10 === 0) world.addTicket({ ...(customer_id && { customer_id }), subject: 'A new ticket' });
    else {
      const { id, state } = world.byCreated.at(Math.floor((i * tickets) / changes))!;
      if (i % 100 === 1) world.addLabels(id, [world.addLabel({ name: `Label ${i}` }).id]);
      if (i % 10 < 6) world.addMessage(id, { body: 'A reply' });
      else if (i % 10 < 8) world.addNote(id, { body: 'A note' });
      else world.patchTicket(id, { state: state === 'open' ? 'closed' : 'open' });
    }
  }
  scheduler.skip(60_000);
}

async function runNight({ direct, worker, scheduler }: Desk): Promise<void> {
  const plan = plansFor(streamsOf(new Set(['helpdesk']))).find(({ schedule }) => schedule === 'nightly')!;
  const now = new Date(scheduler.nowMs);
  await direct(pg => claimSlot(pg, account, { ...plan, sweeps: [] }, { slot: now, opener: worker.id, now }));
}

/** What the source counts until the worker has nothing more to do. */
async function spent(desk: Desk, open: () => Promise<void>): Promise<number> {
  const { totals } = desk.services.helpdesk;
  const before = totals.credits;
  await open();
  desk.worker.ring();
  let ended: Record<string, unknown>[];
  do {
    await desk.until(desk.scheduler.nowMs + lookMs);
    ended = await rows(
      desk,
      `select r.state, r.id, exists (
         select from helpdesk.tickets where _messages_as_of is null or _messages_as_of < updated_at) as waits
       from sync.runs r order by r.id desc limit 3`,
    );
  } while (ended.some(({ state, waits }) => state === 'running' || waits));
  const failed = ended.filter(({ state }) => state !== 'completed');
  if (failed.length > 0) throw new Error(`runs ended otherwise: ${JSON.stringify(failed)}`);
  return totals.credits - before;
}
