/**
 * Customers and their contacts. Records show no creation time, and the list has no filter for updates. New customers
 * are found by the creation time in the request, so each row stores the bounds of its creation time. Edits of known
 * customers are silent changes.
 */

import { buildMerge, derived, elements, page } from '../../engine/commit/merge.ts';
import { walkList } from '../../engine/reading/page-walk.ts';
import { factsOf } from '../record/check.ts';
import { columnsOf } from '../record/columns.ts';
import { identify, type ListStream } from '../source.ts';
import { getCustomer, listCustomers, paging } from './endpoints.ts';
import { personalRules } from './personal/rules.ts';
import { type Customer, contact, customer } from './records.ts';

export const customers: ListStream<Customer> = {
  kind: 'list',
  ...identify('helpdesk', 'customers'),
  personal: personalRules.customers,
  schedule: ['fresh', 'nightly'],
  lists: [{ name: 'default' }],
  read: walkList,
  paging,
  fromTheBeginning: true,
  request: (_list, ask) =>
    listCustomers({
      sort: 'created_at',
      page: ask.page,
      per_page: ask.perPage,
      ...(ask.since !== undefined && { since_created_at: ask.since }),
      ...(ask.count && { count: true }),
    }),
  orderedBy: () => Number.NaN,
  get: getCustomer,
  edited: 'customer edited',
  rowFacts: {
    created: { before: '_created_before', checkedAt: '_checked_at' },
    // The oldest ticket of a customer.
    provenBy: `(
          select min(k.created_at) from helpdesk.tickets k where (k.account_id, k.customer_id) = (t.account_id, t.id))`,
  },
  // The customer was created before the reply was written.
  parameters: (ask, shownBy) => [new Date(ask.since ?? 0), new Date(shownBy)],
  merge: buildMerge(
    {
      name: 'helpdesk.customers',
      from: page,
      columns: columnsOf(customer),
      atFirst: { _created_after: '$8', _created_before: '$9', _checked_at: '$4' },
      ofTombstone: ['_deleted_after'],
    },
    [
      {
        name: 'helpdesk.contacts',
        from: `(select p.id as customer_id, c.record, row_number() over (order by p.n, c.n) as n
      from customers_row p join customers_written using (id),
        ${elements("p.record -> 'contacts'")} with ordinality as c (record, n)) e`,
        parent: 'customer_id',
        columns: columnsOf(contact, { id: [derived('customer_id', 'customer_id')] }),
      },
    ],
  ),
  ...factsOf(customer),
};
