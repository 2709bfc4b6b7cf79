/**
 * The mirror of the small worlds is a model. Here PostgreSQL does what the model does, with the statements of the product,
 * for every small case: which of two versions is later, what is covered, and what becomes of ties.
 */
import { isDeepStrictEqual } from 'node:util';
import type pg from 'pg';
import * as merge from '../../../../src/engine/commit/merge.ts';
import * as coverage from '../../../../src/engine/coverage/coverage.ts';
import * as ties from '../../../../src/engine/coverage/ties.ts';
import { transaction } from '../../../../src/engine/database/pool.ts';
import type { Claim } from '../../../../src/engine/runs/claims.ts';
import {
  bits,
  commit,
  empty,
  isLater,
  type KnownTie,
  type Mirror,
  settle,
  takenBack,
  topOf,
} from '../readers/mirror.ts';
import { asOf, begin, dateOf, type Rules, toMs, toSecond } from '../readers/world.ts';

/** What keeps coverage and ties in the product. */
export const keeping = { ...coverage, ...ties, ...merge };

/** Throws where PostgreSQL does not what the model does. Each has accounts of its own. */
export type Compare = (pool: pg.Pool) => Promise<void>;

export const lookback = 1;
export const stream = 'helpdesk.tickets' as const;
export const table = { name: 'helpdesk.tickets', version: 'updated_at' } as const;
export const claimOf = (account: string): Claim => ({
  ...{ account, stream, run: 0, token: 0, kind: 'sync', again: false },
});
export const date = (second: number) => new Date(toMs(second));
const zero = toMs(0) / 1000;

export function same(what: string, is: unknown, should: unknown): void {
  if (isDeepStrictEqual(is, should)) return;
  throw new Error(`${what}: ${JSON.stringify(is)}, and the model says ${JSON.stringify(should)}`);
}

const enroll = (db: pg.Pool | pg.ClientBase, account: string) =>
  keeping.register(
    db,
    { account, sinceMs: toMs(0), lookbackMs: lookback * 1000 },
    [{ stream, list: 'default' }],
    date(0),
  );

const versions: Compare = async pool => {
  await enroll(pool, 'versions');
  // Times of a row and of a record, when their replies were true at the earliest, and by when at the latest.
  const { rows } = await pool.query<{ t: number[]; e: number[]; later: boolean }>({
    text: `with cases as (
          select v, o, v || '-' || o || '-' || b as name, b,
            to_timestamp($1 + v) as updated_at, to_timestamp($1 + o) as _observed_at, to_timestamp($1 + o + b) as _true_by
          from generate_series(0, 6) v, generate_series(0, 5) o, generate_series(1, 2) b),
        a as (select $2::text)
        select array[t.v, t.o, t.o + t.b] as t, array[excluded.v, excluded.o, excluded.o + excluded.b] as e,
          (${keeping.laterVersion('updated_at', stream)}) as later
        from cases t, cases excluded`,
    values: [zero, 'versions'],
  });
  const row = ([time, observed, trueBy]: number[]) => ({ time: time!, observed: observed!, trueBy: trueBy!, order: 0 });
  same('cases', rows.length, 84 * 84);
  for (const { t, e, later } of rows)
    same(`row ${t} and record ${e}: is it later`, later, isLater(row(t), row(e), lookback));
};

/** What a reply was true by may not be noted: then it is a minute after it was observed. */
const unnoted: Compare = async pool => {
  await enroll(pool, 'unnoted');
  const { rows } = await pool.query<{ v: number; later: boolean }>({
    text: `with t as (select to_timestamp($1::float8) as _observed_at, to_timestamp($1 + 90) as updated_at, null::timestamptz as _true_by),
        cases as (select v, to_timestamp($1 + 80) as _observed_at, to_timestamp($1 + v) as updated_at, null::timestamptz as _true_by
          from generate_series(50, 150, 10) v),
        a as (select $2::text)
        select v, (${keeping.laterVersion('updated_at', stream)}) as later from t, cases excluded`,
    values: [zero, 'unnoted'],
  });
  const noted = { order: 0, observed: 0, time: 90, trueBy: 60 };
  for (const { v, later } of rows)
    same(`a record of ${v} s`, later, isLater(noted, { order: 1, observed: 80, time: v, trueBy: 140 }, lookback));
};

const covered: Compare = async pool => {
  for (const account of ['covered', 'beside'])
    await keeping.register(
      pool,
      { account, sinceMs: toMs(0), lookbackMs: lookback * 1000 },
      [
        { stream, list: 'default' },
        { stream, list: 'spam' },
        { stream: 'helpdesk.customers', list: 'default' },
      ],
      date(0),
    );
  const claim = claimOf('covered');
  const sets = Array.from({ length: 2 ** 4 }, (_, set) => set);
  const ranges = Array.from({ length: 5 }, (_, from) =>
    Array.from({ length: 5 - from }, (_, length) => ({ from, to: from + length })),
  ).flat();
  await transaction(pool, async client => {
    for (const set of sets)
      for (const { from, to } of ranges) {
        await client.query(
          `update sync.coverage set covered = coalesce((
               select range_agg(tstzrange(to_timestamp($1 + n), to_timestamp($1 + n + 1)))
               from generate_series(0, 4) n where ($2::int >> n) & 1 = 1), '{}')
             where (account_id, stream, list) = ('covered', 'tickets', 'default')`,
          [zero, set],
        );
        await keeping.cover(client, claim, 'default', { from: toMs(from), to: toMs(to) });
        const expected = set | bits(from, to);
        same(`${from} to ${to} beside ${set}`, (await mirrorOf(client, 'covered')).covered, expected);
        const { fromMs } = await keeping.readPosition(client, claim, 'default');
        same(`where a sync resumes after ${expected}`, toSecond(fromMs), topOf(expected));
      }
  });
  const { rows } = await pool.query(
    `select account_id, stream, list from sync.coverage
     where account_id = any('{covered,beside}') and not isempty(covered)`,
  );
  same('what else is covered', rows, [{ account_id: 'covered', stream: 'tickets', list: 'default' }]);
};

/** Three tickets, as their rows show them. */
const rowsOf = (times: readonly number[]): Mirror['rows'] =>
  times.map((time, order) => ({ time, order, observed: 3, trueBy: 5 }));

export async function store(client: pg.ClientBase, account: string, times: readonly number[]): Promise<void> {
  for (const [id, time] of times.entries())
    await client.query(
      `insert into helpdesk.tickets (account_id, id, updated_at, _first_seen_at, _synced_at, _observed_at, _true_by, _payload)
       values ($1, $2, $3, $4, $4, $4, $5, '{}')`,
      [account, `r${id}`, date(time), date(3), date(5)],
    );
}

const settled: Compare = async pool => {
  const times = [1, 2, 4];
  const all: KnownTie[] = [];
  for (const from of [0, 1, 2])
    for (const to of [from + 1, from + 2])
      for (const toldBy of [2, 3, 4])
        for (const members of [[0], [1], [2], [0, 1], [0, 2]]) all.push({ from, to, toldBy, members, held: false });
  const rows = rowsOf(times);
  for (const [n, tie] of all.entries())
    for (const known of [2, 3]) {
      const account = `settled${n}-${known}`;
      await enroll(pool, account);
      const claim = claimOf(account);
      await transaction(pool, async client => {
        await store(client, account, times);
        await keeping.cover(client, claim, 'default', { from: toMs(0), to: toMs(5) });
        await note(client, claim, tie);
      });
      same('is something to settle', await keeping.hasRipe(pool, claim, toMs(known)), tie.toldBy <= known);
      await transaction(pool, client => keeping.settleTies(client, claim, table, toMs(known), date(9)));
      const model = settle({ ...empty, rows, covered: bits(0, 5), ties: [tie] }, known);
      same('settled', await mirrorOf(pool, account), { covered: model.covered, ties: model.ties });
      const back = await keeping.takenBack(pool, claim);
      const seconds = back.map(({ from, to }) => ({ from: toSecond(from), to: toSecond(to) }));
      same('taken back', seconds, takenBack(model));
      // What could not be read again, for another reason, is not taken up by every sync.
      if (back.length === 0) continue;
      await transaction(pool, client =>
        keeping.addGap(client, claim, 'default', { ...back[0]!, reason: 'another' }, date(10)),
      );
      same('taken back, and failed since', await keeping.takenBack(pool, claim), []);
    }
};

const note = (client: pg.ClientBase, claim: Claim, tie: KnownTie, list = 'default') =>
  keeping.noteTie(client, claim, list, {
    ids: tie.members.map(id => `r${id}`),
    from: toMs(tie.from),
    to: toMs(tie.to),
    toldBy: toMs(tie.toldBy),
  });

/** A version that may be the later one is noted, and its second is not claimed. */
const held: Compare = async pool => {
  const rules: Rules = { lookback, perPage: 2, pages: 2, inclusive: true, ties: 'id', date: 'down' };
  let cases = 0;
  // What is known of this second by then.
  for (const time of [2, 3, 4, 5])
    for (const shownTime of [1, 2, 3, 4, 5])
      for (const now of [3, 4, 5, 6])
        for (const toldBy of time === 4 ? [undefined, 2, 9] : [undefined]) {
          const account = `h${time}-${shownTime}-${now}-${toldBy}`;
          const world = { ...begin([], now), now };
          const row = { time, order: 1, observed: 3, trueBy: 5 };
          const version = { time: shownTime, order: 2, made: 0, shows: 0 };
          const shown = { id: 0, time: shownTime, created: 0, version };
          const record = { time: shownTime, order: 2, observed: asOf(world, rules), trueBy: dateOf(world, rules) + 1 };
          if (isLater(row, record, lookback)) continue;
          cases++;
          const there = toldBy ? [{ from: shownTime, to: shownTime + 1, members: [1], toldBy, held: false }] : [];
          const model = commit({ ...empty, rows: [row], ties: there }, world, rules, [shown], {});
          await enroll(pool, account);
          await transaction(pool, async client => {
            await store(client, account, [time]);
            for (const tie of there) await note(client, claimOf(account), tie);
            const passedOver = { r0: date(shownTime).toISOString() };
            await keeping.noteHeld(client, { account, table }, passedOver, toMs(asOf(world, rules)));
          });
          same(account, await mirrorOf(pool, account), { covered: 0, ties: model.ties });
          // Later a reading notes the same second: what is held stays.
          const again = { from: shownTime, to: shownTime + 1, toldBy: 3, members: [1, 2], held: false };
          await transaction(pool, client => note(client, claimOf(account), again));
          const noted = commit(model, world, rules, [], { tie: { ...tieOf(again) } });
          same(`${account}, and again`, await mirrorOf(pool, account), { covered: 0, ties: noted.ties });
        }
  if (cases < 40) throw new Error(`${cases} cases`);
  // A record of the same time as its row is not held. The row may have been true long after it was observed.
  const account = 'held at one time';
  await enroll(pool, account);
  await transaction(pool, async client => {
    await store(client, account, [6]);
    await client.query('update helpdesk.tickets set _true_by = $2 where account_id = $1', [account, date(9)]);
    await keeping.noteHeld(client, { account, table }, { r0: date(6).toISOString() }, toMs(4));
  });
  same(account, await mirrorOf(pool, account), { covered: 0, ties: [] });
};

const tieOf = ({ from, to, toldBy, members }: KnownTie) => ({
  ...{ from: toMs(from), to: toMs(to), toldBy: toMs(toldBy) },
  ids: members.map(id => `r${id}`),
});

async function mirrorOf(
  db: pg.Pool | pg.ClientBase,
  account: string,
  list = 'default',
): Promise<Pick<Mirror, 'covered' | 'ties'>> {
  const { rows: seconds } = await db.query<{ set: number }>(
    `select coalesce(sum(1 << n), 0)::int as set from generate_series(0, 9) n, sync.coverage
     where (account_id, stream_key, list) = ($2, $3, $4)
       and covered @> tstzrange(to_timestamp($1 + n), to_timestamp($1 + n + 1))`,
    [zero, account, stream, list],
  );
  const { rows: noted } = await db.query<{ from: number; to: number; told: number; members: string[]; held: boolean }>(
    `select (extract(epoch from lower(seconds)) - $1)::int as from, (extract(epoch from upper(seconds)) - $1)::int as to,
       (extract(epoch from told_by) - $1)::int as told, array(select unnest(members) order by 1) as members, held
     from sync.ties where account_id = $2 and list = $3 order by 1, 2`,
    [zero, account, list],
  );
  return {
    covered: seconds[0]!.set,
    ties: noted.map(({ from, to, told, members, held }) => ({
      from,
      to,
      toldBy: told,
      members: members.map(id => Number(id.slice(1))),
      held,
    })),
  };
}

export const comparisons: Readonly<Record<string, Compare>> = {
  'which of two versions is the later one': versions,
  'which is the later one, where it is not noted by when a reply was true': unnoted,
  'what is covered, and where a sync resumes': covered,
  'a tie is settled: it is certain, or it is taken back': settled,
  'a version that may be the later one is noted, and its second is not claimed': held,
};
