/**
 * Stored answers about the behaviour of the help desk (sync.source_behaviour), and answers from stored rows, which cost
 * no credits.
 */
import type pg from 'pg';

export interface SourceReading {
  readonly question: string;
  readonly answer: string;
  readonly evidence: string;
  readonly credits: number;
  readonly found_at: Date;
}

export async function readReadings(db: pg.Pool, account: string): Promise<SourceReading[]> {
  const { rows } = await db.query<SourceReading>(
    'select question, answer, evidence, credits, found_at from sync.source_behaviour where account_id = $1',
    [account],
  );
  return rows;
}

export async function keepReading(
  db: pg.Pool,
  account: string,
  { question, answer, evidence, credits, found_at }: SourceReading,
): Promise<void> {
  await db.query(
    `insert into sync.source_behaviour as r (account_id, question, answer, evidence, credits, found_at)
     values ($1, $2, $3, $4, $5, $6)
     on conflict (account_id, question) do update set answer = excluded.answer, evidence = excluded.evidence,
       credits = excluded.credits, found_at = excluded.found_at`,
    [account, question, answer, evidence, credits, found_at],
  );
}

/** Whether the default list has shown such a ticket, according to sync.separate_lists. */
export async function hasShown(db: pg.Pool, account: string, list: 'spam' | 'trash'): Promise<boolean> {
  const { rows } = await db.query<{ shown: boolean }>(
    `select coalesce(bool_or(redundant), false) as shown from sync.coverage
     where account_id = $1 and stream_key = 'helpdesk.tickets' and list = $2`,
    [account, list],
  );
  return rows[0]!.shown;
}

export interface Known {
  readonly id: string;
  readonly updated_at: Date;
}

/** The ticket of this kind with the oldest update. */
export async function quietTicket(
  db: pg.Pool,
  account: string,
  kind: 'spam' | 'trash' | 'archived' | 'snoozed',
): Promise<Known | undefined> {
  const is = { spam: 'spam', trash: 'trash', archived: `state = 'archived'`, snoozed: `state = 'snoozed'` }[kind];
  const { rows } = await db.query<Known>(
    `select id, updated_at from helpdesk.tickets
     where account_id = $1 and ${is} and _deleted_at is null order by updated_at limit 1`,
    [account],
  );
  return rows[0];
}

/** A sufficient sample of the newest messages. */
const mostMessages = 2000;
/** Both times are whole seconds, and a reply updates its ticket a moment later. */
const grain = `interval '2 seconds'`;

/**
 * Among the newest messages of this kind that did not open their ticket: the number of messages later than the ticket's
 * last update, and of messages at that very time.
 */
export async function messagesAgainstTickets(
  db: pg.Pool,
  account: string,
  type: 'reply' | 'note',
): Promise<{ later: number; same: number }> {
  const { rows } = await db.query<{ later: number; same: number }>(
    `select count(*) filter (where m.created_at > t.updated_at + ${grain})::int as later,
       count(*) filter (where m.created_at between t.updated_at - ${grain} and t.updated_at + ${grain})::int as same
     from (
       select ticket_id, created_at, type from helpdesk.messages
       where account_id = $1 and _deleted_at is null and position > 1
       order by created_at desc nulls last limit ${mostMessages}) m
     join helpdesk.tickets t on (t.account_id, t.id) = ($1, m.ticket_id)
     where m.type = $2 and t._deleted_at is null`,
    [account, type],
  );
  return rows[0]!;
}

/** Tickets that were compared since then, and those with a missed change. */
export async function missedChanges(
  db: pg.Pool,
  account: string,
  since: Date,
): Promise<{ checked: number; missed: number }> {
  const { rows } = await db.query<{ checked: number; missed: number }>(
    `select count(distinct record_id)::int as checked,
       (count(distinct record_id) filter (where kind like '%a change was missed%'))::int as missed
     from sync.audit where account_id = $1 and stream_key = 'helpdesk.tickets' and not unread and checked_at > $2`,
    [account, since],
  );
  return rows[0]!;
}
