/**
 * The sources of the conformance suite. A harness runs the service of a source, changes its records, and says where the
 * mirror differs from it.
 */
import type pg from 'pg';
import { startSandbox } from '../../packages/sandbox/src/server.ts';
import { bookDifferences } from '../support/books.ts';
import { differences, noSandboxLimits } from '../support/mirror.ts';
import { type Crm, startCrm } from './crm-server.ts';
import type { Changes } from './tree.ts';

export interface Harness extends AsyncDisposable {
  /** Settings of the source. */
  readonly env: Readonly<Record<string, string>>;
  /** A stream that is read as a list. */
  readonly stream: string;
  /** How many requests the service has answered. */
  requests(): number;
  /** Changes one record and adds another one, as people do. */
  change(): void;
  /** Changes one record in silence: no list shows that it changed. Answers its id. */
  changeSilently(): string;
  /** Removes one record. Answers its table and id. */
  remove(): { table: string; id: string };
  /** From now on the service breaks off after so many requests; undefined: it does not. */
  breakAfter(requests: number | undefined): void;
  /** Differences between the mirror and the service, one line each. */
  differences(db: pg.Pool): Promise<string[]>;
}

const plenty = {
  HELPDESK_CREDITS: '1000000',
  HELPDESK_REQUESTS_PER_SECOND: '100000',
  HELPDESK_RESERVE: '0',
  BOOKS_REQUESTS_PER_DAY: '1000000',
  BOOKS_REQUESTS_PER_SECOND: '100000',
};

export async function openHelpdesk(): Promise<Harness> {
  let left = Number.POSITIVE_INFINITY;
  const sandbox = await startSandbox({
    ...{ tickets: 60, customers: 20, seed: 3, books: { volumes: 1 } },
    ...noSandboxLimits,
    fault: () => (--left < 0 ? { kind: 'reset', after: 'before' } : undefined),
  });
  const { world } = sandbox;
  const live = () => [...world.tickets.values()].filter(({ state }) => state === 'open');
  return {
    env: { ...plenty, HELPDESK_BASE_URL: sandbox.url, HELPDESK_TOKEN: sandbox.token, HELPDESK_LOOKBACK_SECONDS: '0' },
    stream: 'tickets',
    requests: () => sandbox.totals.requests,
    change() {
      world.patchTicket(live()[0]!.id, { subject: 'Changed' });
      world.addTicket({ subject: 'New' });
    },
    changeSilently() {
      const { id } = live()[1]!;
      world.patchTicket(id, { subject: 'Silent' }, { quiet: true });
      return id;
    },
    remove() {
      const { id } = live()[2]!;
      world.deleteTicket(id);
      return { table: 'helpdesk.tickets', id };
    },
    breakAfter: requests => {
      left = requests ?? Number.POSITIVE_INFINITY;
    },
    differences: db => differences(db, world),
    [Symbol.asyncDispose]: () => sandbox.close(),
  };
}

export async function openBooks(): Promise<Harness> {
  let left = Number.POSITIVE_INFINITY;
  const sandbox = await startSandbox({
    ...{ tickets: 1, customers: 1 },
    books: {
      ...{ volumes: 30, requestsPerDay: 1e6, requestsPerSecond: 1e5 },
      fault: () => (--left < 0 ? { kind: 'reset', after: 'before' } : undefined),
    },
  });
  const { world } = sandbox.books;
  const owners = [...world.users.keys()];
  const [owner] = owners;
  const extra = world.createShelf(owner!, { title: 'To be removed', access: 'PUBLIC' });
  const filled = () =>
    [...world.users].flatMap(([user, { shelves }]) =>
      [...shelves.values()].filter(({ volumes }) => volumes.length > 2).map(shelf => ({ user, shelf })),
    )[0]!;
  return {
    env: {
      ...plenty,
      BOOKS_BASE_URL: sandbox.books.url,
      BOOKS_API_KEY: sandbox.books.key,
      BOOKS_USERS: owners.join(','),
      BOOKS_AUDIT_VOLUMES_PER_HOUR: '0',
    },
    stream: 'shelves',
    requests: () => sandbox.books.totals.requests,
    change() {
      const { user, shelf } = filled();
      world.changeShelf(user, shelf.id, { title: 'Changed' });
      const { id } = world.addVolume({});
      world.add(user, shelf.id, id);
    },
    changeSilently() {
      const [id] = [...world.volumes.keys()];
      world.changeVolume(id!, { title: 'Silent' });
      return id!;
    },
    remove() {
      world.deleteShelf(owner!, extra.id);
      return { table: 'books.shelves', id: String(extra.id) };
    },
    breakAfter: requests => {
      left = requests ?? Number.POSITIVE_INFINITY;
    },
    differences: db => bookDifferences(db, world, owners),
    [Symbol.asyncDispose]: () => sandbox.close(),
  };
}

const listOnly = "request: ({ cursor }) => pageOf('/contacts', contact, cursor),";
const withGet = `${listOnly}
  get: id => ({ path: \`/contacts/\${encodeURIComponent(id)}\`, query: {}, cost: 1, shape: 'single', record: contact }),`;

const withUnknownDeletions = `${listOnly}
  deletionsUnknown: 'the list leaves out archived contacts',`;

/** A service that pages by offsets, has numbers as ids, takes its key in a header of its own, and refuses with 503. */
const otherWays: Changes = [
  ['id: z.string().min(1)', 'id: z.coerce.string()'],
  [
    'query: { limit: String(perPage), ...(cursor !== undefined && { cursor }) }',
    "query: { limit: String(perPage), offset: cursor ?? '0' }",
  ],
  ["within: 'data'", "within: 'result.rows'"],
  [
    'next: body => (body as { next_cursor?: string | null }).next_cursor ?? undefined',
    `next: body => {
      const { offset, total } = (body as { result: { offset: number; total: number } }).result;
      const next = offset + perPage - 1;
      return next + 1 < total ? String(next) : undefined;
    }`,
  ],
  ['  record: contact,', '  record: contact,\n  overlap: true,'],
  ['  record: deal,', '  record: deal,\n  overlap: true,'],
  [
    "dialect: bearerDialect({ address: 'CRM_BASE_URL', token: 'CRM_TOKEN' }),",
    `dialect: {
            ...bearerDialect({ address: 'CRM_BASE_URL', token: 'CRM_TOKEN' }),
            authorization: key => ({ 'x-api-key': key }),
            refusal: ({ status, text }) => (status === 503 ? { freezeMs: JSON.parse(text).wait_ms } : undefined),
          },`,
  ],
];

/** What the guide's source is changed to: see otherWays. `absences`: a record that is absent from the list may exist, and nothing else shows a deletion. */
export const variants: Readonly<Record<'guide' | 'other' | 'absences' | 'names', Record<string, Changes>>> = {
  guide: {},
  other: { 'src/sources/crm/crm.ts': [[listOnly, withGet], ...otherWays] },
  absences: { 'src/sources/crm/crm.ts': [[listOnly, withUnknownDeletions]] },
  names: {
    'src/sources/crm/crm.ts': [["name: 'deals'", "name: 'customers'"]],
    'src/sources/crm/crm.sql': [['crm.deals', 'crm.customers']],
  },
};

export interface CrmHarness extends Harness {
  readonly crm: Crm;
}

export async function openCrm({ other = false } = {}): Promise<CrmHarness> {
  const crm = await startCrm({ other });
  const at = (minutes: number) => new Date(Date.parse('2026-03-01T12:00:00Z') + minutes * 60_000).toISOString();
  const contact = (n: number) => ({
    id: `c${String(n).padStart(4, '0')}`,
    name: `Contact ${n}`,
    email: `contact${n}@example.org`,
    phone: n % 2 ? `+49 30 ${1000 + n}` : null,
    updated_at: at(n),
  });
  for (let n = 0; n < 230; n++) crm.contacts.set(contact(n).id, contact(n));
  for (let n = 0; n < 40; n++)
    crm.deals.set(`d${n}`, {
      id: `d${n}`,
      contact_id: contact(n).id,
      title: `Deal ${n}`,
      stage: 'open',
      amount: 12.1 * n,
      updated_at: at(n),
    });
  let added = 1000;
  return {
    crm,
    env: { CRM_BASE_URL: crm.url, CRM_TOKEN: crm.token },
    stream: 'contacts',
    requests: () => crm.asked.length,
    change() {
      Object.assign(crm.contacts.get('c0003')!, { name: 'Changed', updated_at: new Date().toISOString() });
      const one = { ...contact(added++), updated_at: new Date().toISOString() };
      crm.contacts.set(one.id, one);
    },
    changeSilently() {
      crm.contacts.get('c0004')!.name = 'Silent';
      return 'c0004';
    },
    remove() {
      crm.contacts.delete('c0005');
      return { table: 'crm.contacts', id: 'c0005' };
    },
    breakAfter(requests) {
      let left = requests ?? Number.POSITIVE_INFINITY;
      crm.before = () => (--left < 0 ? 503 : undefined);
    },
    async differences(db) {
      return [
        ...(await compared(db, 'crm.contacts', ['name', 'email', 'phone'], crm.contacts)),
        ...(await compared(db, 'crm.deals', ['contact_id', 'title', 'stage', 'amount'], crm.deals)),
      ];
    },
    [Symbol.asyncDispose]: () => crm[Symbol.asyncDispose](),
  };
}

async function compared(
  db: pg.Pool,
  table: string,
  columns: readonly string[],
  world: ReadonlyMap<string, object>,
): Promise<string[]> {
  const { rows } = await db.query<Record<string, unknown>>(
    `select id, ${columns.join(', ')} from ${table} where _deleted_at is null`,
  );
  const cells = (one: Record<string, unknown>) => columns.map(name => (one[name] == null ? null : String(one[name])));
  const ours = new Map(rows.map(row => [row.id as string, JSON.stringify(cells(row))]));
  const theirs = new Map([...world].map(([id, one]) => [id, JSON.stringify(cells(one as Record<string, unknown>))]));
  return [...new Set([...ours.keys(), ...theirs.keys()])]
    .filter(id => ours.get(id) !== theirs.get(id))
    .map(id => `${table} ${id}: here ${ours.get(id)}, there ${theirs.get(id)}`);
}
