/** analytics.guide, as a reader who sees no names asks it: what it says is there, and how complete the warehouse is now. */
import { expect, test } from 'vitest';
import { letReaderIn } from '../../support/readers.ts';
import { scripted } from '../../support/scripted.ts';

test('a reader is told how to ask, what there is, and how complete each stream is now', async () => {
  await using s = await scripted({ lookbackMs: 1000 });
  await using reader = await letReaderIn(s);
  const told = async () => {
    const rows = await reader.rows<{ provider: string; key: string; content: string }>('select * from analytics.guide');
    expect(new Set(rows.map(({ key }) => key)).size).toBe(rows.length);
    expect(rows.filter(({ content }) => !content)).toEqual([]);
    return new Map(rows.map(({ key, content }) => [key, content]));
  };
  // A view of one's own, without a comment.
  await s.rows(`create view analytics.our_own as select 1 as n`);
  await s.rows(`grant select on analytics.our_own to ${reader.name}`);
  s.goTo(100);
  await s.sync('tickets');
  const guide = await told();
  const dictionary = await reader.rows<{ schema: string; relation: string; column_name: string | null }>(
    `select * from analytics.data_dictionary where kind <> 'function'`,
  );
  await s.rows('drop view analytics.our_own');
  const relations = dictionary.filter(({ column_name }) => column_name === null);
  const tables = relations.map(({ schema, relation }) => `${schema}.${relation}`);
  expect([...guide.keys()].filter(key => !key.includes('/')).sort()).toEqual(tables.sort());

  expect(guide.get('analytics.our_own')).toBe('It has no comment.');

  const skill = guide.get('skill/shelfdesk')!;
  const names = new Set(dictionary.flatMap(row => [`${row.schema}.${row.relation}`, row.relation, row.column_name]));
  const named = [...skill.matchAll(/`(?:select .* from )?([a-z]+(?:[._][a-z_]+)*)`/g)].map(([, name]) => name!);
  expect(named.length).toBeGreaterThan(15);
  const others = ['tickets', 'messages', 'analytics', 'safe', 'certain'];
  expect(named.filter(name => !names.has(name) && !others.includes(name))).toEqual([]);

  const key = 'completeness/default/helpdesk.tickets';
  const now = () =>
    reader.rows(
      `select to_jsonb(c) as row from analytics.completeness c where source = 'helpdesk' and stream = 'tickets'`,
    );
  expect(JSON.parse(guide.get(key)!)).toEqual((await now())[0]!.row);
  s.goTo(200);
  await s.sync('tickets');
  const later = JSON.parse((await told()).get(key)!);
  expect(later).toEqual((await now())[0]!.row);
  expect(later).toMatchObject({ complete_through: expect.stringContaining('T00:03:18'), gaps: 0, complete_from: null });
});

test('a reader of one account is told of that account, where there are two', async () => {
  await using s = await scripted();
  await s.rows(`insert into sync.accounts (account_id) values ('umbra')`);
  await s.rows(
    `insert into sync.coverage (account_id, source, stream, list) select 'umbra', source, stream, list from sync.coverage`,
  );
  const told = async (accounts: readonly string[] | null) => {
    await using reader = await letReaderIn(s, { accounts });
    const rows = await reader.rows<{ key: string }>('select key from analytics.guide');
    return Map.groupBy(rows, ({ key }) => (key.startsWith('completeness/') ? key.split('/')[1]! : 'other'));
  };
  const [one, all] = [await told(['umbra']), await told(null)];
  expect([...one.keys()].sort()).toEqual(['other', 'umbra']);
  expect([...all.keys()].sort()).toEqual(['default', 'other', 'umbra']);
  for (const key of ['other', 'umbra']) expect(one.get(key)).toEqual(all.get(key));
});
