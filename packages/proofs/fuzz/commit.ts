/**
 * One hostile record among ordinary ones, through the program's own check, merge and books into PostgreSQL. Afterwards the ordinary
 * ones are all there and right, and the hostile one is stored or a reject.
 */

import { pino } from 'pino';
import type { JobContext } from '../../../src/engine/context.ts';
import { register } from '../../../src/engine/coverage/coverage.ts';
import { readDetails } from '../../../src/engine/details/read-details.ts';
import { detailOf } from '../../../src/engine/details/store-detail.ts';
import { makeSend } from '../../../src/engine/http/send.ts';
import { listBatch } from '../../../src/engine/load/batch.ts';
import { commitNow } from '../../../src/engine/load/commit-queue.ts';
import { commitRecords, requestPage } from '../../../src/engine/load/commit-reply.ts';
import type { Claim } from '../../../src/engine/runs/claims.ts';
import { booksDialect } from '../../../src/sources/books/dialect.ts';
import { readShelves } from '../../../src/sources/books/shelves/shelf-loop.ts';
import { volumes } from '../../../src/sources/books/volumes/volumes.ts';
import { messages } from '../../../src/sources/helpdesk/messages/messages.ts';
import { keyOf } from '../../../test/support/keys.ts';
import { iso, message, type Scripted, scripted, second, ticket } from '../../../test/support/scripted.ts';
import { listStream, openBooks, sourcesOf } from '../../../test/support/sources.ts';
import { Chance, hostile, textOf } from './records.ts';

const kinds = [
  'tickets',
  'customers',
  'users',
  'messages',
  'messages',
  'messages',
  'detail',
  'names',
  'volumes',
  'shelves',
] as const;
type Kind = (typeof kinds)[number];

/** What a seed stands for, without what is in the record. */
export const kindOf = (seed: number): Kind => kinds[seed % kinds.length]!;

export class Fuzz implements AsyncDisposable {
  /** The hostile record of the last case. */
  text = '';
  readonly #s: Scripted;
  readonly #claims = new Map<string, Claim>();
  readonly #books: { text: (path: string) => string };
  readonly #ctx: JobContext;

  private constructor(s: Scripted) {
    this.#s = s;
    const books = { text: (_: string) => '{}' };
    this.#books = books;
    const send = makeSend({
      source: 'helpdesk',
      baseUrl: new URL('https://books.example/v1'),
      dialect: booksDialect({ apiKey: 'a-key-of-tests', hasToken: false }),
      token: undefined,
      budget: {
        acquire: async (cost, lane) => ({ id: '', cost, lane }),
        settle: async () => ({}),
        book: async () => {},
        thaw: async () => {},
      },
      clock: s.ctx.clock,
      random: () => 0,
      log: pino({ level: 'silent' }),
      fetch: async url => ({
        status: 200,
        text: books.text(decodeURIComponent(url.pathname.replace('/v1', ''))),
        headers: { date: new Date(s.ctx.clock.now()).toUTCString() },
      }),
    });
    const year = 365 * 86_400_000;
    const catalog = openBooks(send, { owners: ['o'], shelfAgeMs: year, volumeAgeMs: year });
    this.#ctx = { ...s.ctx, sources: new Map([...s.ctx.sources, ...sourcesOf(catalog)]) };
  }

  /** `erased`: somebody was erased, so that every page is looked through for people. */
  static async open(
    database: { url: string; drop: () => Promise<void> },
    { erased }: { erased: boolean },
  ): Promise<Fuzz> {
    const s = await scripted({ database });
    const fuzz = new Fuzz(s);
    await register(
      s.pool,
      { account: 'default', sinceMs: 0 },
      [
        { stream: 'books.shelves', list: 'o' },
        { stream: 'books.volumes', list: 'default' },
      ],
      new Date(second(0)),
    );
    for (const stream of ['tickets', 'customers', 'users', 'messages', 'shelves', 'volumes'])
      fuzz.#claims.set(stream, await s.claim(stream));
    if (erased) {
      await s.rows(`insert into sync.erased values ('default', 'gone', $1, false)`, new Date(second(0)));
      await s.rows(
        `insert into sync.secret_erased select 'default', sync.contact_hash('default', 'gone@example.org'), $1`,
        new Date(second(0)),
      );
    }
    return fuzz;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#s[Symbol.asyncDispose]();
  }

  /** Answers what is wrong; nothing, if all is well. */
  async run(seed: number): Promise<string[]> {
    this.#s.goTo(seed * 10);
    const kind = kindOf(seed);
    try {
      switch (kind) {
        case 'messages':
          return await this.#message(seed);
        case 'detail':
          return await this.#detail(seed);
        case 'names':
          return await this.#names(seed);
        case 'volumes':
        case 'shelves':
          return await this.#shelf(seed, kind);
        default:
          return await this.#list(seed, kind);
      }
    } catch (error) {
      return [`it ended the reading: ${String((error as Error).stack)}`];
    }
  }

  async #list(seed: number, kind: 'tickets' | 'customers' | 'users'): Promise<string[]> {
    const stream = listStream(keyOf(kind));
    const ordinary = [`${seed}-a`, `${seed}-b`].map(id => ordinaryOf[kind](id, seed * 10 - 5));
    const bad = this.#spoiled(ordinaryOf[kind](`${seed}-x`, seed * 10 - 5), seed);
    const texts = ordinary.map(textOf);
    texts.splice(new Chance(seed).below(3), 0, bad);
    this.#s.lists[kind] = `[${texts.join(',')}]`;
    const ask = { page: 1, perPage: 100 };
    const job = { ctx: this.#ctx, claim: this.#claim(kind), stream };
    const reply = await requestPage(job, 'default', ask);
    await commitRecords(job, reply, { batch: listBatch(stream, ask, reply) });
    const rows = await this.#s.rows(
      `select id, _payload, ${
        kind === 'tickets'
          ? 'subject, updated_at, label_ids'
          : kind === 'users'
            ? 'email'
            : `first_name,
         array(select k.value from helpdesk.contacts k where (k.account_id, k.customer_id) = (t.account_id, t.id) order by 1) as values`
      }
       from helpdesk.${kind} t where _synced_at >= $1 order by id`,
      this.#since(seed),
    );
    const expected = ordinary.map(one => ({ id: one.id, _payload: one, ...columnsOf[kind](one) }));
    return this.#judge(seed, kind, rows, expected);
  }

  async #message(seed: number): Promise<string[]> {
    const id = `${seed}-t`;
    const ordinary = [`${seed}-a`, `${seed}-b`].map(one => ordinaryMessage(one));
    const bad = this.#spoiled(ordinaryMessage(`${seed}-x`), seed);
    const texts = ordinary.map(textOf);
    texts.splice(new Chance(seed).below(3), 0, bad);
    return this.#ticket(seed, `{${textOf(ticketOf(id, seed)).slice(1, -1)},"messages":[${texts.join(',')}]}`, ordinary);
  }

  /** The record in detail itself. Where its id cannot be told, the source has not answered. */
  async #detail(seed: number): Promise<string[]> {
    const id = `${seed}-t`;
    await this.#ticket(seed, textOf({ ...ticketOf(id, seed), messages: [] }), []);
    this.#s.goTo(seed * 10 + 2);
    const whole = { ...ticketOf(id, seed), messages: [ordinaryMessage(`${seed}-a`)] };
    this.#s.details[`/tickets/${id}`] = this.#spoiled(whole, seed);
    await this.#ask(id).catch((error: Error) => {
      if (error.name !== 'Retry') throw error;
    });
    const rows = await this.#s.rows('select id from helpdesk.tickets where id = $1', id);
    return rows.length === 1 ? [] : [`ticket ${id} is not there any more`];
  }

  /** A label that rides along. */
  async #names(seed: number): Promise<string[]> {
    const [id, label] = [`${seed}-t`, `${seed}-l`];
    const ordinary = [ordinaryMessage(`${seed}-a`)];
    const bad = this.#spoiled({ id: `${seed}-y`, name: 'odd' }, seed);
    const whole = { ...ticketOf(id, seed), label_ids: [label, `${seed}-y`], messages: ordinary };
    const text = `{${textOf(whole).slice(1, -1)},"labels":[${bad},${textOf({ id: label, name: 'right' })}]}`;
    const found = await this.#ticket(seed, text, ordinary, [label]);
    const rows = await this.#s.rows('select name from helpdesk.labels where id = $1', label);
    return rows[0]?.name === 'right' ? found : [...found, `label ${label} is called ${String(rows[0]?.name)}`];
  }

  async #ask(id: string, labels: string[] = []): Promise<void> {
    const wanted = { id, due: { labels, inbox: [] } };
    const request = messages.request(id, labels.length > 0 ? ['labels'] : []);
    const reply = await this.#ctx.sources.get('helpdesk')!.send(request, { lane: 'fresh', tries: 1 });
    await commitNow(this.#ctx, detailOf(this.#ctx, this.#claim('messages'), messages as never, reply, { wanted }));
  }

  async #ticket(
    seed: number,
    text: string,
    ordinary: readonly { id: string; body: string }[],
    labels: string[] = [],
  ): Promise<string[]> {
    const id = `${seed}-t`;
    this.#s.details[`/tickets/${id}`] = text;
    await this.#ask(id, labels);
    delete this.#s.details[`/tickets/${id}`];
    const rows = await this.#s.rows(
      `select m.id, m.ticket_id, m.body, array(select a.id from helpdesk.attachments a where (a.account_id, a.message_id) = (m.account_id, m.id)) as files
       from helpdesk.messages m where _synced_at >= $1 order by m.id`,
      this.#since(seed),
    );
    const expected = ordinary.map(one => ({ id: one.id, ticket_id: id, body: one.body, files: [`file of ${one.id}`] }));
    const [there] = await this.#s.rows('select subject from helpdesk.tickets where id = $1', id);
    const lost = there?.subject === 'Tea' ? [] : [`ticket ${id} is not there`];
    return [
      ...lost,
      ...(await this.#judge(seed, 'messages', rows, expected, text.includes('-x"') || labels.length === 0)),
    ];
  }

  /** A shelf among shelves, or a volume on a shelf and by its id. */
  async #shelf(seed: number, kind: 'volumes' | 'shelves'): Promise<string[]> {
    const shelf = (id: number) => ({
      kind: 'books#bookshelf',
      id,
      title: `Shelf ${seed}`,
      access: 'PUBLIC',
      updated: iso(seed * 10 - 5),
      created: iso(0),
      volumesLastUpdated: iso(seed * 10 - 5),
      volumeCount: 2,
    });
    const volume = (id: string) => ({
      kind: 'books#volume',
      id,
      volumeInfo: {
        title: `Volume ${id}`,
        authors: ['Ada'],
        publishedDate: '2019-10-03',
        pageCount: 7,
        industryIdentifiers: [{ type: 'ISBN_13', identifier: '1' }],
      },
      saleInfo: { country: 'DE', listPrice: { amount: 1.5, currencyCode: 'EUR' } },
    });
    const plain = [`${seed}-a`, `${seed}-b`];
    const bad = this.#spoiled(kind === 'volumes' ? volume(`${seed}-x`) : shelf(seed * 10 + 1), seed);
    const items = (texts: string[]) =>
      `{"kind":"books#list","totalItems":${texts.length},"items":[${texts.join(',')}]}`;
    this.#books.text = path => {
      if (path === '/users/o/bookshelves')
        return items([textOf(shelf(seed * 10)), ...(kind === 'shelves' ? [bad] : [])]);
      if (path.startsWith('/volumes/'))
        return plain.some(id => path.endsWith(`/${id}`)) ? textOf(volume(path.slice(9))) : bad;
      if (path.endsWith('/volumes'))
        return items(
          path.includes(`/${seed * 10}/`)
            ? [textOf(volume(plain[0]!)), ...(kind === 'volumes' ? [bad] : []), textOf(volume(plain[1]!))]
            : [],
        );
      return textOf(shelf(Number(path.split('/').at(-1))));
    };
    // A shelf of an earlier case would be asked for, since it is not in this list.
    await this.#s.rows(
      `with gone as (delete from books.shelves), taken as (delete from books.shelf_volumes), volumes as (delete from books.volumes)
       update sync.rejects set cleared_at = $1 where stream in ('shelves', 'volumes') and cleared_at is null`,
      this.#since(seed),
    );
    await readShelves(this.#ctx, this.#claim('shelves'));
    await readDetails(this.#ctx, this.#claim('volumes'), volumes).catch((error: Error) => {
      if (error.name !== 'Retry') throw error;
    });
    const rows = await this.#s.rows(
      `select m.volume_id as id, v.title, m.shelf_id from books.shelf_volumes m left join books.volumes v on (v.account_id, v.id) = (m.account_id, m.volume_id)
       where m.shelf_id = $1 and m._removed_at is null order by 1`,
      String(seed * 10),
    );
    const expected = plain.map(id => ({ id, title: `Volume ${id}`, shelf_id: String(seed * 10) }));
    if (kind === 'volumes') return this.#judge(seed, ['shelves', 'volumes'], rows, expected);
    const there = await this.#s.rows(
      `select id from books.shelves where _synced_at >= $1 and id <> $2`,
      this.#since(seed),
      String(seed * 10),
    );
    return this.#judge(seed, ['shelves', 'volumes'], [...rows, ...there], expected);
  }

  #spoiled(record: Readonly<Record<string, unknown>>, seed: number): string {
    this.text = textOf(hostile(record, seed));
    return this.text;
  }

  #claim(stream: string): Claim {
    return this.#claims.get(stream)!;
  }

  #since = (seed: number) => new Date(second(seed * 10));

  async #judge(
    seed: number,
    streams: string | string[],
    rows: readonly Record<string, unknown>[],
    expected: readonly { id: unknown }[],
    isToldOf = true,
  ): Promise<string[]> {
    const complaints: string[] = [];
    for (const one of expected) {
      const row = rows.find(({ id }) => id === one.id);
      if (row === undefined) complaints.push(`${String(one.id)} is missing`);
      else if (keyed(row) !== keyed(one)) complaints.push(`${keyed(row)} instead of ${keyed(one)}`);
    }
    const others = rows.filter(({ id }) => expected.every(one => one.id !== id));
    const [told] = await this.#s.rows(
      'select count(*) as n from sync.rejects where stream = any($1) and last_seen_at >= $2',
      [streams].flat(),
      this.#since(seed),
    );
    if (isToldOf && others.length === 0 && told!.n === 0)
      complaints.push('the hostile record is neither stored nor a reject');
    return complaints;
  }

  /** Every view of the warehouse can be read whole: nothing that was stored breaks what follows from it. */
  async readViews(): Promise<string[]> {
    const views = await this.#s.rows(
      `select format('%I.%I', schemaname, viewname) as view from pg_views where schemaname in ('analytics', 'helpdesk', 'books', 'sync', 'safe') order by 1`,
    );
    const complaints: string[] = [];
    for (const { view } of views)
      await this.#s
        .rows(`select count(md5(v::text)) from ${String(view)} v`)
        .catch((error: Error) => complaints.push(`${String(view)}: ${error.message}`));
    return complaints;
  }
}

const ticketOf = (id: string, seed: number) => ticket(id, { updated_at: iso(seed * 10 - 5), label_ids: [] });
const ordinaryMessage = (id: string) => ({
  ...message(id),
  htmlized: true,
  attachments: [{ id: `file of ${id}`, name: 'a.pdf', size: 1, type: 'application/pdf' }],
});

const ordinaryOf: Record<'tickets' | 'customers' | 'users', (id: string, at: number) => Record<string, unknown>> = {
  tickets: (id, at) => ticket(id, { updated_at: iso(at), label_ids: ['l1', 'l2'] }),
  customers: id => ({
    id,
    first_name: 'Ada',
    last_name: 'L',
    summary: null,
    contacts: [{ id: `c of ${id}`, type: 'email', value: `${id}@example.org` }],
  }),
  users: id => ({ id, first_name: 'Uma', last_name: 'S', email: `${id}@example.org` }),
};

const columnsOf: Record<'tickets' | 'customers' | 'users', (one: Record<string, unknown>) => object> = {
  tickets: ({ subject, updated_at, label_ids }) => ({ subject, updated_at: new Date(updated_at as string), label_ids }),
  customers: ({ id, first_name }) => ({ first_name, values: [`${String(id)}@example.org`] }),
  users: ({ email }) => ({ email }),
};

const keyed = (value: unknown): string =>
  JSON.stringify(value, (_, one: unknown) =>
    typeof one === 'object' && one !== null && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1)))
      : one,
  );
