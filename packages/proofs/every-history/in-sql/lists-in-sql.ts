/**
 * What the product keeps of the lists of an account, beside a model in memory: where a sync resumes, which gap a backfill reads
 * next, the places of walks, and what is taken back. Everything stands beside the same of another account, stream and
 * list, which must stay as it is.
 */
import type pg from 'pg';
import { transaction } from '../../../../src/engine/database/pool.ts';
import type { Walk } from '../../../../src/engine/reading/reading.ts';
import type { Claim } from '../../../../src/engine/runs/claims.ts';
import { isNamed } from '../planted.ts';
import { bits, has, topOf } from '../readers/mirror.ts';
import { toMs, toSecond } from '../readers/world.ts';
import { type Compare, claimOf, date, keeping, lookback, same, store, stream, table } from './in-sql.ts';

const lists = [
  { stream, list: 'default' },
  { stream, list: 'spam' },
  { stream: 'helpdesk.customers', list: 'default' },
] as const;
const sets = (seconds: number) => Array.from({ length: 2 ** seconds }, (_, set) => set);

const enroll = (db: pg.Pool | pg.ClientBase, account: string, since = 0) =>
  keeping.register(db, { account, sinceMs: toMs(since), lookbackMs: lookback * 1000 }, lists, date(0));

/** The multirange of a set of seconds. */
const multirange = (set: number) =>
  `{${Array.from({ length: 8 }, (_, n) => n)
    .filter(n => has(set, n))
    .map(n => `[${date(n).toISOString()},${date(n + 1).toISOString()})`)
    .join(',')}}`;

const put = (db: pg.Pool | pg.ClientBase, account: string, set: number, redundant = false) =>
  db.query(
    `update sync.coverage set covered = $2, redundant = $3 where (account_id, stream_key, list) = ($1, $4, 'default')`,
    [account, multirange(set), redundant, stream],
  );

/** What an account has registered, act by act. */
const registered: Compare = async pool => {
  const acts = [
    { since: 0, lookback: 1 },
    { since: 2, lookback: 1 },
    { since: 2, lookback: 2 },
    'read',
    'forget spam',
  ] as const;
  await enroll(pool, 'registered beside');
  await put(pool, 'registered beside', 1);
  let cases = 0;
  for (const first of acts.slice(0, 2))
    for (const second of acts)
      for (const third of acts)
        await transaction(pool, async client => {
          const account = `registered ${cases++}`;
          let told: { since: Date; lookback: string; mirrored: Date } | undefined;
          let isRead = false;
          let known = new Set<string>();
          for (const [n, act] of [first, second, third].entries()) {
            if (act === 'read') {
              await put(client, account, 1);
              isRead = true;
            } else if (act === 'forget spam') {
              await keeping.forgetLists(client, account, [lists[0]]);
              known.delete('tickets spam');
            } else {
              await keeping.register(
                client,
                { account, sinceMs: toMs(act.since), lookbackMs: act.lookback * 1000 },
                lists,
                date(n),
              );
              const mirrored = told && isRead ? told.mirrored : date(n);
              told = { since: date(act.since), lookback: `00:00:0${act.lookback}`, mirrored };
              known = new Set(['customers default', 'tickets default', 'tickets spam']);
            }
            const { rows } = await client.query(
              `select since, lookback::text, mirrored_since as mirrored from sync.accounts where account_id = $1`,
              [account],
            );
            same(`${account}, ${n}`, rows, [told]);
            const { rows: listed } = await client.query(
              `select stream || ' ' || list as name from sync.coverage where account_id = $1 order by stream, list`,
              [account],
            );
            same(
              `the lists of ${account}, ${n}`,
              listed.map(({ name }) => name),
              [...known].sort(),
            );
          }
        });
  const { rows } = await pool.query(`select from sync.coverage where account_id = 'registered beside'`);
  same('the lists of another account', rows.length, 3);
};

const walkAt = (second: number, more: Partial<Walk> = {}): Walk => ({
  ...{ since: toMs(second), asOf: toMs(second + 3), page: second + 1, deep: second % 2 === 0, updatedSince: undefined },
  ...more,
});

/** Where a sync resumes, and with which walk. */
const resumed: Compare = async pool => {
  const beside = walkAt(7);
  const unknown = await keeping.readPosition(pool, claimOf('resumed by nobody'), 'default').catch(String);
  same('a list that is not registered', /list default of .* is not registered/.test(String(unknown)), true);
  for (const since of [0, 2])
    await transaction(pool, async client => {
      const account = `resumed ${since}`;
      const claim = claimOf(account);
      await enroll(client, account, since);
      await enroll(client, `${account} beside`, 1);
      for (const [other, list] of [
        [claimOf(`${account} beside`), 'default'],
        [claim, 'spam'],
        [{ ...claim, stream: 'helpdesk.customers' }, 'default'],
      ] as const)
        for (const until of [undefined, toMs(3)]) await keeping.placeWalk(client, other, list, beside, until);
      for (const set of sets(4))
        for (const isFirst of [false, true]) {
          await put(client, account, set, set % 3 === 0);
          const { fromMs, ...more } = await keeping.readPosition(client, claim, 'default', isFirst);
          const above = isFirst ? set : set & ~bits(0, since);
          const from = above === 0 ? (isFirst ? 0 : toMs(since)) : toMs(topOf(above));
          same(`${account}, ${set}: from`, fromMs, from);
          const pages = { size: undefined, varies: false, othersVary: false, provenMs: undefined };
          same(`${account}, ${set}`, more, { redundant: set % 3 === 0, firstLoad: set === 0, walk: undefined, pages });
          same(`${account}, ${set}`, await keeping.isRedundant(client, claim, 'default'), set % 3 === 0);
        }
      const place = (walk: Walk | null, until?: number) => keeping.placeWalk(client, claim, 'default', walk, until);
      const found = async () => (await keeping.readPosition(client, claim, 'default')).walk;
      await place(walkAt(4), toMs(5));
      same('the walk of a backfill', await found(), undefined);
      for (const walk of [walkAt(2), walkAt(3, { updatedSince: toMs(1) }), walkAt(5)]) {
        await place(walk);
        same('the walk of a sync', await found(), walk);
      }
      await place(null, toMs(5));
      same('the walk of a sync', await found(), walkAt(5));
      await place(null);
      same('a walk that is over', await found(), undefined);
      const { rows } = await client.query(`select from sync.walks where account_id like $1`, [`${account}%`]);
      same('walks beside', rows.length, 6);
    });
};

interface Asked {
  readonly set: number;
  readonly again: boolean;
  /** Of the run; null is what the account wants. */
  readonly since: number | null;
  readonly until: number | null;
  readonly before: number;
  readonly isFirst: boolean;
  /** With `again`: what this run has read, and one that ran beside it, as it is told by either. */
  readonly own: number;
  readonly beside: 'none' | 'earlier' | 'told' | 'later' | 'a later try';
}
const [opened, besides] = [6, 0b0100];

function* asked(): Generator<Asked> {
  const plain = { again: false, own: 0, beside: 'none', isFirst: false } as const;
  for (const set of sets(4))
    for (const since of [null, 0, 2])
      for (const until of [null, 3]) for (const before of [2, 9]) yield { ...plain, set, since, until, before };
  for (const set of [0, 0b0110]) yield { ...plain, set, since: null, until: null, before: 9, isFirst: true };
  for (const own of sets(3))
    for (const beside of ['none', 'earlier', 'told', 'later', 'a later try'] as const)
      yield { ...plain, again: true, set: 0b0111, since: 0, until: own % 2 ? 3 : null, before: 9, own, beside };
}

/** The newest gap, as the model has it. */
function gapOf({ set, again, since, until, before, isFirst, own, beside }: Asked, wanted: number) {
  const begin = since ?? (isFirst ? -1 : wanted);
  const end = Math.min(until ?? (again || set === 0 ? opened : topOf(set)), before);
  const done = again ? own | (beside === 'told' || beside === 'later' ? besides : 0) : set;
  let to = end;
  while (to > begin && has(done, to - 1)) to--;
  let from = to;
  while (from > begin && !has(done, from - 1)) from--;
  return from < to ? { from: from === -1 ? 0 : toMs(from), to: toMs(to) } : undefined;
}

async function openRun(client: pg.ClientBase, account: string, { again, since, until }: Asked, more = {}) {
  const run = { beside: [] as number[], retries: null, ...more };
  const { rows } = await client.query<{ id: string }>(
    `insert into sync.stored_runs (account_id, kind, started_at, since, until, again, beside, retries)
     values ($1, 'backfill', $2, $3, $4, $5, $6, $7) returning id`,
    [
      ...[account, date(opened), since === null ? null : date(since), until === null ? null : date(until)],
      ...[again, run.beside, run.retries],
    ],
  );
  return Number(rows[0]!.id);
}

const haveRead = (client: pg.ClientBase, account: string, run: number, set: number, list = 'default') =>
  client.query(
    `insert into sync.run_lists (run_id, account_id, source, stream, list, until, covered)
     values ($1, $2, 'helpdesk', 'tickets', $5, $3, $4)`,
    [run, account, date(opened), multirange(set), list],
  );

/** Which gap a backfill reads next. */
const gaps: Compare = async pool => {
  let cases = 0;
  for (const one of asked())
    await transaction(pool, async client => {
      const wanted = cases % 2;
      const account = `gaps ${cases++}`;
      const name = `${account} ${JSON.stringify(one)}`;
      await enroll(client, account, wanted);
      await put(client, account, one.set);
      const before = await openRun(client, account, one);
      const run = await openRun(client, account, one, { beside: one.beside === 'told' ? [before] : [] });
      const after = await openRun(client, account, one, { retries: one.beside === 'a later try' ? run : null });
      if (one.again && one.beside !== 'none') {
        const isEarlier = one.beside === 'earlier' || one.beside === 'told';
        await haveRead(client, account, isEarlier ? before : after, besides);
      }
      const claim: Claim = { ...claimOf(account), kind: 'backfill', run, again: one.again };
      const gap = gapOf(one, wanted);
      const placed = walkAt(1, cases % 3 === 0 ? {} : { updatedSince: toMs(1) });
      for (const until of gap ? [gap.to, undefined] : [])
        for (const list of ['default', 'spam']) await keeping.placeWalk(client, claim, list, placed, until);
      const next = () => keeping.nextGap(client, claim, 'default', one.isFirst, toMs(one.before));
      if (one.set !== 0 && one.since !== null && one.since > topOf(one.set)) {
        const refused = await next().then(String, (error: unknown) => isNamed(error, 'Fatal'));
        return same(`${name}: a gap below would be left`, refused, true);
      }
      // A run that reads everything again begins its walks anew, once.
      const walk = { ...placed, until: gap?.to };
      if (one.again) {
        // What the run has read of another list is another matter.
        await haveRead(client, account, run, 0, 'spam');
        const first = await next();
        if (one.own === 0) same(name, first, gap && { ...gap, walk: undefined });
        for (const second of [0, 1, 2])
          if (has(one.own, second))
            await keeping.cover(client, claim, 'default', { from: toMs(second), to: toMs(second + 1) });
        if (gap) await keeping.placeWalk(client, claim, 'default', placed, gap.to);
      }
      for (const _ of ['first', 'again']) same(name, await next(), gap && { ...gap, walk });
      // The range does not grow with what is read meanwhile.
      if (!one.again) {
        const end = topOf(one.set);
        const range = { from: toMs(end + 1), to: toMs(end + 2) };
        await keeping.cover(client, claim, 'default', range);
        const settled = one.until ?? (end === 0 ? opened : end);
        const grown = gapOf({ ...one, set: one.set | bits(end + 1, end + 2), until: settled }, wanted);
        same(`${name}: later`, withoutWalk(await next()), grown);
      }
      // How far a list is to be read is settled for this run and list alone.
      const { rows: settled } = await client.query(
        `select run_id::int, stream, list from sync.run_lists where account_id = $1 and covered = '{}' order by list`,
        [account],
      );
      const lists = [...(!one.again || one.own === 0 ? ['default'] : []), ...(one.again ? ['spam'] : [])];
      const must = lists.map(list => ({ run_id: run, stream: 'tickets', list }));
      same(`${name}: settled`, settled, must);
      const { rows } = await client.query(`select list, until from sync.walks where account_id = $1`, [account]);
      same(`${name}: walks`, rows.length, gap ? 4 : 0);
      await put(client, account, one.set, true);
      same(`${name}: a list that is redundant`, await next(), undefined);
    });
};

const withoutWalk = (found: Awaited<ReturnType<(typeof keeping)['nextGap']>>) =>
  found && { from: found.from, to: found.to };

/** A list whose records the default list shows as well: what a sweep proved of the default one is forgotten, once. */
const redundant: Compare = async pool => {
  const accounts = ['redundant', 'redundant beside'];
  const sweep = (client: pg.ClientBase) =>
    client.query(
      `insert into sync.swept (account_id, source, stream, list, created, as_of, run_id)
       select account, 'helpdesk', s.stream, s.list, tstzrange($2, $3), $3, 1 from unnest($1::text[]) account,
         (values ('tickets', 'default'), ('tickets', 'spam'), ('customers', 'default')) s (stream, list)
       on conflict do nothing`,
      [accounts, date(0), date(1)],
    );
  const left = async (client: pg.ClientBase) => (await client.query('select from sync.swept')).rows.length;
  await transaction(pool, async client => {
    for (const account of accounts) await enroll(client, account);
    await client.query('delete from sync.swept');
    await sweep(client);
    await keeping.makeRedundant(client, claimOf('redundant'), 'spam');
    same('what is swept', await left(client), 5);
    await sweep(client);
    await keeping.makeRedundant(client, claimOf('redundant'), 'spam');
    same('what is swept, the second time', await left(client), 6);
    const { rows } = await client.query(
      `select account_id, stream, list from sync.coverage where redundant and account_id = any($1)`,
      [accounts],
    );
    same('redundant', rows, [{ account_id: 'redundant', stream: 'tickets', list: 'spam' }]);
    same('is redundant', await keeping.isRedundant(client, claimOf('redundant'), 'spam'), true);
  });
};

/** What was taken back stays open until it is read, or fails for another reason. */
const open: Compare = async pool => {
  let cases = 0;
  for (const since of [0, 2, 3])
    for (const read of [0, bits(1, 2), bits(1, 3)])
      for (const isRedundant of [false, true])
        for (const found of [undefined, 8, 9, 10])
          for (const at of [0, 2, 5]) {
            if (found === undefined && at > 0) continue;
            const account = `open ${cases++}`;
            const claim = claimOf(account);
            await transaction(pool, async client => {
              await enroll(client, account, since);
              await put(client, account, read, isRedundant);
              const gap = { from: toMs(1), to: toMs(3), reason: keeping.copiesDiffer };
              await keeping.addGap(client, claim, 'default', gap, date(9));
              if (found === undefined) return;
              const other = { from: toMs(at), to: toMs(at + 2), reason: 'another' };
              await keeping.addGap(client, claim, 'default', other, date(found));
            });
            const isSame = found !== undefined && at === 1;
            const failed = found !== undefined && found >= 9 && at < 3 && at + 2 > 1;
            const isOpen = !isRedundant && read !== bits(1, 3) && since < 3 && !failed && !isSame;
            const back = await keeping.takenBack(pool, claim);
            const name = `${account}: since ${since}, read ${read}, ${isRedundant}, ${found}, ${at}`;
            same(name, back, isOpen ? [{ list: 'default', from: toMs(1), to: toMs(3) }] : []);
            same(`${name}: settled`, await keeping.isSettled(pool, claim), read === bits(1, 3));
          }
};

/** Several ties at once, in two lists, and a member that was deleted. */
const several: Compare = async pool => {
  const claim = claimOf('several');
  const tie = (from: number, ids: readonly string[], toldBy: number) => ({
    ...{ from: toMs(from), to: toMs(from + 1), toldBy: toMs(toldBy), ids },
  });
  await transaction(pool, async client => {
    for (const account of ['several', 'several beside']) {
      await enroll(client, account);
      await store(client, account, [1, 2, 5, 3]);
      for (const { stream: of, list } of lists)
        await keeping.cover(client, { ...claimOf(account), stream: of }, list, { from: toMs(0), to: toMs(6) });
      for (const list of ['default', 'spam'])
        await keeping.noteTie(client, claimOf(account), list, tie(2, ['r1', 'r3'], list === 'spam' ? 9 : 4));
    }
    await keeping.noteTie(client, claim, 'default', tie(0, ['r2'], 4));
    await keeping.noteTie(client, claim, 'default', tie(1, ['r0'], 4));
    await keeping.noteTie(client, claim, 'spam', tie(4, ['r2'], 4));
    // It is gone: nobody knows whether it left before.
    await keeping.noteTie(client, claim, 'spam', tie(3, ['r3'], 4));
    await client.query(
      `update helpdesk.tickets set updated_at = $1, _deleted_at = $2
      where (account_id, id) = ('several', 'r3')`,
      [date(2), date(7)],
    );
    same('something is ripe', await keeping.hasRipe(client as unknown as pg.Pool, claim, toMs(4)), true);
    await keeping.settleTies(client, claim, table, toMs(4), date(9));
  });
  const seconds = async (account: string, of: string, list: string) =>
    (
      await pool.query<{ covered: string }>(
        `select covered::text from sync.coverage where (account_id, stream_key, list) = ($1, $2, $3)`,
        [account, of, list],
      )
    ).rows[0]!.covered.split(',').length;
  for (const { stream: of, list } of lists) {
    same(`what another account has of ${of} ${list}`, await seconds('several beside', of, list), 2);
  }
  const back = await keeping.takenBack(pool, claim);
  same(
    'taken back',
    back.map(({ list, from }) => [list, toSecond(from)]),
    [
      ['default', 0],
      ['default', 2],
      ['spam', 3],
      ['spam', 4],
    ],
  );
  const { rows } = await pool.query(
    `select account_id, list, count(*)::int as ties from sync.ties where account_id like 'several%' group by 1, 2 order by 1, 2`,
  );
  same('ties that are left', rows, [
    { account_id: 'several', list: 'spam', ties: 1 },
    { account_id: 'several beside', list: 'default', ties: 1 },
    { account_id: 'several beside', list: 'spam', ties: 1 },
  ]);
  same('the customers', await seconds('several', 'helpdesk.customers', 'default'), 2);
};

/** What keeps a stream from being settled. */
const unsettled: Compare = async pool => {
  const claim = claimOf('unsettled');
  const is = async (what: string, settled: boolean) => same(what, await keeping.isSettled(pool, claim), settled);
  const reject = (account: string, of: string, cleared: number | null) =>
    pool.query(
      `insert into sync.rejects (account_id, source, stream, key, reason, replayable, first_seen_at, last_seen_at, cleared_at)
       values ($1, 'helpdesk', $2, 'r0', '', true, $3, $3, $4)`,
      [account, of, date(0), cleared === null ? null : date(cleared)],
    );
  const tie = { from: toMs(0), to: toMs(1), toldBy: toMs(2), ids: ['r0'] };
  await transaction(pool, async client => {
    for (const account of ['unsettled', 'unsettled beside']) await enroll(client, account);
    const others = [claimOf('unsettled beside'), { ...claim, stream: 'helpdesk.customers' as const }];
    for (const other of others) {
      await keeping.noteTie(client, other, 'default', tie);
      await keeping.addGap(client, other, 'default', { ...tie, reason: keeping.copiesDiffer }, date(9));
    }
    await keeping.addGap(client, claim, 'default', { from: toMs(3), to: toMs(4), reason: 'another' }, date(9));
  });
  await reject('unsettled beside', 'tickets', null);
  await reject('unsettled', 'customers', null);
  await reject('unsettled', 'tickets', 1);
  await is('nothing is left', true);
  same('nothing is ripe', await keeping.hasRipe(pool, claim, toMs(9)), false);
  await transaction(pool, client => keeping.noteTie(client, claim, 'default', tie));
  await is('a tie is left', false);
  await pool.query(`delete from sync.ties where (account_id, stream_key) = ('unsettled', $1)`, [stream]);
  await is('nothing is left', true);
  await reject('unsettled', 'tickets', null);
  await is('a reject is left', false);
};

export const listComparisons: Readonly<Record<string, Compare>> = {
  'which gap a backfill reads next': gaps,
  'what an account has registered': registered,
  'where a sync resumes, and with which walk': resumed,
  'what was taken back stays open until it is read, or fails for another reason': open,
  'several ties are settled at once': several,
  'what keeps a stream from being settled': unsettled,
  'a list that is redundant': redundant,
};
