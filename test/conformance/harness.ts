/**
 * The sources of the conformance suite. A harness runs the service of a source, changes its records, and says where the
 * mirror differs from it.
 */
import type pg from 'pg';
import { startSandbox } from '../../packages/sandbox/src/server.ts';
import { bookDifferences } from '../support/books.ts';
import { differences, noSandboxLimits } from '../support/mirror.ts';
import { type Billing, startBilling } from './billing-server.ts';
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
  /** Changes one record in silence, to this text: no list shows that it changed. Answers its id. */
  changeSilently(text: string): string;
  /** The setting of its audit, and the streams in which that finds the silent change; undefined: no record can be asked for by its id. */
  readonly audit?: { readonly setting: string; readonly finds: readonly string[] };
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
    changeSilently(text) {
      const { id } = live()[1]!;
      world.patchTicket(id, { subject: text }, { quiet: true });
      return id;
    },
    audit: { setting: 'AUDIT_TICKETS_PER_HOUR', finds: ['helpdesk.tickets'] },
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
    changeSilently(text) {
      const [id] = [...world.volumes.keys()];
      world.changeVolume(id!, { title: text });
      return id!;
    },
    // The first shelf that shows the volume lets it wait to be read: that is no difference any more.
    audit: { setting: 'BOOKS_AUDIT_VOLUMES_PER_HOUR', finds: ['books.shelves'] },
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

const lists = [
  "fullRefresh(contact, '/contacts', { updatedAt: 'updated_at' })",
  "fullRefresh(deal, '/deals', { updatedAt: 'updated_at' })",
] as const;
const contactsWith = (more: string) => [lists[0], lists[0].replace(' })', `, ${more} })`)] as const;

/** A service that pages by offsets, has numbers as ids, takes its key in a header of its own, and refuses with 503. */
const otherWays: Changes = [
  contactsWith("get: '/contacts/:id'"),
  [
    "paginator: { type: 'cursor', cursorParam: 'cursor', cursorPath: 'next_cursor', limitParam: 'limit', limit: 100 },",
    "paginator: { type: 'offset', offsetParam: 'offset', totalPath: 'result.total', limitParam: 'limit', limit: 100 },",
  ],
  [
    "dataSelector: 'data',",
    `dataSelector: 'result.rows',
  keyHeader: 'X-Api-Key',
  dialect: { refusal: ({ status, text }) => (status === 503 ? { freezeMs: JSON.parse(text).wait_ms } : undefined) },`,
  ],
];

/** What the guide's source is changed to: see otherWays. `absences`: a record that is absent from the list may exist, and nothing else shows a deletion. */
export const variants: Readonly<Record<'guide' | 'other' | 'absences' | 'names', Record<string, Changes>>> = {
  guide: {},
  other: { 'sources/crm.ts': otherWays },
  absences: {
    'sources/crm.ts': [contactsWith("deletionsUnknown: 'the list leaves out archived contacts'")],
  },
  names: {
    'sources/crm.ts': [
      ["record('deals',", "record('customers',"],
      [lists[1], lists[1].replace('/deals', '/deals')],
    ],
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
    env: { CRM_BASE_URL: crm.url, CRM_KEY: crm.token, CRM_LOOKBACK_SECONDS: '0' },
    stream: 'contacts',
    requests: () => crm.asked.length,
    change() {
      Object.assign(crm.contacts.get('c0003')!, { name: 'Changed', updated_at: new Date().toISOString() });
      const one = { ...contact(added++), updated_at: new Date().toISOString() };
      crm.contacts.set(one.id, one);
    },
    changeSilently(text) {
      crm.contacts.get('c0004')!.name = text;
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

export interface BillingHarness extends Harness {
  readonly billing: Billing;
}

export async function openBilling(): Promise<BillingHarness> {
  const billing = await startBilling();
  /** Beyond what a double holds. */
  const idOf = (n: number) => String(2n ** 59n + BigInt(n));
  const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();
  const invoice = (n: number, updatedAt: string) => ({
    ...{ id: idOf(n), client_id: idOf(n % 70), status: 'sent', note: `Note ${n}`, updatedAt },
    lines: [0, 1].map(k => ({ id: String(k), text: `Line ${k} of ${n}`, amount: `${n}.1${k}` })),
  });
  for (let n = 0; n < 70; n++)
    billing.clients.set(idOf(n), { id: idOf(n), name: `Client ${n}`, email: `client${n}@example.org` });
  // Ten of a second: some of them lie across the border of two pages.
  for (let n = 0; n < 120; n++)
    billing.invoices.set(idOf(n), invoice(n, ago(100_000 - Math.floor(n / 10)).replace(/\.\d+Z/, '.000Z')));
  const comment = (n: number, k: number) => ({
    ...{ id: idOf(1000 * n + k), author: `author${k}@example.org`, text: `Comment ${k} on ${n}` },
  });
  // Some have none, and one has more than a page shows.
  for (let n = 0; n < 20; n++)
    billing.comments.set(
      idOf(n),
      Array.from({ length: n === 8 ? 120 : n % 4 }, (_, k) => comment(n, k)),
    );
  const payment = (n: number, createdAt: string) => ({
    ...{ id: idOf(n), invoice_id: idOf(n % 120), amount: `${n}.25`, status: 'paid', createdAt },
  });
  // More of a second than a page shows.
  for (let n = 0; n < 200; n++)
    billing.payments.set(idOf(n), payment(n, ago(90_000 - Math.floor(n / 120)).replace(/\.\d+Z/, '.000Z')));
  let added = 1000;
  return {
    billing,
    env: {
      ...{ BILLING_BASE_URL: billing.url, BILLING_KEY: billing.key, BILLING_LOOKBACK_SECONDS: '0' },
      BILLING_REQUESTS_PER_SECOND: '1000',
    },
    stream: 'invoices',
    requests: () => billing.asked.length,
    change() {
      Object.assign(billing.invoices.get(idOf(3))!, { status: 'paid', lines: [], updatedAt: ago(0) });
      const commented = billing.comments.get(idOf(3))!;
      commented.splice(0, 1, comment(3, added), comment(3, added + 1));
      const one = invoice(added++, ago(0));
      billing.invoices.set(one.id, one);
      const paid = payment(added++, ago(0));
      billing.payments.set(paid.id, paid);
    },
    changeSilently(text) {
      billing.invoices.get(idOf(4))!.note = text;
      billing.payments.get(idOf(6))!.status = 'refunded';
      billing.comments.get(idOf(7))![0]!.text = text;
      return idOf(4);
    },
    audit: { setting: 'BILLING_AUDIT_RECORDS_PER_HOUR', finds: ['billing.comments', 'billing.invoices'] },
    remove() {
      billing.invoices.delete(idOf(5));
      for (const n of [0, 60, 199]) billing.payments.delete(idOf(n));
      return { table: 'billing.invoices', id: idOf(5) };
    },
    breakAfter(requests) {
      let left = requests ?? Number.POSITIVE_INFINITY;
      billing.before = () => (--left < 0 ? 503 : undefined);
    },
    async differences(db) {
      const lines = [...billing.invoices.values()].flatMap(({ id: invoice_id, lines }) =>
        lines.map(line => [`${invoice_id} ${line.id}`, { ...line, invoice_id }] as const),
      );
      const comments = [...billing.comments].flatMap(([invoice_id, all]) =>
        billing.invoices.has(invoice_id) ? all.map(one => [one.id, { ...one, invoice_id }] as const) : [],
      );
      const payments = [...billing.payments].map(([id, { createdAt, ...one }]) => [id, one] as const);
      const invoices = [...billing.invoices].map(([id, { updatedAt, ...one }]) => [id, one] as const);
      return [
        ...(await compared(db, 'billing.clients', ['name', 'email'], billing.clients)),
        ...(await compared(db, 'billing.invoices', ['client_id', 'status', 'note'], new Map(invoices))),
        ...(await compared(db, 'billing.comments', ['invoice_id', 'author', 'text'], new Map(comments))),
        ...(await compared(db, 'billing.payments', ['invoice_id', 'amount', 'status'], new Map(payments))),
        ...(await compared(
          db,
          'billing.lines',
          ['invoice_id', 'text', 'amount'],
          new Map(lines),
          "invoice_id || ' ' || id",
        )),
      ];
    },
    [Symbol.asyncDispose]: () => billing[Symbol.asyncDispose](),
  };
}

async function compared(
  db: pg.Pool,
  table: string,
  columns: readonly string[],
  world: ReadonlyMap<string, object>,
  key = 'id',
): Promise<string[]> {
  const { rows } = await db.query<Record<string, unknown>>(
    `select ${key} as id, ${columns.join(', ')} from ${table} where _deleted_at is null`,
  );
  const cells = (one: Record<string, unknown>) => columns.map(name => (one[name] == null ? null : String(one[name])));
  const ours = new Map(rows.map(row => [row.id as string, JSON.stringify(cells(row))]));
  const theirs = new Map([...world].map(([id, one]) => [id, JSON.stringify(cells(one as Record<string, unknown>))]));
  return [...new Set([...ours.keys(), ...theirs.keys()])]
    .filter(id => ours.get(id) !== theirs.get(id))
    .map(id => `${table} ${id}: here ${ours.get(id)}, there ${theirs.get(id)}`);
}
