/** What field rules take from the lake: the old values of all tables, from all files, with the first export after `fields apply`. */
import { expect, test } from 'vitest';
import { applyToStored } from '../../../src/privacy/fields/apply.ts';
import { parseRules } from '../../../src/privacy/fields/parse-field-rules.ts';
import { keepFieldRules } from '../../../src/privacy/fields/stored-rules.ts';
import { kinds, lakeTables, streams } from '../../../src/sources/index.ts';
import { at, iso, message, scripted, ticket } from '../../../test/support/scripted.ts';
import { describeLongOnLake } from './support/lake.ts';
import { lakeBeside } from './support/lake-beside.ts';

await describeLongOnLake('field rules in the lake', () => {
  test('old values are in no file and not in the catalog, and the lake equals the warehouse', async () => {
    await using s = await scripted();
    // Those without an account have nothing of a record.
    const only = lakeTables.filter(({ unit }) => unit !== 'all').map(({ name }) => name);
    await using beside = await lakeBeside(s.url, { only });
    const person = { id: 'c1', first_name: 'Ada', last_name: 'Sekret', summary: null };
    const show = (second: number, subject: string) => {
      const record = ticket('t1', { inbox_id: 'i1', label_ids: ['l1'], updated_at: iso(second), subject });
      const names = { labels: [{ id: 'l1', name: 'zz sekret' }], inbox: { id: 'i1', name: 'zz sekret inbox' } };
      s.details['/tickets/t1'] = { ...record, ...names, messages: [message('m1', { body: 'my sekret' })] };
      return record;
    };
    s.lists.users = [{ id: 'u1', first_name: 'Bo', last_name: null, email: 'zz@sekret.example' }];
    s.lists.customers = [{ ...person, contacts: [{ id: 'k1', type: 'email', value: 'zz@sekret.example' }] }];
    s.lists.tickets = [show(0, 'first sekret')];
    const sync = async (second: number) => {
      s.goTo(second);
      for (const name of ['users', 'customers', 'tickets', 'messages']) await s.sync(name);
    };
    await sync(10);
    await s.pool.query(
      `insert into books.volumes (account_id, id, title, _first_seen_at, _synced_at, _observed_at, _payload)
       values ('default', 'v1', 'zz sekret', now(), now(), now(), '{"id": "v1", "volumeInfo": {"title": "zz sekret"}}')`,
    );
    await beside.export();
    s.lists.tickets = [show(11, 'second sekret')];
    await sync(20);
    await beside.export();
    expect((await beside.everything()).match(/sekret/gi)?.length).toBeGreaterThan(10);
    const rules = {
      ...{ kinds, key: 'a key of sixteen' },
      rules: parseRules(
        'users.email contacts.value:hash customers.last_name labels.name inboxes.name tickets.subject messages.body volumes.volumeInfo.title',
        kinds,
      ),
    };
    const apply = () =>
      applyToStored(s.pool, 'default', rules, {
        ...{ streams, now: at(30), signal: new AbortController().signal, told: () => {} },
      });
    await keepFieldRules(s.pool, 'default', rules, at(30));
    await apply();
    await beside.export();
    const [left] = /.{0,300}sekret/i.exec(await beside.everything()) ?? [];
    expect(left).toBeUndefined();
    expect(await beside.compare()).toEqual([]);
    const snapshots = () => beside.lake.rows('from lake.snapshots()');
    expect(await snapshots()).toHaveLength(1);
    // Applied again, the rules change nothing, and later snapshots stay.
    await apply();
    expect(await s.rows(`select from sync.lake_pending where unit = 'rules'`)).toEqual([]);
    await s.pool.query(`update helpdesk.users set first_name = 'Cy'`);
    await beside.export();
    expect((await snapshots()).length).toBeGreaterThan(1);
    expect(await beside.compare()).toEqual([]);
    await beside.reopen();
    expect(
      await beside.lake.rows('select first_name, email from lake.helpdesk.users where first_name is not null'),
    ).toEqual([{ first_name: 'Cy', email: null }]);
  });
});
