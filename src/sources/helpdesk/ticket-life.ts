/** Reads the history of one ticket: its first read, changes, checks, rejects, and its position among pending tickets. */
import type pg from 'pg';
import type { Queryable } from '../../engine/database/pool.ts';
import { query } from '../../engine/database/sql.ts';
import { Pending } from '../../engine/details/pending.ts';
import type { Ms } from '../../engine/reading/reading.ts';
import { messages } from './messages/messages.ts';

/** The run of an event. Null if the run is unknown: some runs are deleted after five weeks. */
export interface By {
  run: number | null;
  kind: string | null;
}

export interface Life {
  ticket: {
    id: string;
    number: number | null;
    subject: string | null;
    state: string | null;
    created_at: Date | null;
    updated_at: Date;
    observed_at: Date;
    deleted_after: Date | null;
    deleted_at: Date | null;
    /** Time at which an erasure removed the ticket's texts, names and addresses. */
    erased_at: Date | null;
  };
  /** First read of the ticket. Credits: the run's credits divided by the records that it showed; null if unknown. */
  listed: By & { at: Date; credits: number | null };
  /** Changes of the ticket and of its messages. */
  changes: (By & {
    seen_at: Date;
    as_of: Date;
    table: string;
    record: string;
    fields: Record<string, [unknown, unknown]>;
  })[];
  /** Reads that replaced the ticket's messages. */
  readings: (By & { as_of: Date })[];
  messages: number;
  /** Last time at which the source showed the ticket as stored. */
  checked_at: Date | null;
  /** Sweeps of the range that contains the ticket's creation time. */
  swept: (By & { list: string; as_of: Date })[];
  audits: (By & {
    at: Date;
    stream: string;
    difference: string | null;
    fields: Record<string, [unknown, unknown]> | null;
    repaired_at: Date | null;
  })[];
  deletion_candidate: { at: Date; gone_at: Date | null; error: string | null } | null;
  rejects: {
    id: number;
    stream: string;
    reason: string;
    attempts: number;
    last_seen_at: Date;
    next_try_at: Date | null;
    cleared_at: Date | null;
  }[];
  /** Position among the tickets whose messages are pending, and their number. Null if the ticket is not pending. */
  queue: { place: number; of: number } | null;
}

type Row = Life['ticket'] &
  Life['listed'] &
  Pick<Life, 'messages' | 'checked_at'> & { readonly read_at: Date | null; readonly read_by: number | null };

/** Reads the history of a ticket by id, or else by number. Undefined if no such ticket is stored. */
export async function lifeOf(db: pg.Pool, account: string, name: string): Promise<Life | undefined> {
  const row = await query(db).first<Row>`
    select t.id, t.number, t.subject, t.state, t.created_at, t.updated_at, t._observed_at as observed_at,
      t._deleted_after as deleted_after, t._deleted_at as deleted_at, e.erased_at,
      t._first_seen_at as at, t._listed_by as run, r.kind, s.credits::float8 / nullif(s.seen, 0) as credits,
      t._messages_as_of as read_at, t._messages_by as read_by, sync.ticket_checked_at(t.account_id, t.id) as checked_at,
      (select count(*) from helpdesk.messages m
        where m.account_id = t.account_id and m.ticket_id = t.id and m._deleted_at is null) as messages
    from helpdesk.tickets t
    left join sync.erased_tickets e on (e.account_id, e.ticket_id) = (t.account_id, t.id)
    left join sync.stored_runs r on r.id = t._listed_by
    left join sync.stored_run_streams s on s.run_id = r.id and s.stream_key = 'helpdesk.tickets'
    where t.account_id = ${account} and (t.id = ${name} or t.number = ${/^\d{1,15}$/.test(name) ? Number(name) : null})
    order by t.id = ${name} desc, t._deleted_at is not null, t.id limit 1`;
  if (row === undefined) return undefined;
  const { at, run, kind, credits, read_at, read_by, checked_at, messages: many, ...ticket } = row;
  const { id } = ticket;
  const changes = await changesOf(db, account, id);
  const [candidate] = await list<NonNullable<Life['deletion_candidate']>>(
    db,
    `select missing_since as at, gone_at, error from sync.open_deletion_candidates
     where account_id = $1 and stream_key = 'helpdesk.tickets' and record_id = $2`,
    [account, id],
  );
  return {
    ticket,
    listed: { at, run, kind, credits },
    changes: changes.filter(one => !isReading(one)),
    readings: await readingsOf(db, changes, read_at && { as_of: read_at, run: read_by }),
    messages: many,
    checked_at,
    swept: await list(
      db,
      `select s.list, s.as_of, s.run_id as run, r.kind
       from sync.swept s left join sync.stored_runs r on r.id = s.run_id
       where s.account_id = $1 and s.stream_key = 'helpdesk.tickets' and (s.list = 'undated') = ($2::timestamptz is null)
         and ($2::timestamptz is null or s.created @> $2::timestamptz) order by s.as_of`,
      [account, ticket.created_at],
    ),
    audits: await list(
      db,
      `select a.checked_at as at, a.stream, a.kind as difference, a.differences as fields, a.repaired_at, a.run_id as run, r.kind
       from sync.audit a left join sync.stored_runs r on r.id = a.run_id
       where a.account_id = $1 and a.stream_key in ('helpdesk.tickets', 'helpdesk.messages') and a.record_id = $2 order by a.checked_at, a.id`,
      [account, id],
    ),
    deletion_candidate: candidate ?? null,
    rejects: await rejectsOf(db, account, id),
    queue: (await new Pending(db, account, messages).place(id)) ?? null,
  };
}

/** All rejects of this ticket and its messages, even if the ticket is not stored. */
export async function rejectsOf(db: pg.Pool, account: string, id: string): Promise<Life['rejects']> {
  return list(
    db,
    `select id, stream, reason, attempts, last_seen_at, next_try_at, cleared_at from sync.rejects
     where account_id = $1 and stream_key in ('helpdesk.tickets', 'helpdesk.messages') and (ask_id = $2 or stream_key = 'helpdesk.tickets' and record_id = $2)
     order by id`,
    [account, id],
  );
}

async function changesOf(db: pg.Pool, account: string, id: string): Promise<Life['changes']> {
  return list(
    db,
    `select c.seen_at, c.as_of, c.table_name as "table", c.record_id as record, c.changes as fields, c.run_id as run, r.kind
     from sync.changes c left join sync.stored_runs r on r.id = c.run_id
     where c.account_id = $1 and c.source = 'helpdesk' and (c.table_name = 'tickets' and c.record_id = $2 or c.table_name = 'messages' and c.parent_id = $2)
     order by c.id`,
    [account, id],
  );
}

const readBy = '_messages_as_of';
/** Whether a change of a ticket only notes a new read of its messages. */
const isReading = ({ fields }: Life['changes'][number]) =>
  Object.keys(fields).length > 0 && Object.keys(fields).every(field => field.startsWith('_messages_'));

/**
 * Collects the reads of the messages. Each change of `_messages_as_of` names two reads: the previous one and the new
 * one.
 */
async function readingsOf(
  db: pg.Pool,
  changes: Life['changes'],
  last: { as_of: Date; run: number | null } | null,
): Promise<Life['readings']> {
  const found = new Map<Ms, number | null>();
  for (const { fields } of changes.filter(({ fields }) => readBy in fields)) {
    for (const n of [0, 1] as const) {
      const asOf = fields[readBy]![n];
      if (typeof asOf === 'string') found.set(Date.parse(asOf), (fields._messages_by?.[n] as number | null) ?? null);
    }
  }
  if (last) found.set(last.as_of.getTime(), last.run);
  const runs = await list<{ id: number; kind: string }>(
    db,
    'select id, kind from sync.stored_runs where id = any ($1)',
    [[...found.values()]],
  );
  return [...found]
    .sort(([one], [other]) => one - other)
    .map(([ms, run]) => ({ as_of: new Date(ms), run, kind: runs.find(({ id }) => id === run)?.kind ?? null }));
}

async function list<T>(db: pg.Pool, sql: string, values: unknown[]): Promise<T[]> {
  return (await db.query(sql, values)).rows;
}

/** When the ticket with this id or number was last changed; undefined if the mirror has no such ticket. */
export async function changedAt(db: Queryable, account: string, name: string): Promise<Date | undefined> {
  return query(db).value<Date>`
    select updated_at from helpdesk.tickets
    where account_id = ${account} and (id = ${name} or number = ${/^\d{1,15}$/.test(name) ? Number(name) : null}) and _deleted_at is null
    order by id = ${name} desc, id limit 1`;
}
