/** Planted mistakes in what is beside the help desk's own lists: erasure, the catalog, and pages that are stored together. */
import type { Statement } from '../database.ts';
import type { Plan } from '../plan.ts';
import type { Planted } from './index.ts';

const erasing = (plan: Plan): Partial<Plan> => ({
  ...{ erasures: 2, changes: 0.08, deaths: 0, troubles: 0, turmoilSteps: 500, turmoilMs: 400_000 },
  ...{ tickets: Math.max(plan.tickets, 9), customers: 3, rules: [] },
});

const minimised = (plan: Plan): Partial<Plan> => ({
  ...erasing(plan),
  ...{ erasures: 0, fields: ['subject', 'body'], fieldsComeLate: true },
});

const shelved = (): Partial<Plan> => ({
  ...{ volumes: 12, shelfPage: 4, changes: 0.08, deaths: 0, troubles: 0, rules: [] },
});

const exported = (plan: Plan): Partial<Plan> => ({ ...erasing(plan), erasures: 1, exports: 4 });

/** An erasure is noted of each of them. */
const noted = [
  ...['helpdesk.tickets', 'internal.messages', 'helpdesk.attachments', 'helpdesk.customers', 'helpdesk.contacts'],
  ...['sync.changes', 'sync.erased', 'sync.erased_tickets'],
];

const replacing = (isIt: (text: string) => boolean, what: string | RegExp, by: string) => ({
  rewrite: (statement: Statement) =>
    isIt(statement.text) ? { ...statement, text: statement.text.replace(what, by) } : statement,
});

/** The second page of a transaction brings no records. */
function emptySecond() {
  let merges = 0;
  return (statement: Statement): Statement => {
    if (statement.text.startsWith('begin')) merges = 0;
    if (!/^\s*with asked as materialized/.test(statement.text) || ++merges !== 2) return statement;
    return { ...statement, values: ['[]', ...statement.values.slice(1)] };
  };
}

export const beside: Readonly<Record<string, Planted>> = {
  'a sync stores an erased person again': {
    defect: replacing(() => true, 'then sync.any_erased($2) else', 'then false and sync.any_erased($2) else'),
    by: /^(at rest: )?I23:/,
    recorded: { seed: 1, sharpened: erasing },
  },
  'an erasure leaves the texts of messages': {
    defect: replacing(
      text => /^update .*messages t set/.test(text),
      'where t.account_id',
      'where false and t.account_id',
    ),
    by: /^(at rest: )?I23:/,
    recorded: { seed: 1, sharpened: erasing },
  },
  'an erasure leaves the log of changes': {
    defect: replacing(text => text.includes('with emptied as ('), 'where c.id = e.id', 'where false and c.id = e.id'),
    by: /^(at rest: )?I23:/,
    recorded: { seed: 7, sharpened: erasing },
  },
  'new field rules do not end the claims of running streams': {
    defect: replacing(
      text =>
        text.includes('update sync.stored_run_streams set token = token + 1') && text.includes("state = 'waiting'"),
      'where account_id = $1',
      'where false and account_id = $1',
    ),
    by: /^(at rest: )?I24:/,
    recorded: { seed: 3, sharpened: minimised },
  },
  'field rules leave the log of changes': {
    defect: replacing(text => text.startsWith('update sync.changes c set changes = r.changes'), 'c.id = r.id', 'false'),
    by: /^(at rest: )?I24:/,
    recorded: { seed: 7, sharpened: minimised },
  },
  'a volume that left its shelf stays': {
    defect: replacing(
      text => text.startsWith('update books.shelf_volumes m set _removed_at'),
      'and _removed_at is null',
      'and false and _removed_at is null',
    ),
    by: /^I15:/,
    recorded: { seed: 1, sharpened: shelved },
  },
  'a volume that moved keeps its position': {
    defect: replacing(
      text => text.includes('insert into books.shelf_volumes'),
      'position = excluded.position, _removed_at',
      'position = shelf_volumes.position, _removed_at',
    ),
    by: /^I15:/,
    recorded: { seed: 3, sharpened: shelved },
  },
  'a ticket that changed is not noted for the lake': {
    defect: { inLake: 'drop trigger lake_update on helpdesk.tickets' },
    by: /^at rest: the lake lacks/,
    recorded: { seed: 1, sharpened: exported },
  },
  'an erasure is not noted for the lake': {
    defect: { inLake: noted.map(table => `drop trigger lake_erased on ${table}`).join(';') },
    by: /^at rest: I23: the lake holds/,
    recorded: { seed: 6, sharpened: exported },
  },
  'a page that is stored with another one is lost': {
    defect: { rewrite: emptySecond() },
    by: /^(I1|I3|at rest(, before the sweep)?: (tickets|customers))/,
    recorded: { seed: 4 },
  },
};
