/**
 * Moves an account to another warehouse. It is read-only in the former one from the first step on, and unknown in the new one until all
 * of its rows are there and equal; so at no time do two warehouses write it, or spend its credits. A mark in both (sync.moves) says how
 * far it is, so a move that dies resumes with the same command.
 */
import type pg from 'pg';
import { ShelfdeskError, UsageError } from '../../../errors.ts';
import { openCopying } from '../../database/backup/backup.ts';
import { pendingMigrations } from '../../database/migrate.ts';
import { bringCalendars } from '../../database/move/calendars.ts';
import {
  type Both,
  compareRows,
  copyRows,
  type Progress,
  reserveNumbers,
  type Same,
} from '../../database/move/copy-rows.ts';
import { moveLock, settleFences } from '../../database/move/fence.ts';
import { type MovedTable, movedTables } from '../../database/move/tables.ts';
import { type Queryable, transaction } from '../../database/pool.ts';
import { query, raw, sql } from '../../database/sql.ts';
import { noteOperation } from '../operations.ts';
import { withAccount } from '../runs.ts';
import { requireUnserved, rowsOf } from './remove-account.ts';

/** A warehouse; `name` without its login, as host:port/database. */
export interface Place {
  readonly url: string;
  readonly pg: pg.Pool;
  readonly name: string;
}

export interface Move {
  readonly account: string;
  readonly who: string;
  readonly from: Place;
  readonly to: Place;
}

interface Mark {
  readonly id: string;
  readonly state: 'leaving' | 'moved' | 'arriving' | 'arrived';
  readonly place: string;
  readonly progress: Progress | null;
}

/** Clocks of servers that differ by more would free spent credits too early. */
const mostApartMs = 2000;

const markOf = (db: Queryable, account: string): Promise<Mark | undefined> =>
  query(db).first`
    select move_id as id, state, place, progress from sync.moves where account_id = ${account}`;

/** What a move finds: nothing of one, or one that is not at its end. Throws UsageError if the account cannot go there. */
export async function lookAtMove({ account, from, to }: Move): Promise<'new' | 'begun'> {
  for (const place of [from, to]) await requireOwner(place);
  const { missing, unknown } = await pendingMigrations(to.pg);
  if (missing.length + unknown.length > 0)
    throw new ShelfdeskError(
      `the tables of ${to.name} are of another Shelfdesk: ${[...missing, ...unknown].join(', ')}`,
      'Nothing was moved. Run `npx shelfdesk migrate` of one version with both, and stop workers of another one.',
    );
  const [here, there] = [await markOf(from.pg, account), await markOf(to.pg, account)];
  const left = here?.state === 'leaving' || here?.state === 'moved' ? here : undefined;
  if (left !== undefined && left.id === there?.id && there.state !== left.state) {
    if (there.state !== 'arrived') return 'begun';
    throw new UsageError(`account '${account}' moved to ${left.place} already`, 'There is nothing to do.');
  }
  // It died before the new warehouse had its mark. One of an earlier move may be there.
  const isAlone = left?.state === 'leaving' && left.place === to.name && !/ing$/.test(there?.state ?? '');
  if (left !== undefined && !isAlone)
    throw new UsageError(
      `account '${account}' ${left.state === 'moved' ? 'moved' : 'is moving'} to ${left.place}`,
      left.state === 'moved'
        ? 'Move it from there.'
        : `Move it there, or give that up: \`npx shelfdesk account move ${account} --give-up\`.`,
    );
  if (here?.state === 'arriving')
    throw new UsageError(`account '${account}' is coming from ${here.place}`, 'Let it arrive first.');
  const queueOf = async ({ pg }: Place) =>
    (await pg.query<{ queue: string }>(sql`select queue from sync.accounts where account_id = ${account}`)).rows[0]
      ?.queue;
  const [queue, other] = [await queueOf(from), await queueOf(to)];
  if (queue === undefined)
    throw new UsageError(`there is no account '${account}'`, 'See `npx shelfdesk account list`.');
  if (queue === other)
    throw new UsageError(`--to names this warehouse itself, or a copy of it: ${to.name}`, 'Name another database.');
  await requireUnknown(account, to);
  return left === undefined ? 'new' : 'begun';
}

/** Only who owns a table makes its triggers. */
async function requireOwner({ pg, name }: Place): Promise<void> {
  const { rows } = await pg.query<{ owner: string; role: string }>(
    `select quote_ident(pg_get_userbyid(c.relowner)) as owner, quote_ident(current_user) as role
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where (n.nspname, c.relname) = ('sync', 'moves') and not pg_has_role(c.relowner, 'usage')`,
  );
  for (const { owner, role } of rows)
    throw new ShelfdeskError(
      `this role may not move accounts: in ${name} the tables belong to ${owner}, and this session is ${role}`,
      `Log in as ${owner} there, or let an administrator run \`grant ${owner} to ${role}\`. Then run the same command again.`,
    );
}

/** Throws UsageError if the new warehouse has an account of this name. */
async function requireUnknown(account: string, to: Place): Promise<void> {
  const held = await rowsOf(to.pg, account);
  if (held.length > 0)
    throw new UsageError(
      `${to.name} has rows of an account '${account}' already, in ${held[0]!.table}`,
      'A name is one account. If those rows are of no use, run `npx shelfdesk account remove` there first.',
    );
}

/** Throws ShelfdeskError unless all rows have a table there, and the clocks agree. */
async function requireAlike({ account, to }: Move, both: Both): Promise<MovedTable[]> {
  const [tables, theirs] = [await movedTables(both.from), await movedTables(both.to)];
  const shape = ({ columns }: MovedTable) =>
    columns
      .map(({ name, type }) => `${name} ${type}`)
      .toSorted()
      .join();
  const known = new Map(theirs.map(one => [one.name, shape(one)]));
  const moved: MovedTable[] = [];
  for (const one of tables) {
    if (known.get(one.name) === shape(one)) moved.push(one);
    else if (
      (
        await both.from.query(sql`
      select from ${raw(one.name)} where account_id = ${account} limit 1`)
      ).rowCount !== 0
    )
      throw new ShelfdeskError(
        `${one.name} has rows of account '${account}', and ${to.name} has ${known.has(one.name) ? 'other columns there' : 'no such table'}`,
        'Nothing was moved. Run `npx shelfdesk migrate` there, with the same SHELFDESK_SOURCES.',
      );
  }
  await requireClocks(both);
  return moved;
}

/** The budget keeps times of its server. */
async function requireClocks({ from, to }: Both): Promise<void> {
  const timeOf = async (client: Queryable) =>
    (await client.query<{ ms: number }>('select extract(epoch from statement_timestamp())::float8 * 1000 as ms'))
      .rows[0]!.ms;
  const [before, theirs, after] = [await timeOf(from), await timeOf(to), await timeOf(from)];
  const apartMs = Math.max(before - theirs, theirs - after);
  if (apartMs <= mostApartMs) return;
  throw new ShelfdeskError(
    `the clocks of both servers differ by ${Math.round(apartMs / 1000)} s`,
    'Nothing was moved. Set the clocks first.',
  );
}

/** Marks the account as leaving, and makes its rows read-only. Throws UsageError while a process serves it. */
async function leave({ account, who, from, to }: Move, isNew: boolean, now: Date): Promise<void> {
  await withAccount(from.pg, account, async client => {
    await requireUnserved(client, account, 'moved');
    if (!isNew) return;
    // The hashes of erased people stay valid with their key alone.
    await client.query(sql`
      insert into sync.secret_account_erasure select ${account}, k.inner_key, k.outer_key from sync.secret_erasure k
      where exists (select from sync.secret_erased where account_id = ${account}) on conflict do nothing`);
    await client.query(sql`
      update sync.stored_run_streams set token = token + 1, state = 'waiting', worker = null, job = null
      where account_id = ${account} and state = 'running'`);
    await noteOperation(client, { account, who, action: 'move', subject: '', outcome: `begun: to ${to.name}` }, now);
    await client.query(sql`
      insert into sync.moves (account_id, state, place, who, began_at) values (${account}, 'leaving', ${to.name}, ${who}, ${now})
      on conflict (account_id) do update set move_id = gen_random_uuid(), state = 'leaving', place = ${to.name}, who = ${who},
        began_at = ${now}, ended_at = null, progress = null`);
  });
  await settleFences(from.url);
  try {
    // A process may have come before the rows were read-only.
    await requireUnserved(from.pg, account, 'moved');
  } catch (error) {
    if (isNew) await stay(from, account);
    throw error;
  }
}

async function stay(from: Place, account: string): Promise<void> {
  await from.pg.query(sql`delete from sync.moves where account_id = ${account} and state = 'leaving'`);
  await settleFences(from.url);
}

/** The mark of the new warehouse, with the numbers that its rows will have. No process there takes the account for a new one. */
async function arrive({ account, who, from, to }: Move, both: Both, tables: readonly MovedTable[], now: Date) {
  const mark = (await markOf(both.from, account))!;
  const found = await markOf(both.to, account);
  if (found?.id !== mark.id) {
    await both.to.query('begin');
    const progress: Progress = { offsets: await reserveNumbers(both, tables), tables: {} };
    await both.to.query(
      `insert into sync.moves (account_id, move_id, state, place, who, began_at, progress) values ($1, $2, 'arriving', $3, $4, $5, $6)
       on conflict (account_id) do update set move_id = $2, state = 'arriving', place = $3, who = $4, began_at = $5,
         ended_at = null, progress = $6`,
      [account, mark.id, from.name, who, now, JSON.stringify(progress)],
    );
    await both.to.query('commit');
  }
  await settleFences(to.url);
  const progress = (await markOf(both.to, account))!.progress!;
  // The new warehouse may have begun to read an account of this name before its mark kept it from that.
  if (Object.keys(progress.tables).length === 0)
    await requireUnknown(account, to).catch(async error => {
      if (!(error instanceof UsageError)) throw error;
      await both.to.query(sql`delete from sync.moves where account_id = ${account} and move_id = ${mark.id}`);
      await settleFences(to.url);
      await stay(from, account);
      throw error;
    });
  return { id: mark.id, progress };
}

export interface Watching {
  readonly signal: AbortSignal;
  /** Rows that have come in, or `null` while they are compared. */
  readonly told: (table: string, rows: number | null) => void;
  readonly time: () => Date;
}

/** Moves the account, or resumes its move. Returns what is equal in both: number and digest of the rows of each table. */
export const changeWarehouse = (move: Move, watching: Watching): Promise<Same[]> =>
  moveRows(move, watching).catch(async error => {
    // Without an answer it may have begun.
    const mark = await markOf(move.from.pg, move.account).catch(() => ({ state: 'leaving' }));
    throw explain(error, mark?.state === 'leaving' || mark?.state === 'moved');
  });

async function moveRows(move: Move, { signal, told, time }: Watching): Promise<Same[]> {
  const { account, from, to } = move;
  await using here = await openCopying(from.url, 'shelfdesk: moves');
  await using there = await openCopying(to.url, 'shelfdesk: moves');
  const both: Both = { from: here.client, to: there.client, account };
  for (const client of [both.from, both.to]) await requireAlone(client, account);
  const isNew = (await lookAtMove(move)) === 'new';
  await both.to.query('set shelfdesk.copying = on');
  const tables = await requireAlike(move, both);
  await bringCalendars(both, to.name);
  const isOver = (await markOf(both.from, account))?.state === 'moved';
  if (!isOver) await leave(move, isNew, time());
  const { id, progress } = await arrive(move, both, tables, time());
  const noted = async () => {
    await both.to.query(sql`
      update sync.moves set progress = ${JSON.stringify(progress)} where account_id = ${account}`);
  };
  const [rest, known] = [tables.slice(0, -1), tables.at(-1)!];
  for (const table of rest)
    await copyRows(both, table, progress, { noted, told: rows => told(table.name, rows), signal });
  const same: Same[] = [];
  for (const table of rest) same.push(...(await requireSame(table)));
  // From here on the account is of the new warehouse, whatever happens: in the former one it never wakes again.
  await transaction(
    from.pg,
    async client => {
      const { rowCount } = await client.query(sql`
        update sync.moves set state = 'moved', ended_at = coalesce(ended_at, ${time()}) where account_id = ${account}
          and move_id = ${id} and state in ('leaving', 'moved')`);
      if (rowCount === 0) throw new UsageError(`the move of account '${account}' was given up`, 'Begin it anew.');
    },
    durable,
  );
  delete progress.tables[known.name];
  const open = async () => {
    const { who } = move;
    same.push(...(await requireSame(known)));
    await noteOperation(
      both.to,
      { account, who, action: 'move', subject: '', outcome: `done: from ${from.name}` },
      time(),
    );
    await both.to.query(sql`
      update sync.moves set state = 'arrived', ended_at = ${time()}, progress = null where account_id = ${account}`);
  };
  await copyRows(both, known, progress, {
    noted: open,
    told: rows => told(known.name, rows),
    signal: new AbortController().signal,
  });
  await settleFences(to.url);
  return same;

  async function requireSame(table: MovedTable): Promise<Same[]> {
    signal.throwIfAborted();
    told(table.name, null);
    const { here, there } = await compareRows(both, table, progress.offsets);
    if (here.rows === there.rows && here.digest === there.digest) return here.rows > 0 ? [here] : [];
    delete progress.tables[table.name];
    await noted();
    throw new ShelfdeskError(
      `${table.name} differs: ${here.rows} rows here, ${there.rows} in ${to.name}`,
      'Nothing is lost: the rows here stay. Run the same command again: it copies that table anew.',
    );
  }
}

/** What a role may not do, and what another session holds. Nothing is lost: a move that has begun resumes. */
function explain(error: unknown, hasBegun: boolean): unknown {
  const { code, message } = error as { code?: string; message: string };
  const end = hasBegun ? ': it resumes.' : '. Nothing was moved.';
  if (code === '55P03')
    return new ShelfdeskError(`another session holds a table: ${message}`, `Run the same command again${end}`);
  if (code !== '42501') return error;
  const remedy = `Run the command as the role that owns the tables, in both warehouses${end}`;
  return new ShelfdeskError(`this role may not move accounts: ${message}`, remedy, { cause: error });
}

const durable = 'begin; set local synchronous_commit = on';

/** Throws UsageError if another process moves the account just now. */
async function requireAlone(client: Queryable, account: string): Promise<void> {
  const { rows } = await client.query<{ mine: boolean }>(sql`
    select pg_try_advisory_lock(${moveLock}, hashtext(${account})) as mine`);
  if (rows[0]!.mine) return;
  throw new UsageError(`another process moves account '${account}' just now`, 'Let it finish.');
}

/** Ends a move before its end: the account stays in this warehouse. */
export async function giveUpMove({ account, who, from }: Omit<Move, 'to'>, now: Date): Promise<string> {
  await using session = await openCopying(from.url, 'shelfdesk: moves');
  await requireAlone(session.client, account);
  const mark = await markOf(from.pg, account);
  if (mark?.state !== 'leaving')
    throw new UsageError(
      mark?.state === 'moved'
        ? `account '${account}' has moved to ${mark.place}`
        : `account '${account}' is not moving`,
      mark?.state === 'moved' ? 'Move it back from there.' : 'There is nothing to give up.',
    );
  await stay(from, account);
  await noteOperation(
    from.pg,
    { account, who, action: 'move', subject: '', outcome: `given up: to ${mark.place}` },
    now,
  );
  return mark.place;
}
