/** What an erasure takes from the lake, from the files of all snapshots: all that it takes from the warehouse, and nothing of others. */
import { expect, test } from 'vitest';
import { eraseCustomer } from '../../../src/privacy/erasures.ts';
import { streams } from '../../../src/sources/index.ts';
import { inProcess } from '../../../test/support/in-process.ts';
import { proof } from '../../../test/support/long.ts';
import { at, iso, message, type Scripted, scripted, ticket } from '../../../test/support/scripted.ts';
import { makeRng, pick } from '../../sandbox/src/random.ts';
import { describeLongOnLake } from './support/lake.ts';
import { type LakeBeside, lakeBeside, personalTables } from './support/lake-beside.ts';

const person = (id: string, name: string, ...contacts: { id: string; value: string }[]) => ({
  ...{ id, first_name: name, last_name: null, summary: null },
  contacts: contacts.map(one => ({ ...one, type: 'email' })),
});
const ada = person('c1', 'Ada', { id: 'k1', value: 'ada@sekret.example' });
const bo = person('c2', 'Bo', { id: 'k2', value: 'bo@x.example' });

const show = (s: Scripted, id: string, customer: string, second: number, messages: unknown[], more: object = {}) => {
  const record = ticket(id, { customer_id: customer, inbox_id: null, updated_at: iso(second), ...more });
  s.details[`/tickets/${id}`] = { ...record, messages };
  return record;
};
const byBo = message('m9', { from: 'bo@x.example', from_name: 'Bo', body: 'tea from Bo' });

async function sync(s: Scripted, second: number): Promise<void> {
  s.goTo(second);
  for (const name of ['customers', 'tickets', 'messages']) await s.sync(name);
}
const asked = { account: 'default', customer: 'c1', who: 'test', withShared: true, streams };
const erase = (s: Scripted, second: number) => eraseCustomer(s.pool, asked, at(second));

/** Where the files, of all snapshots, and the catalog have it. */
async function found(beside: LakeBeside, text: RegExp): Promise<string[]> {
  const all = await beside.everything();
  return [...all.matchAll(new RegExp(text, 'g'))].map(({ index }) => all.slice(Math.max(0, index - 200), index + 20));
}

/** What a snapshot tells of somebody. */
async function told(beside: LakeBeside, version: number, customer: string): Promise<unknown> {
  const of = (table: string) => `(from lake.helpdesk.${table} at (version => ${version}))`;
  return beside.lake.rows(
    `select c.first_name, k.value, t.subject, m.id, m.body, m.body_text, m.from_address
     from ${of('customers')} c join ${of('tickets')} t on t.customer_id = c.id
     left join ${of('contacts')} k on k.customer_id = c.id left join ${of('messages')} m on m.ticket_id = t.id
     where c.id = '${customer}' order by t.id, m.id`,
  );
}

await describeLongOnLake('an erasure in the lake', () => {
  test('that a further address of somebody erased begins', async () => {
    await using s = await scripted();
    await using beside = await lakeBeside(s.url, { only: personalTables });
    const fromAda = message('m2', { from: 'ada@further.example', from_name: 'Adafar', body: 'far away' });
    s.lists.customers = [ada, bo];
    s.lists.tickets = [show(s, 't1', 'c1', 0, []), show(s, 't2', 'c2', 0, [byBo, fromAda], { subject: 'Beans' })];
    await sync(s, 10);
    const { snapshot } = await beside.export();
    await erase(s, 20);
    await beside.export();
    expect(await found(beside, /far away/)).not.toEqual([]);
    s.lists.customers = [person('c1', 'Ada', { id: 'k3', value: 'ada@further.example' }), bo];
    await sync(s, 30);
    expect((await beside.export()).filesCleared).toBeGreaterThan(0);
    expect(await found(beside, /far away|further\.example|Adafar/)).toEqual([]);
    expect(await beside.compare()).toEqual([]);
    const [ofBo] = (await told(beside, snapshot!, 'c2')) as object[];
    expect(ofBo).toMatchObject({ first_name: 'Bo', value: 'bo@x.example', subject: 'Beans', id: 'm2', body: null });
  });

  test.each([{ exported: true }, { exported: false }])(
    'of what was with somebody else before (moved, then exported: $exported)',
    async ({ exported }) => {
      await using s = await scripted();
      await using beside = await lakeBeside(s.url, { only: personalTables });
      const moved = { id: 'k5', value: 'moved@sekret.example' };
      const text = (body: string) => message('m1', { from: null, from_name: null, body });
      s.lists.customers = [ada, person('c2', 'Bo', moved)];
      s.lists.tickets = [show(s, 't1', 'c1', 0, []), show(s, 't2', 'c2', 0, [text('first sekret'), byBo])];
      await sync(s, 10);
      await beside.export();
      s.lists.tickets = [show(s, 't1', 'c1', 0, []), show(s, 't2', 'c2', 11, [text('second sekret'), byBo])];
      await sync(s, 20);
      const { snapshot } = await beside.export();
      s.lists.customers = [person('c1', 'Ada', ...ada.contacts, moved), person('c2', 'Bo')];
      s.lists.tickets = [show(s, 't1', 'c1', 21, [text('second sekret')]), show(s, 't2', 'c2', 21, [byBo])];
      await sync(s, 30);
      expect(await s.rows(`select ticket_id from internal.messages where id = 'm1'`)).toEqual([{ ticket_id: 't1' }]);
      expect(await s.rows(`select customer_id from helpdesk.contacts where id = 'k5'`)).toEqual([
        { customer_id: 'c1' },
      ]);
      if (exported) await beside.export();
      await erase(s, 40);
      await beside.export();
      expect(await found(beside, /sekret/)).toEqual([]);
      expect(await s.rows(`select from sync.changes where changes::text ~ 'sekret'`)).toEqual([]);
      expect(await beside.compare()).toEqual([]);
      const [, ofBo] = (await told(beside, snapshot!, 'c2')) as object[];
      expect(ofBo).toMatchObject({ subject: 'Tea', id: 'm9', body: 'tea from Bo' });
    },
  );

  test('of old values alone, and of rows that are gone', async () => {
    await using s = await scripted();
    await using beside = await lakeBeside(s.url, { only: personalTables });
    s.lists.customers = [ada, bo];
    const gone = message('m1', { from: 'ada@sekret.example', body: 'gone sekret' });
    s.lists.tickets = [
      show(s, 't2', 'c2', 0, [gone, byBo], { reply_to: 'ada@sekret.example', subject: 'Beans' }),
      show(s, 't3', 'c2', 0, [message('m3', { from: 'ada@sekret.example', body: 'late sekret' })]),
    ];
    await sync(s, 10);
    const { snapshot } = await beside.export();
    s.lists.tickets = [
      show(s, 't2', 'c2', 11, [byBo], { reply_to: null, subject: 'Beans' }),
      // The message has another sender now, and is in another ticket.
      show(s, 't3', 'c2', 11, []),
      show(s, 't4', 'c2', 11, [message('m3', { from: 'bo@x.example', body: 'late' })]),
    ];
    await sync(s, 20);
    await beside.export();
    await erase(s, 40);
    await beside.export();
    expect(await found(beside, /sekret/)).toEqual([]);
    expect(await beside.compare()).toEqual([]);
    const old = (await told(beside, snapshot!, 'c2')) as object[];
    expect(old[1]).toMatchObject({ first_name: 'Bo', value: 'bo@x.example', id: 'm9', body: 'tea from Bo' });
  });

  test('leaves alone who has no part in it, also when somebody erased writes again', async () => {
    await using s = await scripted();
    await using beside = await lakeBeside(s.url, { only: personalTables });
    s.lists.customers = [ada, bo];
    const tickets = [
      show(s, 't1', 'c1', 0, [message('m1', { from: 'ada@sekret.example', body: 'sekret' })]),
      // Its ticket names Ada, and was hers.
      show(s, 't2', 'c2', 0, [byBo], { subject: 'Beans' }),
      show(s, 't3', 'c1', 0, [message('m3', { body: 'sekret' })]),
    ];
    s.lists.tickets = tickets;
    await sync(s, 10);
    const first = (await beside.export()).snapshot!;
    const ofBo = await told(beside, first, 'c2');
    s.lists.tickets = [
      ...tickets.slice(0, 2),
      show(s, 't3', 'c2', 11, [message('m3', { body: 'sekret' })], { reply_to: 'ada@sekret.example' }),
    ];
    await sync(s, 20);
    await beside.export();
    await erase(s, 30);
    expect((await beside.export()).filesCleared).toBeGreaterThan(0);
    expect(await found(beside, /sekret/)).toEqual([]);
    expect(await told(beside, first, 'c2')).toEqual(ofBo);

    s.lists.tickets = [
      show(s, 't2', 'c2', 31, [byBo], { subject: 'More beans' }),
      show(s, 't5', 'c1', 31, [message('m5', { from: 'ada@sekret.example', body: 'sekret' })]),
    ];
    await sync(s, 40);
    expect(await s.rows(`select ticket_id from sync.erased_tickets where ticket_id = 't5'`)).toHaveLength(1);
    expect((await beside.export()).filesCleared).toBe(0);
    expect(await found(beside, /sekret/)).toEqual([]);
    expect(await told(beside, first, 'c2')).toEqual(ofBo);
    expect(await beside.compare()).toEqual([]);
  });

  test('leaves files that answer `is null`, and a catalog that tells nothing of what they had', async () => {
    await using s = await scripted();
    await using beside = await lakeBeside(s.url, { only: personalTables });
    s.lists.customers = [ada, bo];
    s.lists.tickets = [
      show(s, 't1', 'c1', 0, [message('m1', { from: 'ada@sekret.example', body: 'x'.repeat(777) })]),
      show(s, 't2', 'c2', 0, [byBo]),
    ];
    await sync(s, 10);
    const { snapshot } = await beside.export();
    const count = async (table: string, where: string, version?: number) => {
      const of = version === undefined ? '' : ` at (version => ${version})`;
      const [row] = await beside.lake.rows<{ n: number }>(
        `select count(*)::int as n from lake.${table}${of} where ${where}`,
      );
      return row!.n;
    };
    expect(await count('safe.tickets', 'subject is null')).toBe(0);
    await erase(s, 20);
    await beside.export();
    // Nothing without a value was ever written to this table.
    expect(await count('helpdesk.contacts', 'value is null', snapshot)).toBe(1);
    expect(await count('helpdesk.contacts', 'value is null')).toBe(0);
    for (const version of [snapshot!, undefined]) {
      for (const lake of [1, 2]) {
        expect(await count('safe.tickets', 'subject is null', version), `${version} ${lake}`).toBe(1);
        expect(await count('safe.tickets', 'subject is not null', version)).toBe(1);
        expect(await count('helpdesk.messages', 'body is null', version)).toBe(1);
        expect(await count('safe.messages', 'body_length is null', version)).toBe(1);
        expect(await count('safe.messages', 'body_length > 5', version)).toBe(1);
        await beside.reopen();
      }
    }
    expect(
      await s.rows(
        `select s.value_count::int as known, s.null_count::int as missing from lake.ducklake_file_column_stats s
         join lake.ducklake_column c using (table_id, column_id) join lake.ducklake_table t using (table_id)
         join lake.ducklake_schema n using (schema_id)
         where (n.schema_name, t.table_name, c.column_name) = ('helpdesk', 'contacts', 'value')`,
      ),
    ).toEqual([{ known: 1, missing: 1 }]);
    expect(
      await s.rows(
        `select distinct s.min_value, s.max_value
         from (select table_id, column_id, min_value, max_value from lake.ducklake_file_column_stats
           union all select table_id, column_id, min_value, max_value from lake.ducklake_table_column_stats) s
         join lake.ducklake_column c using (table_id, column_id) where c.column_name = 'body_length'`,
      ),
    ).toEqual([{ min_value: null, max_value: null }]);
  });

  test('leaves no value that the warehouse has neither in a row nor as an old value', proof, async () => {
    const columns = {
      tickets: ['subject', 'summary', 'reply_to', 'reply_cc'],
      messages: ['from_name', 'from_address', 'to_address', 'body', 'more_body'],
      attachments: ['name'],
      customers: ['first_name', 'last_name', 'summary'],
      contacts: ['value'],
    };
    const rng = makeRng(21);
    await using s = await inProcess({ tickets: 40, seed: 21 });
    await s.sync();
    await using beside = await lakeBeside(s.url, { only: personalTables });
    for (let round = 0; round < 3; round++) {
      await beside.export();
      for (let i = 0; i < 30; i++) s.world.mutate(rng);
      s.nowMs += 300_000;
      await s.sync();
      const people = await s.rows(
        `select c.id from helpdesk.customers c where not exists (select from sync.erased e where e.customer_id = c.id)
           and exists (select from helpdesk.tickets t where t.customer_id = c.id) order by 1`,
      );
      await eraseCustomer(s.pool, { ...asked, customer: String(pick(rng, people).id) }, new Date(s.nowMs));
      await beside.export();
      const files = await beside.files();
      for (const [table, named] of Object.entries(columns)) {
        const theirs = files.filter(file => file.includes(`/helpdesk/${table}/`)).map(file => `'${file}'`);
        for (const column of named) {
          const held = await beside.lake.rows<{ value: string }>(
            `select distinct ${column} as value from read_parquet([${theirs}], hive_partitioning = false) where ${column} is not null`,
          );
          const only = await s.rows(
            `select u.value from unnest($1::text[]) u (value)
             where not exists (select from helpdesk.${table} t where t.${column} = u.value)
               and not exists (select from sync.changes c where strpos(c.changes::text, to_jsonb(u.value)::text) > 0)`,
            held.map(({ value }) => value),
          );
          expect(only, `${table}.${column}`).toEqual([]);
        }
      }
      expect(await beside.compare()).toEqual([]);
    }
  });
});
