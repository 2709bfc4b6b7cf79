/** Erasing a customer of the help desk in the tables of another source, which only declares its personal data. */
import { expect, test } from 'vitest';
import { withCare } from '../../../src/engine/commit/commit.ts';
import { settle } from '../../../src/engine/commit/rejects.ts';
import { writeBatch } from '../../../src/engine/commit/rows.ts';
import { transaction } from '../../../src/engine/database/pool.ts';
import { singleBatch } from '../../../src/engine/load/batch.ts';
import { differingOf } from '../../../src/engine/verify/compare-reply.ts';
import { eraseMore } from '../../../src/privacy/erase.ts';
import { eraseCustomer, eraseFound, wouldErase } from '../../../src/privacy/erasures.ts';
import { noClues } from '../../../src/privacy/redact.ts';
import { streams } from '../../../src/sources/index.ts';
import { ada, bo, contactRules, contacts, makeCrm } from '../../support/crm.ts';
import { at, scripted, second } from '../../support/scripted.ts';

const all = [...streams, contacts];
const account = 'default';
const claim = { account, stream: contacts.key };

async function mirror() {
  const s = await scripted();
  await makeCrm(s.pool);
  s.lists.customers = [
    {
      ...{ id: 'c1', first_name: 'Ada', last_name: 'Secret', summary: null },
      contacts: [{ id: 'k1', type: 'email', value: 'ada@secret.example' }],
    },
  ];
  await s.sync('customers');
  let n = 100;
  const moment = () => ({ nowMs: second(++n), asOfMs: second(n) });
  return Object.assign(s, {
    put: async (...records: { id: string }[]) => {
      const when = moment();
      for (const record of records) {
        const of = { records: [record], text: JSON.stringify(record), shownBy: when.nowMs };
        const batch = singleBatch(contacts, of);
        await withCare({ pg: s.pool, streams: all }, (client, care) =>
          writeBatch({ client, claim: { account, run: null }, at: when, care }, batch),
        );
      }
    },
    reject: (id: string, payload: unknown) =>
      transaction(s.pool, client =>
        settle(
          { client, claim, at: moment() },
          {
            rejects: [{ recordId: id, askId: id, reason: 'why', payload: JSON.stringify(payload) }],
            filter: contactRules,
          },
        ),
      ),
    drift: (path: string, sample: unknown) =>
      transaction(s.pool, client =>
        settle(
          { client, claim, at: moment() },
          {
            drift: [{ kind: 'unknown_field', path, value: '', seen: 1, sample: JSON.stringify(sample) }],
            filter: contactRules,
          },
        ),
      ),
    erase: () => eraseCustomer(s.pool, { account, customer: 'c1', who: 'test', streams: all }, at(++n)),
    /** Rows that hold something of Ada, beside the help desk's own. */
    secrets: async () =>
      s.rows(`select 'contacts' as place, t::text as row from crm.contacts t where t::text ~* 'secret|5552345|555-2345' union all
        select 'addresses', t::text from crm.addresses t where t::text ~* 'secret' union all
        select 'changes', t::text from sync.changes t where t::text ~* 'secret|555-2345' union all
        select 'audit', t::text from sync.audit t where t::text ~* 'secret' union all
        select 'rejects', t::text from sync.rejects t where t::text ~* 'secret|555-2345' union all
        select 'drift', t::text from sync.drift t where t::text ~* 'secret'`),
    stored: () =>
      s.rows('select id, name, email, phones, note, chat, stage, company_id, _payload from crm.contacts order by id'),
  });
}

const cleared = { name: null, email: null, phones: null, note: null, chat: null };
const left = {
  ...{ id: 'p1', ...cleared, stage: 'won', company_id: 'f1' },
  _payload: { id: 'p1', stage: 'won', company_id: 'f1', created_at: ada().created_at },
};

test('rows with an erased address are cleared, with old values, comparisons, rejects and samples; others stay', async () => {
  await using s = await mirror();
  await s.put(ada({ name: 'Ada Older Secret', addresses: [{ id: 'a0', street: 'old secret street' }] }), bo());
  await s.put(ada(), bo({ name: 'Bob' }));
  await s.reject('p1', { name: 3, note: 'secret' });
  await s.reject('p9', { id: 'p9', name: 3, mail: 'ada@secret.example' });
  await s.reject('p8', { id: 'p8', name: 3, mail: 'eve@other.example' });
  await s.drift('nickname', ada());
  await s.rows(
    `insert into sync.audit (account_id, run_id, source, stream, record_id, checked_at, random, kind, differences)
     select 'default', 1, 'crm', 'contacts', 'p1', now(), false, 'content', '{"name": ["x", "Ada Secret"], "stage": ["new", "won"]}'`,
  );
  const others = async () =>
    s.rows(`select to_jsonb(t) as row from crm.contacts t where id = 'p2' union all
      select to_jsonb(t) from crm.addresses t where id = 'a2' union all
      select to_jsonb(t) from sync.changes t where record_id = 'p2' union all
      select to_jsonb(t) from sync.rejects t where record_id = 'p8'`);
  const before = await others();
  expect(before).toHaveLength(4);
  expect(new Set((await s.secrets()).map(({ place }) => place))).toEqual(
    new Set(['contacts', 'addresses', 'changes', 'audit', 'rejects', 'drift']),
  );

  const told = { 'crm.contacts': 1, 'crm.addresses': 1, changes: 2, comparisons: 1, rejects: 2, 'samples of drift': 1 };
  expect((await wouldErase(s.pool, account, { customer: 'c1' }, at(200), all)).rows).toMatchObject(told);
  expect(await s.secrets()).not.toEqual([]);
  expect((await s.erase()).rows).toMatchObject(told);

  expect(await s.secrets()).toEqual([]);
  expect((await s.stored())[0]).toEqual(left);
  expect(await others()).toEqual(before);
  expect(await s.rows(`select differences from sync.audit`)).toEqual([
    { differences: { name: ['erased', 'erased'], stage: ['new', 'won'] } },
  ]);
  expect(await s.rows('select outcome from sync.operations')).toEqual([
    { outcome: expect.stringContaining('crm.contacts: 1 row, crm.addresses: 1 row') },
  ]);
  // Again there is nothing left.
  expect((await s.erase()).rows).toMatchObject({ 'crm.contacts': 0, 'crm.addresses': 0, changes: 0, rejects: 0 });
});

test('a record that comes again is stored redacted, and writes nothing; so does a new one, a reject and a sample', async () => {
  await using s = await mirror();
  await s.put(ada(), bo());
  await s.erase();
  const rows = () => s.rows('select ctid::text, xmin::text, to_jsonb(t) as row from crm.contacts t order by id');
  const before = await rows();
  await s.put(ada(), bo());
  expect(await rows()).toEqual(before);
  // A comparison finds no difference.
  const of = { records: [ada()], text: JSON.stringify(ada({ name: 'Ada Newer Secret' })), shownBy: second(900) };
  const batch = singleBatch(contacts, of);
  const when = { nowMs: second(900), asOfMs: second(900) };
  const by = { claim: await s.claim('customers'), at: when, care: 'as it came' } as const;
  const compared = await transaction(s.pool, client => differingOf({ client, ...by }, batch));
  expect(compared).toEqual({ found: [], refused: 0 });
  await s.put(ada({ id: 'p3', mail: 'mailto:ada@secret.example', stage: 'lost' }));
  await s.reject('p4', { id: 'p4', name: 3, mail: 'ada@secret.example', note: 'secret' });
  await s.drift('nickname', ada());
  expect(await s.secrets()).toEqual([]);
  expect(await s.stored()).toMatchObject([left, { id: 'p2', name: 'Bo' }, { id: 'p3', ...cleared, stage: 'lost' }]);
  expect(await s.rows('select record_id, payload from sync.rejects')).toEqual([{ record_id: 'p4', payload: null }]);
});

test('a row that shows an erased address later is cleared with its history', async () => {
  await using s = await mirror();
  await s.erase();
  await s.put(ada({ mail: 'private@hidden.example', name: 'Secret One' }));
  await s.put(ada({ mail: 'private@hidden.example', name: 'Secret Two' }));
  expect((await s.secrets()).map(({ place }) => place)).toContain('changes');
  await s.put(ada());
  expect(await s.secrets()).toEqual([]);
  expect(await s.rows(`select changes from sync.changes where table_name = 'contacts'`)).toEqual([{ changes: {} }]);
  expect(await s.stored()).toEqual([left]);
});

test('a further address of an erased customer clears the rows that hold it', async () => {
  await using s = await mirror();
  await s.put(ada({ mail: 'work@office.example' }), bo());
  await s.erase();
  expect((await s.stored())[0]).toMatchObject({ email: 'work@office.example' });
  const found = { customers: ['c1'], tickets: [], contacts: ['work@office.example', '+49 30 5552345'] };
  const { rows } = await transaction(s.pool, client => eraseMore(client, account, found, at(300), all));
  expect(rows).toMatchObject({ 'crm.contacts': 1, 'crm.addresses': 1 });
  expect(await s.stored()).toMatchObject([left, { id: 'p2', name: 'Bo' }]);
});

test('a phone number alone finds a row, and another account keeps its rows', async () => {
  await using s = await mirror();
  await s.put(ada({ mail: null }));
  await s.rows(`insert into crm.contacts select 'other', id, name, email, phones, note, chat, stage, company_id, created_at,
    _first_seen_at, _synced_at, _observed_at, _deleted_at, _payload from crm.contacts`);
  await s.rows(`update helpdesk.contacts set value = '(+49) 30 5552345'`);
  expect((await s.erase()).rows).toMatchObject({ 'crm.contacts': 1 });
  expect(await s.rows('select account_id, name from crm.contacts order by 1')).toEqual([
    { account_id: 'default', name: null },
    { account_id: 'other', name: 'Ada Secret' },
  ]);
});

test('a chat name finds a row', async () => {
  await using s = await mirror();
  await s.put(ada({ mail: null, phones: null, chat: '@Ada_Lovelace' }), bo({ chat: 'bo' }));
  await s.rows(`update helpdesk.contacts set value = 'ada_lovelace', type = 'other'`);
  expect((await s.erase()).rows).toMatchObject({ 'crm.contacts': 1 });
  expect(await s.stored()).toMatchObject([left, { id: 'p2', name: 'Bo' }]);
});

test('a contact value erases without a help desk, and keeps its rows erased; a value of nobody is refused', async () => {
  await using s = await mirror();
  await s.rows('delete from helpdesk.contacts');
  await s.rows('delete from helpdesk.customers');
  await s.put(ada(), bo());
  const erase = (contact: string) => eraseCustomer(s.pool, { account, contact, who: 'test', streams: all }, at(500));
  const told = { 'crm.contacts': 1, 'crm.addresses': 1, 'contact values kept out': 1 };
  expect((await wouldErase(s.pool, account, { contact: 'ada@secret.example' }, at(500), all)).rows).toMatchObject(told);
  expect((await erase('Ada@Secret.example')).rows).toMatchObject(told);
  expect(await s.secrets()).toEqual([]);
  await s.put(ada({ name: 'Ada Newer Secret' }), bo());
  await s.reject('p4', { id: 'p4', name: 3, mail: 'ada@secret.example', note: 'secret' });
  expect(await s.secrets()).toEqual([]);
  expect(await s.stored()).toMatchObject([left, { id: 'p2', name: 'Bo' }]);
  expect(await s.rows('select subject from sync.operations')).toEqual([{ subject: 'a contact value' }]);
  await expect(erase('noreply@shop.example')).rejects.toMatchObject({ message: 'the contact value identifies nobody' });
});

test('a person who is found again is not erased in part where such a source is not known', async () => {
  await using s = await mirror();
  await s.put(ada(), bo());
  const found = { ...noClues, customers: ['c1'], contacts: ['ada@secret.example'] };
  const again = (of: typeof all) => eraseFound(s.pool, { account, found, now: at(500), streams: of });
  const before = await s.secrets();
  await expect(again([...streams])).rejects.toMatchObject({
    message: expect.stringMatching(/^crm.contacts has rows, and no source that is known here declares them/),
  });
  expect(await s.secrets()).toEqual(before);
  await again(all);
  expect(await s.secrets()).toEqual([]);
});

test('an erasure is refused where a source with rows of people is not known, and nothing is erased', async () => {
  await using s = await mirror();
  const erase = (of: typeof all) =>
    eraseCustomer(s.pool, { account, customer: 'c1', who: 'test', streams: of }, at(500));
  // Without rows there is nothing to miss.
  expect((await wouldErase(s.pool, account, { customer: 'c1' }, at(500), streams)).customers).toEqual(['c1']);
  await s.put(ada(), bo());
  const before = await s.secrets();
  await expect(erase([...streams])).rejects.toMatchObject({
    message: expect.stringMatching(/^crm.contacts has rows, and no source that is known here declares them/),
    remedy: expect.stringContaining('SHELFDESK_SOURCES'),
  });
  expect(await s.secrets()).toEqual(before);
  expect(await s.rows('select from sync.erased')).toEqual([]);
  await erase(all);
  expect(await s.secrets()).toEqual([]);
});

test('an account without a help desk is told what an erasure needs', async () => {
  await using s = await mirror();
  await s.rows(`insert into sync.accounts (account_id) values ('crm only')`);
  await s.rows(`insert into sync.sources values ('crm only', 'crm', 'https://crm.example')`);
  await expect(wouldErase(s.pool, 'crm only', { customer: 'c1' }, at(1), all)).rejects.toMatchObject({
    message: expect.stringMatching(/mirrors nothing of the help desk/),
    remedy: expect.stringMatching(/HELPDESK_BASE_URL and HELPDESK_TOKEN/),
  });
  await expect(wouldErase(s.pool, account, { customer: 'c7' }, at(1), all)).rejects.toMatchObject({
    message: 'nothing is here of a customer c7',
  });
});

test('an address has one hash in the masked views of all sources, in any case, with spaces, and in a list', async () => {
  await using s = await mirror();
  await s.put(
    ada({ mail: ' ADA@Secret.example ', phones: ['+49 (30) 555-2345', 'ada@secret.example'] }),
    bo({ mail: 'Bo@Other.example', note: 'calm', phones: ['+49 30 5552345'] }),
  );
  const [row] = await s.rows(
    `select p.email = k.value as same_mail, p.phones[2] = k.value as in_list, p.phones[1] = b.phones[1] as same_phone,
       p.phones[1] ~ '^[0-9a-f]{64}$' as hashed, p.name = b.name as other
     from safe.crm_contacts p, safe.crm_contacts b, safe.contacts k where (p.id, b.id, k.id) = ('p1', 'p2', 'k1')`,
  );
  expect(row).toEqual({
    ...{ same_mail: true, in_list: true, same_phone: true, hashed: true, other: false },
  });
  const [child] = await s.rows(`select street ~ '^[0-9a-f]{64}$' as hashed from safe.crm_addresses where id = 'a1'`);
  expect(child).toEqual({ hashed: true });
});

test('an erasure takes the changes of its own source, with those of members that name their parent, and of no other', async () => {
  await using s = await mirror();
  await s.put(ada(), bo());
  await s.put(
    ada({ note: 'other note', addresses: [{ id: 'a1', street: 'other street' }] }),
    bo({ id: 'c1', addresses: [] }),
  );
  await s.put(bo({ id: 'c1', name: 'Bobby', addresses: [] }));
  const changes = () =>
    s.rows(
      `select source, table_name as of, record_id as id, parent_id as parent, changes from sync.changes order by id, of`,
    );
  expect(await changes()).toEqual([
    { source: 'crm', of: 'addresses', id: 'a1', parent: 'p1', changes: { street: ['secret street', 'other street'] } },
    { source: 'crm', of: 'contacts', id: 'c1', parent: null, changes: { name: ['Bo', 'Bobby'] } },
    {
      source: 'crm',
      of: 'contacts',
      id: 'p1',
      parent: null,
      changes: expect.objectContaining({ note: ['secret note', 'other note'] }),
    },
  ]);
  await s.erase();
  expect(await changes()).toEqual([
    { source: 'crm', of: 'addresses', id: 'a1', parent: 'p1', changes: {} },
    { source: 'crm', of: 'contacts', id: 'c1', parent: null, changes: { name: ['Bo', 'Bobby'] } },
    { source: 'crm', of: 'contacts', id: 'p1', parent: null, changes: {} },
  ]);
});
