/** How soon edits and deletions that nothing announces are in PostgreSQL, and for how many credits. */
import { auditStream } from '../../../../jobs/audit-stream.ts';
import { detailsLeft, rotationOf } from '../../../../src/engine/deletions/rotation.ts';
import { keepRereading } from '../../../../src/engine/queue/reread.ts';
import { planOfNow, plansFor } from '../../../../src/engine/queue/schedule.ts';
import { openRun, withAccount } from '../../../../src/engine/runs/runs.ts';
import { claimSlot } from '../../../../src/engine/runs/slots.ts';
import { messages } from '../../../../src/sources/helpdesk/messages/messages.ts';
import { percentile } from '../../../../test/support/changes.ts';
import { makeRng, pick } from '../../../sandbox/src/random.ts';
import { account } from '../../sim/process.ts';
import { openDatabase } from '../lab.ts';
import type { Report, Section } from '../report.ts';
import { openVirtual, type Virtual } from '../virtual.ts';

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;
const limits = { credits: 100, periodMs: minuteMs, requestsPerSecond: 6, reserve: 10 };
const share = 0.1;
const perPage = 100;
const kinds = ['ticket edited', 'ticket deleted', 'customer edited'] as const;
type Kind = (typeof kinds)[number];

export const silent: Section = {
  name: 'silent',
  title: 'Silent edits and deletions',
  about: `From a change that no list of changes shows until it is in PostgreSQL, on a virtual clock at the limits of the real help desk (100 credits a minute, 10 of them in reserve), with the program's own code and SWEEP_SHARE_PERCENT at 10: each three minutes a ticket and a customer are edited without a new update time, and a ticket is deleted. Nothing else changes, so all credits that the source counted are for reading again; each deletion is confirmed by id. Messages have what the lists leave of the share, at least a tenth: how long all take is reckoned. A tool that knows no better way reads all lists again and again: what it would need for the same credits is reckoned from the pages (dlt, a script, and Airbyte in its full refresh read the same pages); deletions it sees only where it replaces the table. A night, its reading of all lists and its sweep, is measured at the end; without reading again by day it reads open tickets each night, and all lists on one night of seven.`,
  run: async report => {
    for (const tickets of report.quick ? [1000] : [1000, 10_000, 100_000]) await measure(report, tickets);
  },
};

async function measure({ figure, quick }: Report, tickets: number): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const { url } = stack.use(await openDatabase());
  const latencyMs = (chance: number) => 10 + 250 * chance;
  const sweep = { ageMs: 7 * dayMs, mostDeleted: 0.2, share };
  const virtual = stack.use(
    await openVirtual({
      url,
      limits,
      latencyMs,
      tickets,
      window: 'sliding',
      jobs: [auditStream],
      sweep,
    }),
  );
  const { worker, scheduler } = virtual;
  const source = worker.ctx.sources.get('helpdesk')!;
  await firstLoad(virtual);
  const rereading = keepRereading(worker.ctx, worker.id);
  const rotation = await virtual.direct(() => rotationOf(worker.ctx, source));
  const longestMs = Math.max(...rotation.map(({ everyMs }) => everyMs));
  const each = async (ms: number, act: () => void) => {
    for (const endMs = scheduler.nowMs + ms; scheduler.nowMs < endMs; ) {
      act();
      await virtual.until(scheduler.nowMs + minuteMs);
      if (await virtual.direct(() => rereading.look())) worker.ring();
    }
  };
  // All lists were read again once before anything counts.
  await each(longestMs, () => {});
  const before = { credits: virtual.counted.credits, ms: scheduler.nowMs };
  const seen = new Seen(virtual);
  let minute = 0;
  await each(quick ? longestMs : 2 * longestMs, () => {
    if (minute++ % 3 === 0) seen.change(minute);
  });
  const spent = virtual.counted.credits - before.credits;
  const minutes = (scheduler.nowMs - before.ms) / minuteMs;
  await each(1.5 * longestMs, () => {});
  await seen.look();
  const what = `${tickets.toLocaleString('en-US')} tickets`;
  const all = kinds.flatMap(kind => seen.minutes[kind]);
  const judged = tickets === 10_000 ? { atMost: 30, headline: true } : {};
  for (const kind of kinds) {
    figure({ what: `${what}: ${kind}, p50`, unit: 'min', rounds: [percentile(seen.minutes[kind], 0.5)] });
    figure({ what: `${what}: ${kind}, p95`, unit: 'min', rounds: [percentile(seen.minutes[kind], 0.95)] });
  }
  figure({ what: `${what}: all of them, p95`, unit: 'min', rounds: [percentile(all, 0.95)], ...judged });
  figure({ what: `${what}: changes that were never seen`, unit: '', rounds: [seen.open], atMost: 0 });
  const allowed = (limits.credits - limits.reserve) * minutes;
  figure({
    what: `${what}: credits for reading again, of those allowed`,
    unit: '×',
    rounds: [spent / allowed],
    atMost: 0.12,
  });
  const { perHour } = (await virtual.direct(() => detailsLeft(worker.ctx, source, messages)))!;
  figure({ what: `${what}: the messages of all tickets, reckoned`, unit: 'h', rounds: [tickets / perHour] });
  const rows = rotation
    .filter(({ list }) => list === 'default')
    .reduce((sum, one) => sum + Math.ceil(one.rows / perPage), 0);
  const whole = (0.95 * rows) / (spent / minutes);
  figure({ what: `${what}: all lists in turn, for the same credits: p95, reckoned`, unit: 'min', rounds: [whole] });
  const after = await nightOf(virtual);
  sweep.share = 0;
  const aged = async (ms: number) => {
    await virtual.direct(pg => pg.query(`update sync.swept set as_of = as_of - $1 * interval '1 millisecond'`, [ms]));
    return nightOf(virtual);
  };
  const [most, one] = [await aged(dayMs), await aged(sweep.ageMs)];
  const alone = (6 * most + one) / 7;
  figure({ what: `${what}: credits of a night`, unit: '', rounds: [after], atMost: alone });
  figure({ what: `${what}: credits of a night, nothing read again by day: mean of seven`, unit: '', rounds: [alone] });
}

/** What the nightly run and its sweep cost, if the schedule opens them now. */
async function nightOf({ direct, worker, scheduler, until }: Virtual): Promise<number> {
  const read = worker.ctx.streams.filter(({ source }) => worker.ctx.sources.has(source));
  const plan = plansFor(read).find(({ schedule }) => schedule === 'nightly')!;
  const now = new Date(scheduler.nowMs);
  const due = await direct(() => planOfNow(worker.ctx, plan));
  const opened = await direct(pg => claimSlot(pg, account, due, { slot: now, opener: worker.id, now }));
  const { run } = opened as { run: number };
  worker.ring();
  for (;;) {
    await until(scheduler.nowMs + minuteMs);
    const { rows } = await direct(pg =>
      pg.query<{ credits: number; left: number }>(
        `select sum(t.credits)::int as credits, count(*) filter (where t.finished_at is null)::int as left
         from sync.stored_run_streams t join sync.stored_runs r on r.id = t.run_id where r.id >= $1 and r.kind in ('nightly', 'sweep')`,
        [run],
      ),
    );
    if (rows[0]!.left === 0) return rows[0]!.credits;
  }
}

/** Users, customers and tickets are read, and no message waits: the mirror has no history left to read. */
async function firstLoad({ direct, worker, scheduler, until }: Virtual): Promise<void> {
  const streams = ['helpdesk.users', 'helpdesk.customers', 'helpdesk.tickets'] as const;
  const run = await direct(pg =>
    withAccount(pg, account, client =>
      openRun(client, { account, kind: 'sync', streams: [...streams], opener: worker.id }, new Date(scheduler.nowMs)),
    ),
  );
  worker.ring();
  for (let isOver = false; !isOver; ) {
    await until(scheduler.nowMs + minuteMs);
    const { rows } = await direct(pg => pg.query(`select from sync.runs where id = $1 and state = 'completed'`, [run]));
    isOver = rows.length > 0;
  }
  await direct(pg => pg.query('update helpdesk.tickets set _messages_as_of = $1', [new Date(scheduler.nowMs)]));
}

/** The changes, and how long each took. */
class Seen {
  readonly minutes: Record<Kind, number[]> = { 'ticket edited': [], 'ticket deleted': [], 'customer edited': [] };
  readonly #made: { kind: Kind; id: string; atMs: number; word: string }[] = [];
  readonly #rng = makeRng(5);
  readonly #of: Virtual;
  open = 0;

  constructor(of: Virtual) {
    this.#of = of;
  }

  change(n: number): void {
    const { services, scheduler } = this.#of;
    const { world } = services.helpdesk;
    const note = (kind: Kind, id: string, word = '') => this.#made.push({ kind, id, atMs: scheduler.nowMs, word });
    const [edited, deleted] = [pick(this.#rng, [...world.tickets.keys()]), pick(this.#rng, [...world.tickets.keys()])];
    if (edited !== deleted && !this.#made.some(({ id }) => id === edited || id === deleted)) {
      world.patchTicket(edited, { subject: `Edited ${n}` }, { quiet: true });
      note('ticket edited', edited, `Edited ${n}`);
      world.deleteTicket(deleted);
      note('ticket deleted', deleted);
    }
    const customer = pick(this.#rng, [...world.customers.values()]).id;
    if (this.#made.some(({ id }) => id === customer)) return;
    world.customers.patch(customer, { first_name: `Ada ${n}` });
    note('customer edited', customer, `Ada ${n}`);
  }

  /** The tables say when each change came: nothing overwrites them afterwards. */
  async look(): Promise<void> {
    for (const { kind, id, atMs, word } of this.#made) {
      const { rows } = await this.#of.direct(pg =>
        pg.query<{ ms: number }>(found[kind], kind === 'ticket deleted' ? [id] : [id, word]),
      );
      if (rows.length === 0) this.open++;
      else this.minutes[kind].push((rows[0]!.ms - atMs) / minuteMs);
    }
  }
}

const ms = (time: string) => `extract(epoch from ${time})::float8 * 1000 as ms`;
const found: Record<Kind, string> = {
  'ticket edited': `select ${ms('min(c.seen_at)')} from sync.changes c join helpdesk.tickets t on t.id = c.record_id where t.id = $1 and t.subject = $2 and c.changes ? 'subject' having count(*) > 0`,
  'ticket deleted': `select ${ms('min(c.seen_at)')} from sync.changes c where c.record_id = $1 and c.changes ? '_deleted_at' having count(*) > 0`,
  'customer edited': `select ${ms('min(c.seen_at)')} from sync.changes c join helpdesk.customers t on t.id = c.record_id where t.id = $1 and t.first_name = $2 and c.changes ? 'first_name' having count(*) > 0`,
};
