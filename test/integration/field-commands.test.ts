/** `fields` at a terminal: rules are listed with what they cost, applied to what is stored, and lifted. */
import { expect, test } from 'vitest';
import { addFields } from '../../src/cli/setup/warehouse/fields.ts';
import { parseRules } from '../../src/privacy/fields/parse-field-rules.ts';
import { kinds } from '../../src/sources/index.ts';
import { command } from '../support/command.ts';
import { configFor } from '../support/mirror.ts';
import { scripted, ticket } from '../support/scripted.ts';

test('rules are listed, applied and lifted', async () => {
  await using s = await scripted();
  const bare = configFor(s.url, { url: 'https://desk.example/api/v1', token: 'none' });
  const fieldRules = { kinds, rules: parseRules('tickets.subject,tickets.inbox_id', kinds), key: 'a key of sixteen' };
  const config = { ...bare, fieldRules };
  const fields = (...args: string[]) => command(addFields, config, 'fields', ...args);
  s.lists.tickets = [ticket('t1', { subject: 'Where is my order?', inbox_id: 'i1' })];
  await s.sync('tickets');
  expect((await command(addFields, bare, 'fields', 'list')).stderr).toBe(
    'Every field is kept: FIELD_RULES is not set.\n',
  );
  const { stdout } = await fields();
  expect(stdout).toMatch(/^tickets\.subject +the next run +search of subjects$/m);
  expect(stdout).toMatch(/^tickets\.inbox_id +the next run +question backlog-by-inbox, /m);

  const applied = await fields('apply', '--json');
  expect(JSON.parse(applied.stdout).rewritten).toMatchObject({ 'helpdesk.tickets': 1 });
  expect(applied.stderr).toContain('helpdesk.tickets: 1 row read, 1 rewritten\n');
  expect(await s.rows('select subject, inbox_id, _payload ? $1 as has from helpdesk.tickets', 'subject')).toEqual([
    { subject: null, inbox_id: null, has: false },
  ]);
  expect(JSON.parse((await fields('list', '--json')).stdout)).toMatchObject([
    { rule: 'tickets.inbox_id', since: expect.any(String), applied_at: expect.any(String), set: true },
    { rule: 'tickets.subject', lost: ['search of subjects'] },
  ]);

  expect(await fields('lift', 'tickets.body')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('It has: tickets.inbox_id, tickets.subject.'),
  });
  expect(await fields('lift', 'tickets.subject')).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('Take tickets.subject out of FIELD_RULES too.'),
  });
  expect(await s.rows('select rule from sync.field_rules')).toEqual([{ rule: 'tickets.inbox_id' }]);
  expect(await s.rows('select action, subject, outcome from sync.operations order by id')).toMatchObject([
    { action: 'field rules', subject: 'tickets.subject tickets.inbox_id' },
    { action: 'field rules', subject: 'tickets.subject', outcome: 'lifted' },
  ]);
  expect(await command(addFields, bare, 'fields', 'apply')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('FIELD_RULES is not set'),
  });
});
