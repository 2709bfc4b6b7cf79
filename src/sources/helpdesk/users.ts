/** The team members. A short list without an order, read whole each time: for one credit, unless there are several pages. */

import { buildMerge, page } from '../../engine/commit/merge.ts';
import { readWhole } from '../../engine/reading/whole-list.ts';
import { factsOf } from '../record/check.ts';
import { columnsOf } from '../record/columns.ts';
import { identify, type ListStream } from '../source.ts';
import { listUsers, paging } from './endpoints.ts';
import { type User, user } from './records.ts';

export const users: ListStream<User> = {
  kind: 'list',
  ...identify('helpdesk', 'users'),
  schedule: ['nightly'],
  lists: [{ name: 'default' }],
  read: readWhole,
  paging,
  fromTheBeginning: true,
  deletions: 'verify',
  edited: 'user edited',
  request: (_list, ask) => listUsers({ page: ask.page, per_page: ask.perPage }),
  orderedBy: () => Number.NaN,
  merge: buildMerge({
    name: 'helpdesk.users',
    from: page,
    columns: columnsOf(user),
  }),
  ...factsOf(user),
};
