/** What is covered, by examples, and what SQL says of it. Every small set and range is in packages/proofs/every-history/in-sql. */
import type pg from 'pg';
import { expect, test } from 'vitest';
import { addGap, cover, lookbackOf, readPosition, register } from '../../../src/engine/coverage/coverage.ts';
import { makePool, transaction } from '../../../src/engine/database/pool.ts';
import type { Claim } from '../../../src/engine/runs/claims.ts';
import { freshDatabase } from '../../support/postgres.ts';
import { at, second } from '../../support/scripted.ts';

const lists = ['default', 'spam', 'trash'] as const;
const claimOf = (account: string): Claim => ({
  account,
  stream: 'helpdesk.tickets',
  run: 0,
  token: 0,
  kind: 'sync',
  again: false,
});
const registered = lists.map(list => ({ stream: 'helpdesk.tickets' as const, list }));
const range = (from: number, to: number) => ({ from: second(from), to: second(to) });

async function withPool(work: (pool: pg.Pool) => Promise<void>): Promise<void> {
  await using db = await freshDatabase();
  const pool = makePool(db.url);
  await work(pool).finally(() => pool.end());
}

const secondOf = (time: Date | null) => (time === null ? null : (time.getTime() - second(0)) / 1000);

test('what is covered already is not written again', () =>
  withPool(async pool => {
    await register(pool, { account: 'a', sinceMs: second(0) }, registered, at(0));
    const write = (from: number, to: number) =>
      transaction(pool, c => cover(c, claimOf('a'), 'default', range(from, to)));
    const row = async () =>
      (await pool.query(`select xmin::text, covered::text from sync.coverage where list = 'default'`)).rows;
    await write(0, 10);
    const before = await row();
    expect(before[0].covered).toBe('{["2026-01-01 00:00:00+00","2026-01-01 00:00:10+00")}');
    await write(3, 10);
    expect(await row()).toEqual(before);
    await write(10, 11);
    expect((await row())[0].covered).toBe('{["2026-01-01 00:00:00+00","2026-01-01 00:00:11+00")}');
  }));

test('the reason of a gap is shown as long as the gap is there', () =>
  withPool(async pool => {
    const claim = claimOf('a');
    await register(pool, { account: 'a', sinceMs: second(0) }, registered, at(0));
    await transaction(pool, async c => {
      await cover(c, claim, 'default', range(0, 5));
      await addGap(c, claim, 'default', { ...range(5, 6), reason: 'first' }, at(20));
      await addGap(c, claim, 'default', { ...range(5, 6), reason: 'second' }, at(21));
      await cover(c, claim, 'default', range(6, 9));
      await cover(c, claim, 'default', range(11, 12));
    });
    const gaps = async () => (await pool.query('select * from sync.gaps order by gap_from')).rows;
    const gap = (from: number, to: number, reason: string | null) => ({
      account_id: 'a',
      source: 'helpdesk',
      stream: 'tickets',
      stream_key: 'helpdesk.tickets',
      list: 'default',
      gap_from: at(from),
      gap_to: at(to),
      reason,
    });
    expect(await gaps()).toEqual([gap(5, 6, 'second'), gap(9, 11, null)]);
    await transaction(pool, c => cover(c, claim, 'default', range(4, 7)));
    expect(await gaps()).toEqual([gap(9, 11, null)]);
  }));

test('the start of the mirror and the lookback are those of the source', () =>
  withPool(async pool => {
    const shelves = { stream: 'books.shelves' as const, list: 'me', sinceMs: second(0), lookbackMs: 7000 };
    await register(pool, { account: 'a', sinceMs: second(10), lookbackMs: 3000 }, [...registered, shelves], at(0));
    const claims = { desk: claimOf('a'), books: { ...claimOf('a'), stream: shelves.stream } };
    await transaction(pool, client => cover(client, claims.books, 'me', { from: second(0), to: second(5) }));
    expect((await readPosition(pool, claims.desk, 'default')).fromMs).toBe(second(10));
    expect((await readPosition(pool, claims.books, 'me')).fromMs).toBe(second(5));
    expect(await Promise.all(Object.values(claims).map(claim => lookbackOf(pool, claim)))).toEqual([3000, 7000]);
    const { rows } = await pool.query(
      `select (select count(*)::int from sync.gaps where source = 'books') as gaps, sync.lists_complete_through('a', 'books.shelves') as through,
         sync.complete_from('a', 'books.shelves') as starts`,
    );
    expect(rows).toEqual([{ gaps: 0, through: at(5), starts: at(0) }]);
    await register(
      pool,
      { account: 'a', sinceMs: second(10), lookbackMs: 3000 },
      [{ ...shelves, sinceMs: second(4) }],
      at(0),
    );
    expect((await pool.query(`select since from sync.coverage where source = 'books'`)).rows).toEqual([
      { since: at(4) },
    ]);
  }));

/** Tickets: when they were updated, and as of when their messages were read; up to when each list is covered, and the messages are complete. */
const waiting: [says: string, tickets: string, covered: number[], complete: number | null][] = [
  ['nothing waits', '5:5 6:9', [20, 20, 20], 20],
  ['one was never read', '5:never 6:9', [20, 20, 20], 5],
  ['one has changed since', '9:8 7:9', [20, 20, 20], 9],
  ['the least of several counts', '9:never 7:3', [20, 20, 20], 7],
  ['what is gone waits for nothing', '5:gone 9:never', [20, 20, 20], 9],
  ['tickets are behind what waits', '15:never', [20, 12, 20], 12],
  ['a list was never read', '5:never', [20, 0, 20], null],
  ['nothing was ever read', '', [0, 0, 0], null],
];
test('messages are complete through the first ticket that waits', () =>
  withPool(async pool => {
    for (const [n, [says, all, covered, complete]] of waiting.entries()) {
      const tickets = all.split(' ').flatMap(one => {
        const [updated = '', asOf = ''] = one.split(':');
        const read = /\d/.test(asOf) ? Number(asOf) : null;
        return updated === '' ? [] : [[Number(updated), read, asOf === 'gone'] as const];
      });
      const account = `a${n}`;
      await register(pool, { account, sinceMs: second(0) }, registered, at(0));
      await transaction(pool, async c => {
        for (const [i, list] of lists.entries())
          if (covered[i]! > 0) await cover(c, claimOf(account), list, range(0, covered[i]!));
      });
      for (const [i, [updated, asOf, gone]] of tickets.entries()) {
        await pool.query(
          `insert into helpdesk.tickets (account_id, id, updated_at, _messages_as_of, _first_seen_at, _synced_at, _observed_at, _deleted_at, _payload)
           values ($6, $1, $2, $3, $2, $2, $2, $4, '{}'), ('beside ' || $6, $1, $5, null, $2, $2, $2, null, '{}')`,
          [`t${i}`, at(updated), asOf === null ? null : at(asOf), gone ? at(30) : null, at(1), account],
        );
      }
      const through = 'select sync.complete_through($1, $2) as through';
      const of = async (name: string) => secondOf((await pool.query(through, [name, 'messages'])).rows[0].through);
      const status = await pool.query(
        `select complete_through, waiting from sync.status where account_id = $1 and stream = 'messages'`,
        [account],
      );
      const waits = tickets.filter(([updated, asOf, gone]) => !gone && (asOf === null || asOf < updated)).length;
      expect({ says, own: await of(account), beside: await of(`beside ${account}`), rows: status.rows }).toEqual({
        ...{ says, own: complete, beside: null },
        rows: [{ complete_through: complete === null ? null : at(complete), waiting: waits }],
      });
    }
  }));
