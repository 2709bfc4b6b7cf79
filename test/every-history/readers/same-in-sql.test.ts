/**
 * The mirror of the small worlds is a model. Here PostgreSQL does what the model does, with the statements of the product,
 * for every small case: which of two versions is later, what is covered, and what becomes of ties.
 */
import type pg from 'pg';
import { expect, test } from 'vitest';
import { laterVersion } from '../../../src/engine/commit/merge.ts';
import { addGap, cover, readPosition, register } from '../../../src/engine/coverage/coverage.ts';
import { noteHeld, noteTie, settleTies, takenBack as takenBackInSql } from '../../../src/engine/coverage/ties.ts';
import { makePool, transaction } from '../../../src/engine/database/pool.ts';
import type { Claim } from '../../../src/engine/runs/claims.ts';
import { freshDatabase } from '../../support/postgres.ts';
import { bits, commit, empty, isLater, type KnownTie, type Mirror, settle, takenBack, topOf } from './mirror.ts';
import { asOf, begin, dateOf, type Rules, toMs, toSecond } from './world.ts';

const lookback = 1;
const stream = 'helpdesk.tickets' as const;
const table = { name: 'helpdesk.tickets', version: 'updated_at' } as const;
const claimOf = (account: string): Claim => ({ account, stream, run: 0, token: 0, kind: 'sync', again: false });
const date = (second: number) => new Date(toMs(second));

async function withPool(work: (pool: pg.Pool) => Promise<void>): Promise<void> {
  await using db = await freshDatabase();
  const pool = makePool(db.url);
  await work(pool).finally(() => pool.end());
}

const enroll = (db: pg.Pool | pg.ClientBase, account: string) =>
  register(db, account, toMs(0), [{ stream, list: 'default' }], date(0), lookback * 1000);

test('which of two versions is the later one', () =>
  withPool(async pool => {
    await enroll(pool, 'a');
    // Times of a row and of a record, when their replies were true at the earliest, and by when at the latest.
    const { rows } = await pool.query<{ t: number[]; e: number[]; later: boolean }>({
      text: `with cases as (
          select v, o, v || '-' || o || '-' || b as name, b,
            to_timestamp($1 + v) as updated_at, to_timestamp($1 + o) as _observed_at, to_timestamp($1 + o + b) as _true_by
          from generate_series(0, 6) v, generate_series(0, 5) o, generate_series(1, 2) b),
        a as (select $2::text)
        select array[t.v, t.o, t.o + t.b] as t, array[excluded.v, excluded.o, excluded.o + excluded.b] as e,
          (${laterVersion('updated_at')}) as later
        from cases t, cases excluded`,
      values: [toMs(0) / 1000, 'a'],
    });
    const row = ([time, observed, trueBy]: number[]) => ({
      time: time!,
      observed: observed!,
      trueBy: trueBy!,
      order: 0,
    });
    const differ = rows.filter(({ t, e, later }) => isLater(row(t), row(e), lookback) !== later);
    expect(rows.length).toBe(84 * 84);
    expect(differ).toEqual([]);
  }));

test('what is covered, and where a sync resumes', () =>
  withPool(async pool => {
    await enroll(pool, 'a');
    const claim = claimOf('a');
    const sets = Array.from({ length: 2 ** 5 }, (_, set) => set);
    const ranges = Array.from({ length: 6 }, (_, from) =>
      Array.from({ length: 6 - from }, (_, length) => ({ from, to: from + length })),
    ).flat();
    await transaction(pool, async client => {
      for (const set of sets)
        for (const { from, to } of ranges) {
          await client.query(
            `update sync.coverage set covered = coalesce((
               select range_agg(tstzrange(to_timestamp($1 + n), to_timestamp($1 + n + 1)))
               from generate_series(0, 4) n where ($2::int >> n) & 1 = 1), '{}')`,
            [toMs(0) / 1000, set],
          );
          await cover(client, claim, 'default', { from: toMs(from), to: toMs(to) });
          const { rows } = await client.query<{ set: number }>(
            `select coalesce(sum(1 << n), 0)::int as set from generate_series(0, 9) n, sync.coverage
             where covered @> tstzrange(to_timestamp($1 + n), to_timestamp($1 + n + 1))`,
            [toMs(0) / 1000],
          );
          const covered = set | bits(from, to);
          expect(rows[0]!.set).toBe(covered);
          const { fromMs } = await readPosition(client, claim, 'default');
          expect(toSecond(fromMs)).toBe(topOf(covered));
        }
    });
  }));

/** Three tickets, as their rows show them. */
const rowsOf = (times: readonly number[]): Mirror['rows'] =>
  times.map((time, order) => ({ time, order, observed: 3, trueBy: 5 }));

async function store(client: pg.ClientBase, account: string, times: readonly number[]): Promise<void> {
  for (const [id, time] of times.entries())
    await client.query(
      `insert into helpdesk.tickets (account_id, id, updated_at, _first_seen_at, _synced_at, _observed_at, _true_by, _payload)
       values ($1, $2, $3, $4, $4, $4, $5, '{}')`,
      [account, `r${id}`, date(time), date(3), date(5)],
    );
}

test('a tie is settled: it is certain, or it is taken back', () =>
  withPool(async pool => {
    const times = [1, 2, 4];
    const ties: KnownTie[] = [];
    for (const from of [0, 1, 2])
      for (const to of [from + 1, from + 2])
        for (const toldBy of [2, 3, 4])
          for (const members of [[0], [1], [2], [0, 1], [0, 2]]) ties.push({ from, to, toldBy, members, held: false });
    const rows = rowsOf(times);
    for (const [n, tie] of ties.entries())
      for (const known of [2, 3]) {
        const account = `a${n}-${known}`;
        await enroll(pool, account);
        const claim = claimOf(account);
        const covered = bits(0, 5);
        await transaction(pool, async client => {
          await store(client, account, times);
          await cover(client, claim, 'default', { from: toMs(0), to: toMs(5) });
          const ids = tie.members.map(id => `r${id}`);
          await noteTie(client, claim, 'default', {
            ids,
            from: toMs(tie.from),
            to: toMs(tie.to),
            toldBy: toMs(tie.toldBy),
          });
          await settleTies(client, claim, table, toMs(known), date(9));
        });
        const model = settle({ ...empty, rows, covered, ties: [tie] }, known);
        expect(await mirrorOf(pool, account)).toEqual({ covered: model.covered, ties: model.ties });
        const back = await takenBackInSql(pool, claim);
        expect(back.map(({ from, to }) => ({ from: toSecond(from), to: toSecond(to) }))).toEqual(takenBack(model));
        // What could not be read again, for another reason, is not taken up by every sync.
        if (back.length === 0) continue;
        await transaction(pool, client =>
          addGap(client, claim, 'default', { ...back[0]!, reason: 'another' }, date(10)),
        );
        expect(await takenBackInSql(pool, claim)).toEqual([]);
      }
  }));

test('a version that may be the later one is noted, and its second is not claimed', () =>
  withPool(async pool => {
    const rules: Rules = { lookback, perPage: 2, pages: 2, inclusive: true, ties: 'id', date: 'down' };
    let cases = 0;
    for (const time of [2, 3, 4, 5])
      for (const shownTime of [1, 2, 3, 4])
        for (const now of [3, 4, 5, 6]) {
          if (shownTime >= time) continue;
          const account = `h${time}-${shownTime}-${now}`;
          await enroll(pool, account);
          const world = { ...begin([], now), now };
          const row = { time, order: 1, observed: 3, trueBy: 5 };
          const version = { time: shownTime, order: 2, made: 0, shows: 0 };
          const shown = { id: 0, time: shownTime, created: 0, version };
          const record = { time: shownTime, order: 2, observed: asOf(world, rules), trueBy: dateOf(world, rules) + 1 };
          if (isLater(row, record, lookback)) continue;
          cases++;
          const model = commit({ ...empty, rows: [row] }, world, rules, [shown], {});
          await transaction(pool, async client => {
            await store(client, account, [time]);
            const passedOver = { r0: date(shownTime).toISOString() };
            await noteHeld(client, { account, table }, passedOver, toMs(asOf(world, rules)));
          });
          expect(await mirrorOf(pool, account), account).toEqual({ covered: 0, ties: model.ties });
        }
    expect(cases).toBeGreaterThan(20);
  }));

async function mirrorOf(pool: pg.Pool, account: string): Promise<Pick<Mirror, 'covered' | 'ties'>> {
  const zero = toMs(0) / 1000;
  const { rows: seconds } = await pool.query<{ set: number }>(
    `select coalesce(sum(1 << n), 0)::int as set from generate_series(0, 9) n, sync.coverage
     where account_id = $2 and covered @> tstzrange(to_timestamp($1 + n), to_timestamp($1 + n + 1))`,
    [zero, account],
  );
  const { rows: ties } = await pool.query<{ from: number; to: number; told: number; members: string[]; held: boolean }>(
    `select (extract(epoch from lower(seconds)) - $1)::int as from, (extract(epoch from upper(seconds)) - $1)::int as to,
       (extract(epoch from told_by) - $1)::int as told, members, held
     from sync.ties where account_id = $2 order by 1, 2`,
    [zero, account],
  );
  return {
    covered: seconds[0]!.set,
    ties: ties.map(({ from, to, told, members, held }) => ({
      from,
      to,
      toldBy: told,
      members: members.map(id => Number(id.slice(1))),
      held,
    })),
  };
}
