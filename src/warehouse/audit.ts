/** Comparisons with the source: what is compared, how our rows stand beside it, and what is written down of it. */
import type pg from 'pg';
import type { Ms } from '../reading/reading.ts';
import type { Claim } from './claims.ts';
import { keepChanges } from './merge.ts';
import type { Client } from './pool.ts';
import { buryTicket } from './waiting.ts';

type Queryable = Pick<pg.ClientBase, 'query'>;
type Key = Pick<Claim, 'account' | 'run' | 'stream'>;

/** How our row of a record stands beside a reply. */
export interface Standing {
  readonly buried: boolean;
  readonly observedAt: Date;
  /** Its `_payload` is of the same id. */
  readonly isItself: boolean | null;
  /** The reply was asked for after the row was written: nothing in the row can be newer than the reply. */
  readonly isOlder: boolean;
  /** Of tickets. */
  readonly updatedMs: Ms | null;
  /** Of tickets: its messages are as new as itself, and no newer than the reply. */
  readonly hasMessages: boolean | null;
}

/** What came of comparing one record. */
export interface Finding {
  /** tickets, messages, customers, users. */
  readonly stream: string;
  readonly record: string;
  readonly differences: Readonly<Record<string, readonly [ours: unknown, theirs: unknown]>> | null;
  readonly kind: string | null;
  readonly oursAsOf: Date | null;
  readonly repaired: boolean;
}

export async function writeFindings(
  client: Client,
  { account, run }: Pick<Key, 'account' | 'run'>,
  findings: readonly Finding[],
  { asOfMs, nowMs, random }: { asOfMs: Ms; nowMs: Ms; random: boolean },
): Promise<void> {
  if (findings.length === 0) return;
  const one = new Map<string, Finding>();
  for (const finding of findings) {
    const key = JSON.stringify([finding.stream, finding.record]);
    const before = one.get(key);
    one.set(key, before ? joined(before, finding) : finding);
  }
  await client.query({
    name: 'write findings',
    text: `insert into sync.audit as a (account_id, run_id, stream, record_id, checked_at, ours_as_of, random, differences, kind, repaired_at)
      select $1, $2, f.stream, f.record, $3, f."oursAsOf", $4, nullif(f.differences, 'null'), f.kind, case when f.repaired then $5::timestamptz end
      from jsonb_to_recordset($6::jsonb) f (stream text, record text, "oursAsOf" timestamptz, differences jsonb, kind text, repaired boolean)
      on conflict (account_id, run_id, stream, record_id) do update set
        checked_at = excluded.checked_at, unread = false, differences = coalesce(a.differences, '{}') || coalesce(excluded.differences, '{}'),
        kind = (select string_agg(distinct k, '; ' order by k) from unnest(string_to_array(concat_ws('; ', a.kind, excluded.kind), '; ')) k),
        repaired_at = coalesce(excluded.repaired_at, a.repaired_at)
      where excluded.differences is not null`,
    values: [account, run, new Date(asOfMs), random, new Date(nowMs), JSON.stringify([...one.values()])],
  });
}

/** Chosen at random, and nothing is known of it: of the ticket, or of its messages, whatever was not compared. */
export async function noteUnread(
  db: Queryable,
  { account, run, stream }: Key,
  id: string,
  checkedMs: Ms,
): Promise<void> {
  await db.query(
    `insert into sync.audit (account_id, run_id, stream, record_id, checked_at, random, unread)
     select $1, $2, s, $4, $5, true, true from unnest($3::text[]) s
     on conflict (account_id, run_id, stream, record_id) do nothing`,
    [account, run, stream === 'tickets' ? ['tickets', 'messages'] : [stream], id, new Date(checkedMs)],
  );
}

/** What was found of one record in several places. */
function joined(one: Finding, other: Finding): Finding {
  const kinds = [one.kind, other.kind].flatMap(kind => kind?.split('; ') ?? []);
  return {
    ...one,
    differences: { ...one.differences, ...other.differences },
    kind: [...new Set(kinds)].sort().join('; ') || null,
    oursAsOf: one.oursAsOf ?? other.oursAsOf,
    repaired: one.repaired || other.repaired,
  };
}

/** So many of what is here, each as likely as any other. `chance` makes it another choice each time. */
export async function chooseAtRandom(
  db: Queryable,
  { account, stream }: Pick<Key, 'account' | 'stream'>,
  { limit, chance }: { limit: number; chance: number },
): Promise<string[]> {
  if (limit <= 0) return [];
  const table = stream === 'customers' ? 'helpdesk.customers' : 'helpdesk.tickets';
  const { rows } = await db.query<{ id: string }>(
    `select id from ${table} where account_id = $1 and _deleted_at is null
     order by hashtextextended(id, $2), id limit $3`,
    [account, Math.floor(chance * 2 ** 52), limit],
  );
  return rows.map(({ id }) => id);
}

/** How many records of this stream a run has compared. */
export async function countFindings(db: Queryable, { run, stream }: Pick<Key, 'run' | 'stream'>): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    'select count(*) as n from sync.audit where run_id = $1 and stream = $2 and random',
    [run, stream],
  );
  return rows[0]!.n;
}

/** Tickets whose messages were last read before this, the oldest first. */
export async function oldestMessages(db: Queryable, account: string, beforeMs: Ms, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from helpdesk.tickets
     where account_id = $1 and _deleted_at is null and _messages_as_of >= updated_at and _messages_as_of < $2
     order by _messages_as_of, id limit $3`,
    [account, new Date(beforeMs), limit],
  );
  return rows.map(({ id }) => id);
}

/** Whether a run other than audits wants anything of the help desk. */
export async function othersWant(db: Queryable, account: string): Promise<boolean> {
  const { rows } = await db.query<{ want: boolean }>(
    `select exists (
       select from sync.stored_runs r join sync.stored_run_streams s on s.run_id = r.id join sync.streams k using (stream)
       where r.account_id = $1 and r.state = 'running' and r.kind <> 'audit' and k.source = 'helpdesk'
         and (s.state = 'running' or s.state = 'waiting' and not sync.is_paused(s.account_id, s.stream))) as want`,
    [account],
  );
  return rows[0]!.want;
}

/** Whether there is something to audit, nothing else to be done, and no audit has begun since then. */
export async function isAuditDue(db: Queryable, account: string, since: Date, now: Date): Promise<boolean> {
  if (await othersWant(db, account)) return false;
  const { rows } = await db.query<{ due: boolean }>(
    `select not exists (
         select from sync.stored_runs r
         where r.account_id = $1 and r.kind = 'audit' and (r.state = 'running' or r.started_at > $2 and r.started_at <= $3))
       and exists (select from helpdesk.tickets t where t.account_id = $1 and t._messages_as_of is not null) as due`,
    [account, since, now],
  );
  return rows[0]!.due;
}

/** Our rows of these ids. `lock`: they stay as they are until the transaction ends. */
export async function standingOf(
  client: Queryable,
  { account, stream }: Pick<Key, 'account' | 'stream'>,
  ids: readonly string[],
  { askedMs, asOfMs, lock }: { askedMs: Ms; asOfMs: Ms; lock: boolean },
): Promise<Map<string, Standing>> {
  const isTicket = stream === 'tickets';
  const { rows } = await client.query<Standing & { id: string }>(
    `select t.id, t._deleted_at is not null as buried, t._observed_at as "observedAt", t._payload ->> 'id' = t.id as "isItself",
       t._synced_at < $3 and t._observed_at <= $4
         -- The worker notes since when a row may be gone; a hand that buries it does not.
         and (t._deleted_at is null or t._deleted_at <= $4${stream === 'users' ? '' : ' or t._deleted_after is null'}) as "isOlder",
       ${isTicket ? `extract(epoch from t.updated_at)::float8 * 1000` : 'null'} as "updatedMs",
       ${isTicket ? `t._messages_as_of >= t.updated_at and t._messages_as_of <= $4` : 'null'} as "hasMessages"
     from helpdesk.${stream} t where t.account_id = $1 and t.id = any($2)
     order by t.id ${lock ? 'for no key update' : ''}`,
    [account, ids, new Date(askedMs), new Date(asOfMs)],
  );
  return new Map(rows.map(({ id, ...standing }) => [id, standing]));
}

/** Up to when the stream is complete here, by the source's clock; undefined if it was never read. */
export async function completeThrough(db: Queryable, account: string, stream: string): Promise<Ms | undefined> {
  const { rows } = await db.query<{ ms: Ms | null }>(
    `select extract(epoch from sync.complete_through($1, $2))::float8 * 1000 as ms`,
    [account, stream],
  );
  return rows[0]!.ms ?? undefined;
}

/** Tickets of these that are not here, though something that hung on them is. */
export async function leftBehind(client: Queryable, account: string, ids: readonly string[]): Promise<Set<string>> {
  const { rows } = await client.query<{ id: string }>(
    `select w.id from unnest($2::text[]) w (id)
     where exists (select from helpdesk.messages m where m.account_id = $1 and m.ticket_id = w.id)
       or exists (select from helpdesk.ticket_labels l where l.account_id = $1 and l.ticket_id = w.id)`,
    [account, ids],
  );
  return new Set(rows.map(({ id }) => id));
}

/** As of when the source did not have it, and by when it was gone, by its clock, which has a grain. */
interface GoneAt {
  readonly asOfMs: Ms;
  readonly byMs: Ms;
  /** What has become of it the source may show so late. */
  readonly lookbackMs: number;
}

/** The tombstone of what the source said twice that it has no more, and of what hangs on it. */
export async function buryRecord(
  client: Client,
  { account, run = null, stream }: Pick<Key, 'account' | 'stream'> & { readonly run?: number | null },
  id: string,
  { askedMs, nowMs, ...gone }: GoneAt & { askedMs: Ms; nowMs: Ms },
): Promise<number> {
  if (stream === 'tickets') return buryTicket(client, { account, run }, id, gone.asOfMs, new Date(nowMs), gone);
  const by = [account, id, new Date(gone.byMs), new Date(nowMs)];
  const after = `_deleted_after = least($3, greatest(_observed_at, _checked_at) - ${gone.lookbackMs} * interval '1 millisecond')`;
  const { rowCount } = await client.query(
    `update helpdesk.${stream} set _deleted_at = $3, _synced_at = $4${stream === 'customers' ? `, ${after}` : ''}
     where account_id = $1 and id = $2 and _deleted_at is null and _observed_at <= $5 and _synced_at < $6
     returning ${keepChanges('$4', 'null', '$7')}`,
    [...by, new Date(gone.asOfMs), new Date(askedMs), run],
  );
  if (rowCount !== 0 && stream === 'customers')
    await client.query(
      `update helpdesk.contacts set _deleted_at = $3, _synced_at = $4
       where account_id = $1 and customer_id = $2 and _deleted_at is null`,
      by,
    );
  return rowCount ?? 0;
}

/** Names of labels and inboxes that a ticket showed, and that are others here: not those that nobody has asked for yet. */
export async function differingNames(
  client: Queryable,
  account: string,
  table: 'labels' | 'inboxes',
  shown: readonly { id: string; name?: string | null | undefined }[],
): Promise<{ id: string; ours: string | null; theirs: string | null }[]> {
  const isUsed =
    table === 'labels' ? 'helpdesk.ticket_labels u where u.label_id' : 'helpdesk.tickets u where u.inbox_id';
  const { rows } = await client.query<{ id: string; ours: string | null; theirs: string | null }>(
    `select s.id, t.name as ours, s.name as theirs
     from unnest($2::text[], $3::text[]) s (id, name)
     left join helpdesk.${table} t on (t.account_id, t.id) = ($1, s.id)
     where case when t.id is null then exists (select from ${isUsed} = s.id and u.account_id = $1)
       else t._observed_at is not null and t.name is distinct from s.name end`,
    [account, shown.map(({ id }) => id), shown.map(({ name }) => name ?? null)],
  );
  return rows;
}

/** As if nobody had asked for these names yet. */
export async function forgetNames(
  client: Queryable,
  account: string,
  table: 'labels' | 'inboxes',
  ids: readonly string[],
): Promise<void> {
  await client.query(
    `update helpdesk.${table} set _observed_at = null, name = null where account_id = $1 and id = any($2)`,
    [account, ids],
  );
}
