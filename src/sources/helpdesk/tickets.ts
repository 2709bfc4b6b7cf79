/**
 * Tickets, by update time. The default list may hide spam and trash. Spam and trash are read as separate lists until
 * the default list has shown such a ticket. Tickets mention labels and inboxes by id; the names are read with the
 * messages.
 */

import { buildMerge, isAhead, page } from '../../engine/commit/merge.ts';
import { readingOf } from '../../engine/database/open-candidates.ts';
import type { Queryable } from '../../engine/database/pool.ts';
import { query } from '../../engine/database/sql.ts';
import { readingsIn } from '../../engine/details/detail-rows.ts';
import { readMovingList } from '../../engine/reading/moving-list.ts';
import type { Ask } from '../../engine/reading/reading.ts';
import { factsOf, timeOf } from '../record/check.ts';
import { columnsOf, leftOutOf } from '../record/columns.ts';
import { identify, type ListStream } from '../source.ts';
import { getTicket, listTickets, paging, type TicketsQuery } from './endpoints.ts';
import { knownCuts } from './partitions.ts';
import { personalRules } from './personal/rules.ts';
import { channels, type Ticket, ticket } from './records.ts';
import { rowsOf } from './rows-of.ts';

/** Somebody works on these. */
export const openStates = ['open', 'hold'] as const;
/** SQL over `t`, a ticket. */
export const isOpen = `t.state in (${openStates.map(one => `'${one}'`).join(', ')})`;

/** Lists that only sweeps read: of open and held tickets, and of closed tickets that changed lately. */
const open = 'open';
const recent = 'recent';
const recentMs = 14 * 86_400_000;

const { whenChanged, ours } = readingsIn(['messages'], 'updated_at');

export const tickets: ListStream<Ticket> = {
  kind: 'list',
  ...identify('helpdesk', 'tickets'),
  personal: personalRules.tickets,
  schedule: ['fresh', 'nightly'],
  lists: [
    { name: 'default' },
    { name: 'spam', shows: record => record.spam === true, flag: 'spam' },
    { name: 'trash', shows: record => record.trash === true, flag: 'trash' },
  ],
  read: readMovingList,
  paging,
  request: (list, ask) =>
    listTickets({
      ...filterOf(list),
      ...(ask.order === 'created' ? byCreation(ask) : byUpdate(ask)),
      ...(ask.only?.type !== undefined && { type: [ask.only.type] }),
      ...(ask.only?.user_id !== undefined && { user_id: [ask.only.user_id] }),
      ...(ask.only?.inbox_id !== undefined && { inbox_id: [ask.only.inbox_id] }),
      page: ask.page,
      per_page: ask.perPage,
      ...(ask.count && { count: true }),
    }),
  orderedBy: (record, order) => timeOf((order === 'created' ? record.created_at : record.updated_at) ?? ''),
  get: getTicket,
  quiet: { label_ids: 'label edits', state: 'state changes', snoozed_until: 'state changes' },
  lively: [
    { list: open, where: isOpen },
    { list: recent, where: `t.state = 'closed'`, changedWithinMs: recentMs },
  ],
  rowFacts: { created: { at: 'created_at', checkedAt: readingOf('messages').asOf } },
  details: ['messages'],
  parts: [
    { name: 'helpdesk.messages', rows: rowsOf('messages'), parent: 'ticket_id' },
    { name: 'helpdesk.attachments', parent: 'ticket_id' },
  ],
  newestFirst: { stored: (db, account) => countListed(db, account, paging.perPage) },
  cuts: (db, claim) => knownCuts(db, claim, channels),
  among: ids => listTickets({ id: ids, page: 1, per_page: paging.perPage }),
  merge: buildMerge(
    {
      name: 'helpdesk.tickets',
      from: page,
      version: 'updated_at',
      atFirst: { _listed_by: '$5::bigint' },
      whenChanged,
      ofTombstone: ['_deleted_after'],
      ours: {
        ...ours,
        _true_by: `case when not ${isAhead('t._true_by', '$4')} then t._true_by end`,
      },
      leftOut: leftOutOf(ticket),
      columns: columnsOf(ticket),
    },
    [],
    [
      {
        name: 'helpdesk.labels',
        rows: `select l.id from tickets_written w, unnest(w.label_ids) as l (id)`,
        of: ['label_ids'],
      },
      {
        name: 'helpdesk.inboxes',
        rows: `select w.inbox_id as id from tickets_written w where w.inbox_id is not null`,
        of: ['inbox_id'],
      },
    ],
  ),
  ...factsOf(ticket),
};

function filterOf(list: string): TicketsQuery {
  if (list === open) return { state: openStates };
  if (list === recent) return { state: ['closed'] };
  return list === 'default' ? {} : { [list]: true };
}

function byUpdate({ since, order }: Ask): TicketsQuery {
  return {
    sort: order === 'newest' ? '-updated_at' : 'updated_at',
    ...(since !== undefined && { since_updated_at: since }),
  };
}

function byCreation({ since, updatedSince }: Ask): TicketsQuery {
  return {
    sort: 'created_at',
    ...(since !== undefined && { since_created_at: since }),
    ...(updatedSince !== undefined && { since_updated_at: updatedSince }),
  };
}

/** Tickets that every reading of the specification shows in the default list. Counted up to `most`. */
const countListed = (db: Queryable, account: string, most: number): Promise<number> =>
  query(db).value`
    select count(*)::int as n from (
    select from helpdesk.tickets
    where account_id = ${account} and _deleted_at is null and state in ('open', 'hold', 'closed')
      and spam is not true and trash is not true
    limit ${most}) t`;
