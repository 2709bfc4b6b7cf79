/** An answer that an agent calls certain holds as of a moment of which both ends and the deletions are known, or is refused. */
import { expect, test } from 'vitest';
import { agentHere } from '../support/agent.ts';
import { long } from '../support/long.ts';
import { at, iso, type Scripted, scripted, ticket } from '../support/scripted.ts';

const again = { kind: 'sweep', range: { since: null, until: null, again: true } } as const;
const count = 'select count(*)::int as n from safe.tickets where _deleted_at is null';
const written = (second: number) => at(second).toISOString();

async function agentOf(s: Scripted) {
  const agent = await agentHere({ DATABASE_URL: s.url });
  const ask = async (args: object = {}, sql = count) => {
    const { isError, about, data, text } = await agent.tool('ask_sql', { sql, certain: true, ...args });
    const { certain_from, certain_as_of } = about as Record<string, unknown>;
    return isError ? text : { data, certain_from, certain_as_of };
  };
  return { ask, tool: agent.tool, [Symbol.asyncDispose]: () => agent[Symbol.asyncDispose]() };
}
const counted = (n: number, asOf: number, from: number | null = null) => ({
  ...{ data: [{ n }], certain_from: from === null ? null : written(from), certain_as_of: written(asOf) },
});
/** Lists these tickets, as far as the request asks for them. */
const shows = (s: Scripted, ...tickets: ReturnType<typeof ticket>[]) => {
  s.lists.tickets = query =>
    tickets.filter(
      one =>
        Date.parse(one.updated_at) >= Date.parse(query.get('since_updated_at') ?? iso(0)) &&
        Date.parse(one.created_at) >= Date.parse(query.get('since_created_at') ?? iso(0)),
    );
};
const standing = async (s: Scripted, stream: string) =>
  (
    await s.rows(
      'select complete_from, complete_through, deletes_checked_at from sync.status where stream = $1',
      stream,
    )
  )[0]!;

test('as of the last look for deletions, never later; not of rows that changed after it', async () => {
  await using s = await scripted({ lookbackMs: 1000 });
  await using agent = await agentOf(s);
  shows(s, ticket('t1'), ticket('t2', { updated_at: iso(5) }));
  s.goTo(100);
  await s.sync('tickets');
  expect(await agent.ask()).toContain('tickets of the account default: deletions are not known');
  expect(await agent.ask({ through: written(50) })).toContain('deletions are not known');
  expect(await agent.tool('ask_question', { name: 'labels', certain: true })).toMatchObject({ isError: true });

  s.goTo(200);
  await s.sync('tickets', again);
  // Known are deletions up to one lookback before the sweep, and changes up to one before the sync.
  expect(await agent.ask()).toEqual(counted(2, 98));
  s.goTo(300);
  await s.sync('tickets');
  const { deletes_checked_at } = await standing(s, 'tickets');
  const swept = ((deletes_checked_at as Date).getTime() - at(0).getTime()) / 1000;
  expect(swept).toBeGreaterThan(190);
  expect(await agent.ask()).toEqual(counted(2, swept));

  // Deleted at the source, and no sweep has looked since.
  shows(s, ticket('t1'));
  s.details['/tickets/t2'] = 404;
  s.goTo(400);
  await s.sync('tickets');
  expect(await agent.ask()).toEqual(counted(2, swept));
  expect(await agent.ask({ through: written(swept) })).toEqual(counted(2, swept));
  expect(await agent.ask({ through: written(swept + 1) })).toContain(
    `deletions are known through ${written(swept)}, not through ${written(swept + 1)}`,
  );
  const plain = await agent.tool('ask_sql', { sql: count });
  expect(plain.about).toMatchObject({
    ...{ all_complete_from: null, all_complete_through: written(398) },
    completeness: [
      { stream: 'tickets', complete_from: null, deletes_checked_at: written(swept), deletions_unknown: null },
    ],
  });

  // A count that has this ticket, and the deleted one, is of no moment.
  shows(s, ticket('t1'), ticket('t3', { created_at: iso(410), updated_at: iso(410) }));
  s.goTo(500);
  await s.sync('tickets');
  expect(await agent.ask()).toContain(
    `tickets of the account default: changed, or known to be deleted, at ${written(410)}, and deletions are known through ${written(swept)} only`,
  );
  // The sweep has found the deletion, which may have been later than what the sweep proves.
  s.goTo(600);
  await s.sync('tickets', again);
  expect(await agent.ask()).toContain(
    `known to be deleted, at ${written(601)}, and deletions are known through ${written(498)}`,
  );
  s.goTo(700);
  await s.sync('tickets');
  await s.sync('tickets', again);
  expect(await agent.ask()).toEqual(counted(2, 698));
});

test('a mirror that begins with HELPDESK_SINCE says so; a backfill moves its start back', long, async () => {
  await using s = await scripted({ lookbackMs: 1000 });
  await s.rows(`update sync.accounts set since = '${iso(40)}'`);
  await using agent = await agentOf(s);
  const late = ticket('t2', { created_at: iso(50), updated_at: iso(50) });
  shows(s, late);
  s.goTo(100);
  await s.sync('tickets');
  await s.sync('customers');
  s.goTo(200);
  await s.sync('tickets', again);
  expect(await standing(s, 'tickets')).toMatchObject({ complete_from: at(40), complete_through: at(98) });
  expect(await standing(s, 'messages')).toMatchObject({ complete_from: at(40) });
  expect(await standing(s, 'customers')).toMatchObject({ complete_from: null });
  expect(await s.rows(`select complete_from from analytics.completeness where stream = 'tickets'`)).toEqual([
    { complete_from: at(40) },
  ]);
  const begins = `complete from ${written(40)} on, not from `;
  expect(await agent.ask()).toContain(`tickets of the account default: ${begins}the beginning`);
  expect(await agent.ask({ through: written(90) })).toContain(`${begins}the beginning`);
  expect(await agent.ask({ from: written(39) })).toContain(begins + written(39));
  expect(await agent.ask({ from: written(40) })).toEqual(counted(1, 98, 40));
  const labels = await agent.tool('ask_question', { name: 'labels', certain: true });
  expect([labels.isError, labels.text.includes(begins)]).toEqual([true, true]);

  const require = (since: string) =>
    s
      .rows(`select sync.require_complete('default', 'tickets', '${iso(90)}'${since}) as complete`)
      .then(([row]) => row!.complete)
      .catch(({ message, hint }) => `${message} | ${hint}`);
  await s.rows(`set timezone = 'UTC'`);
  expect(await require('')).toMatch(
    /^tickets of the account default is complete from 2026-01-01 00:00:40\+00 on, not from the beginning \| .*since => '2026-01-01 00:00:40\+00'.* backfill tickets --since/,
  );
  expect(await require(`, since => '${iso(39)}'`)).toContain('not from 2026-01-01 00:00:39+00');
  expect(await require(`, since => '${iso(40)}'`)).toEqual(at(98));
  expect(await require(`, 0, '${iso(60)}'`)).toEqual(at(98));

  const backfill = async (since: Date) => {
    await s.sync('tickets', { kind: 'backfill', range: { since, until: null, again: false } });
    return (await standing(s, 'tickets')).complete_from;
  };
  shows(s, ticket('t1', { created_at: iso(20), updated_at: iso(20) }), late);
  expect(await backfill(at(10))).toEqual(at(10));
  // A part that is not next to the rest does not count.
  await s.rows(`update sync.coverage set covered = covered - tstzmultirange(tstzrange('${iso(15)}', '${iso(16)}'))
    where stream = 'tickets'`);
  expect((await standing(s, 'tickets')).complete_from).toEqual(at(16));
  expect(await backfill(new Date(0))).toBeNull();
  expect(await require('')).toEqual(at(98));
});

test('deletions of users are known as of the last full read that showed them all', async () => {
  await using s = await scripted({ lookbackMs: 1000 });
  const read = async (...ids: string[]) => {
    s.lists.users = ids.map(id => ({ id, first_name: 'Ada', last_name: id, email: null }));
    await s.sync('users');
    return (await standing(s, 'users')).deletes_checked_at;
  };
  s.goTo(100);
  expect(await read('u1', 'u2')).toEqual(at(98));
  s.goTo(200);
  expect(await read('u1')).toEqual(at(98));
  expect(await s.rows('select from helpdesk.users where _deleted_at is null')).toHaveLength(2);
  s.goTo(300);
  expect(await read('u1', 'u2', 'u3')).toEqual(at(298));
  await s.rows(`update helpdesk.users set _deleted_at = now() where id = 'u2'`);
  s.goTo(400);
  expect(await read('u1', 'u3')).toEqual(at(398));
});

test(
  'messages leave with their tickets, and a stream whose deletions are declared unknown is never certain',
  long,
  async () => {
    await using s = await scripted({ lookbackMs: 1000 });
    await using agent = await agentOf(s);
    shows(s, ticket('t1'));
    s.details['/tickets/t1'] = { ...ticket('t1'), messages: [] };
    s.goTo(100);
    await s.sync('tickets');
    await s.sync('messages');
    s.goTo(200);
    await s.sync('tickets', again);
    const { deletes_checked_at } = await standing(s, 'tickets');
    expect(await standing(s, 'messages')).toMatchObject({ deletes_checked_at, complete_through: at(98) });
    expect(await agent.ask({}, 'select count(*)::int as n from safe.messages')).toEqual(counted(0, 98));

    await s.rows(
      `update sync.streams set deletions = 'the list hides old tickets' where stream_key = 'helpdesk.tickets'`,
    );
    expect(await standing(s, 'tickets')).toMatchObject({ deletes_checked_at: null });
    expect(await agent.ask({ through: written(1) })).toContain('deletions are never known: the list hides old tickets');
  },
);
