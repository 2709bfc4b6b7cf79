/** `rejects` and `drift`: what was set aside is listed, shown, and stored from what came then. */
import { expect, test } from 'vitest';
import { addRejects } from '../../src/cli/look/rejects.ts';
import { command } from '../support/command.ts';
import { configFor } from '../support/mirror.ts';
import { at, iso, message, scripted, ticket } from '../support/scripted.ts';

test('replay stores what the database refused, where it belongs; what is unreadable or outdated stays', async () => {
  await using s = await scripted();
  const config = configFor(s.url, { url: 'https://desk.example/api/v1', token: 'none' });
  const rejects = (...args: string[]) => command(addRejects, config, 'rejects', ...args);
  const json = async (...args: string[]) => JSON.parse((await rejects(...args, '--json')).stdout);
  // Values that this database cannot take, for now.
  await s.pool.query(`
    create function public.refuse() returns trigger language plpgsql as $$ begin
      raise exception 'too much for %', new.id using errcode = '22023'; end $$;
    create trigger refuse before insert on helpdesk.tickets for each row when (new.id like 'bad%') execute function public.refuse();
    create trigger refuse before insert on internal.messages for each row when (new.id like 'bad%') execute function public.refuse();
    create trigger refuse before insert on helpdesk.contacts for each row when (new.id like 'bad%') execute function public.refuse()`);
  const show = (id: string, messages: unknown[], more: object = {}) => {
    const record = ticket(id, { inbox_id: null, ...more });
    s.details[`/tickets/${id}`] = { ...record, messages, ...more };
    return record;
  };
  s.lists.tickets = [
    show('t1', [
      message('m1'),
      message('bad2', { attachments: [{ id: 'a1', name: 'a', size: 1, type: 'x' }] }),
      message('m3'),
    ]),
    show('t2', [message('bad4')]),
    show('t3', []),
    { ...show('t4', []), user_id: 12 },
    show('bad5', [], { number: 12_345_678 }),
    show('t6', []),
  ];
  s.details['/tickets/t6'] = { ...ticket('t6'), messages: 'none' };
  s.details['/tickets/t3'] = { ...ticket('t3', { user_id: 12 }), messages: [message('m6'), message('bad8')] };
  s.details['/tickets/t4'] = ticket('t4', { user_id: 12 });
  s.lists.customers = [{ id: 'c1', first_name: 'A', contacts: [{ id: 'bad7', type: 'email', value: 'x' }] }];
  s.details['/customers/c1'] = s.lists.customers[0];
  for (const [i, name] of ['customers', 'tickets', 'messages'].entries()) {
    s.goTo(100 + 10 * i);
    await s.sync(name);
  }
  const mirror = () =>
    s.rows(`select 'ticket ' || id as row, number::text as value, _observed_at from helpdesk.tickets
      union all select 'message ' || id, position || ' ' || body_text, _observed_at from helpdesk.messages
      union all select 'attachment ' || id, name, _observed_at from helpdesk.attachments
      union all select 'contact ' || id, value, _observed_at from helpdesk.contacts
      union all select 'customer ' || id, _created_after || ' ' || _created_before, _observed_at from helpdesk.customers order by 1`);
  const positions = () =>
    s.rows(`select 'coverage' as name, to_jsonb(c) as row from sync.coverage c union all select 'walks', to_jsonb(w) from sync.walks w
      union all select 'runs', to_jsonb(r) from sync.stored_run_streams r order by 1, 2`);
  const [before, known] = [await positions(), await mirror()];
  expect(known.map(({ row }) => row)).toEqual([
    'message m1',
    'message m3',
    'ticket t1',
    'ticket t2',
    'ticket t3',
    'ticket t6',
  ]);

  const listed = await json('list');
  // Two tickets at a time are on their way to the tables.
  const held = listed.map((one: Record<string, unknown>) => [one.stream, one.key, one.ask_id, one.place]);
  expect([...held.slice(0, 3), ...held.slice(3).sort()]).toEqual([
    ['customers', 'c1', 'c1', 1],
    ['tickets', 't4', 't4', 1],
    ['tickets', 'bad5', 'bad5', 1],
    ['messages', 'bad2', 't1', 2],
    ['messages', 'bad4', 't2', 1],
    ['messages', 't3', 't3', 1],
    ['messages', 't6', 't6', 1],
  ]);
  const number = Object.fromEntries(listed.map((one: { key: string; id: number }) => [one.key, String(one.id)]));
  const table = await rejects('list');
  expect(table.stdout).toMatch(/^reject +stream +record +tried/);
  expect(table.stdout).toContain('too much for bad5');
  const shown = await rejects('show', number.bad5!);
  expect(JSON.parse(shown.stdout)).toMatchObject(ticket('bad5', { inbox_id: null, number: 12_345_678 }));
  expect(shown.stderr).toMatch(/reason +too much for bad5\n/);
  expect(await rejects('show', '99')).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('no reject 99'),
  });

  // The program reads what it could not; the database refuses what it refused: nothing is stored, and not half of it either.
  await s.rows(`update sync.rejects set payload = replace(payload, '"user_id":12', '"user_id":null') where key = 't3'`);
  const first = await json('replay');
  expect(first.map((one: { record: string; stored: boolean }) => [one.record, one.stored])).toEqual(
    listed.map((one: { key: string }) => [one.key, false]),
  );
  expect(first[0].reason).toBe('too much for bad7');
  expect(first[1].reason).toMatch(/^user_id: /);
  expect(first.find((one: { record: string }) => one.record === 't3').reason).toBe('too much for bad8');
  expect(await mirror()).toEqual(known);

  // The database takes it. t2 has been read anew meanwhile, and everything was swept.
  await s.rows(`insert into sync.swept
    select 'default', stream, 'default', '[1970-01-01,)', '${iso(9000)}', 1, 'helpdesk' from unnest('{tickets,customers}'::text[]) stream`);
  await s.pool.query(`drop function public.refuse cascade;
    update helpdesk.tickets set _messages_as_of = _messages_as_of + interval '1 hour' where id = 't2'`);
  const { code, stdout, stderr } = await rejects('replay');
  expect(code).toBe(3);
  expect(stderr).toBe('4 stored, 3 still rejected.\n');
  expect(stdout).toMatch(/bad4 +no +ticket t2 has messages of another reading; fetched again\n/);
  expect(stdout).toMatch(/t6 +no +messages: /);
  // What the sweep did not find is shown again: until it was asked for, nothing says that it was checked.
  expect(
    await s.rows('select record_id, missing_since, alive_at from sync.open_deletion_candidates order by 1'),
  ).toEqual([
    { record_id: 'bad5', missing_since: at(9120), alive_at: at(109 - 120) },
    { record_id: 'c1', missing_since: at(9120), alive_at: at(99 - 120) },
    { record_id: 't3', missing_since: at(9120), alive_at: at(119 - 120) },
  ]);
  expect(await mirror()).toEqual([
    { row: 'attachment a1', value: 'a', _observed_at: at(119) },
    { row: 'contact bad7', value: 'x', _observed_at: at(99) },
    {
      row: 'customer c1',
      value: expect.stringMatching(/^1970-01-01 00:00:00.* 2026-01-01 00:02:40/),
      _observed_at: at(99),
    },
    { row: 'message bad2', value: '2 body of bad2', _observed_at: at(119) },
    { row: 'message bad8', value: '2 body of bad8', _observed_at: at(119) },
    { row: 'message m1', value: '1 body of m1', _observed_at: at(119) },
    { row: 'message m3', value: '3 body of m3', _observed_at: at(119) },
    { row: 'message m6', value: '1 body of m6', _observed_at: at(119) },
    { row: 'ticket bad5', value: '12345678', _observed_at: at(109) },
    { row: 'ticket t1', value: '7', _observed_at: at(109) },
    { row: 'ticket t2', value: '7', _observed_at: at(109) },
    { row: 'ticket t3', value: '7', _observed_at: at(119) },
    { row: 'ticket t6', value: '7', _observed_at: at(109) },
  ]);
  expect(
    await s.rows(
      `select _messages_as_of, _listed_by, _messages_by from helpdesk.tickets where id in ('t3', 'bad5') order by id`,
    ),
  ).toEqual([
    { _messages_as_of: null, _listed_by: null, _messages_by: null },
    { _messages_as_of: at(119), _listed_by: 2, _messages_by: null },
  ]);
  expect((await json('list')).map((one: { key: string }) => one.key).sort()).toEqual(['bad4', 't4', 't6']);
  expect((await json('list', '--all')).length).toBe(7);
  expect((await rejects('list', '--all')).stdout).toMatch(/ cleared\n/);
  // No position has moved, and no run knows of it.
  expect(await positions()).toEqual(before);

  // Older goes over nothing, whoever sends it; and by number only what is asked for.
  await s.pool.query(`update sync.rejects set cleared_at = null where key = 'bad5';
    update helpdesk.tickets set number = 8, updated_at = '${iso(500)}' where id = 'bad5'`);
  expect((await rejects('replay', number.bad5!)).code).toBe(0);
  expect(await s.rows(`select number from helpdesk.tickets where id = 'bad5'`)).toEqual([{ number: 8 }]);
  expect(await rejects('replay', number.bad5!)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('no open reject'),
  });
  await expect(rejects('replay', 'x')).rejects.toThrow('It must be the number of a reject.');

  const drift = await command(addRejects, config, 'rejects', 'drift', '--json');
  expect(JSON.parse(drift.stdout)).toMatchObject([
    {
      stream: 'tickets',
      kind: 'wrong_type',
      path: 'user_id',
      value: '',
      seen: 2,
      sample: JSON.stringify({ ...ticket('t4', { inbox_id: null }), user_id: 12 }),
    },
    { stream: 'messages', kind: 'wrong_type', path: 'messages', seen: 2 },
    { stream: 'messages', kind: 'wrong_type', path: 'user_id', seen: 2 },
  ]);
  expect((await command(addRejects, config, 'rejects', 'drift')).stdout).toMatch(/^stream +kind +path +value +seen/);
});
