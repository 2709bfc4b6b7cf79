/**
 * Two help desks of one warehouse, read by the real program while chance changes, breaks and deletes their tickets, and sets the
 * clock of one of them back; against an own reckoning in plain code (test/support/*-in-words.ts) from what the replies showed.
 */
import { expect, test } from 'vitest';
import { between, makeRng, pick } from '../../packages/sandbox/src/random.ts';
import { Desk } from '../support/desk-script.ts';
import { amount, long } from '../support/long.ts';
import { freshDatabase } from '../support/postgres.ts';
import { type Account, begins, compareAll, dayS, look, lookbackMs, targets, zones } from '../support/reckoned.ts';
import { scripted, second } from '../support/scripted.ts';

interface Story {
  readonly seed: number;
  readonly rounds: number;
  /** The clock of the second help desk is set back, halfway, by so many seconds. */
  readonly setBack?: number;
}

async function tell({ seed, rounds, setBack }: Story): Promise<void> {
  const rng = makeRng(seed);
  const db = await freshDatabase();
  const database = { url: db.url, drop: async () => {} };
  await using _ = { [Symbol.asyncDispose]: () => db.drop() };
  const accounts: Account[] = [];
  for (const name of ['default', 'other']) {
    const desk = new Desk(rng, begins - 20 * dayS);
    for (let n = 0; n < 12; n++) {
      desk.now += between(rng, 60, dayS);
      desk.create();
      if (n > 3) desk.change(pick(rng, [...desk.tickets.keys()].slice(2)));
    }
    const s = await scripted({ database, account: name, begins, lookbackMs, mostDeleted: 1 });
    desk.answerIn(s);
    const calendarOf = (inbox: string | null) =>
      name === 'default' ? (inbox === 'i2' ? 'night' : 'office') : inbox === 'i1' ? 'office' : undefined;
    const zoneOf = (inbox: string | null) => zones[calendarOf(inbox) ?? 'none'];
    const account = { name, desk, s, seen: new Map(), outOfTime: new Set<string>(), calendarOf, zoneOf };
    accounts.push(account);
    desk.now = begins;
    await s.sync('tickets');
    await look(account);
  }
  const { s } = accounts[0]!;
  await s.pool.query(`
    insert into analytics.calendars values ('office', '${zones.office}'), ('night', '${zones.night}');
    insert into analytics.calendar_hours select 'office', d, '09:00', '17:00' from generate_series(1, 5) d;
    insert into analytics.calendar_hours select 'night', d, '08:00', '20:00' from generate_series(1, 5) d;
    insert into analytics.calendar_holidays (calendar, day) values ('office', '2026-04-03'), ('office', '2026-04-06');
    insert into internal.stored_calendar_assignments values ('default', null, 'office'), ('default', 'i2', 'night'), ('other', 'i1', 'office')`);
  const time = (ms: number | null) => (ms === null ? null : new Date(ms));
  for (const { account, inbox, label, metric, seconds, from, to } of targets)
    await s.rows(
      'insert into internal.stored_service_targets values ($1, $2, $3, $4, $5, $6, $7)',
      ...[account, inbox, label, metric, seconds, time(from), time(to)],
    );
  for (let round = 0; round < rounds; round++) {
    for (const account of accounts) {
      const { desk, s } = account;
      const step = (seconds: number) => {
        // The program may have waited.
        desk.now = Math.max(desk.now, Math.ceil((s.ctx.clock.now() - second(0)) / 1000)) + seconds;
        s.goTo(desk.now);
      };
      if (setBack !== undefined && account.name === 'other' && round === Math.floor(rounds / 2)) {
        step(-setBack);
        for (const id of desk.lives.keys()) account.outOfTime.add(id);
      }
      for (let changes = between(rng, 0, 20); changes > 0; changes--) {
        step(pick(rng, [0, 1, 2, 40, 600, 5000, 30_000]));
        const ids = [...desk.tickets.keys()];
        const happens = rng();
        if (happens < 0.18) desk.create();
        else if (happens < 0.3 && ids.length > 6) desk.delete(pick(rng, ids));
        else if (happens < 0.36) desk.break(pick(rng, ids), pick(rng, ['ticket', 'message'] as const));
        else if (happens < 0.41) desk.mend();
        else if (happens < 0.44) desk.restore();
        else if (happens < 0.47) desk.answer();
        else desk.change(pick(rng, ids));
      }
      step(pick(rng, [0, 2, 90, 4000]));
      const sweep = rng() < 0.35 || round === rounds - 1;
      // A page with a record that nobody can read proves less.
      if (sweep) desk.mend();
      desk.listed.length = 0;
      await s.sync('tickets', sweep ? { kind: 'sweep', range: { since: null, until: null, again: true } } : {});
      await look(account, sweep ? desk.listed[0] : undefined);
      if (rng() < 0.5) desk.change(pick(rng, [...desk.tickets.keys()]));
      step(5);
      await s.sync('messages');
      await look(account);
    }
    if (round % 4 === 3 || round === rounds - 1) await compareAll(s, accounts, rng);
  }
  // It was about something.
  const [about] = await s.rows(`
    select (select count(*) from helpdesk.tickets where _deleted_at is not null) > 2 as deleted,
      (select count(*) from analytics.ticket_history where valid_to is not null and deleted_after is null) > 10 as changed,
      (select count(*) from analytics.ticket_history where deleted_after is not null) > 2 as ended,
      (select count(*) from analytics.ticket_history where change_by is not null) > 10 as shown_late,
      (select count(*) from sync.rejects) > 0 as rejected,
      (select count(*) from sync.swept) > 0 as swept,
      (select count(distinct outcome) from analytics.ticket_targets) > 2 as outcomes`);
  expect(about).toEqual({
    deleted: true,
    changed: true,
    ended: true,
    shown_late: true,
    rejected: true,
    swept: true,
    outcomes: true,
  });
}

/** Seeds; RECKONING_SEEDS=50 tries more of them. */
const seeds = Array.from({ length: Number(process.env.RECKONING_SEEDS || amount(4, 1)) }, (_, i) => i + 1);

/** The other one does all of this as well, until the clock is set back. */
test.for(seeds)('two help desks, by chance: seed %d', long, seed => tell({ seed, rounds: 16 }));
test.for(seeds)('the clock of one of them is set back by two hours: seed %d', seed =>
  tell({ seed, rounds: 16, setBack: 7200 }),
);
