/** Rules that leave out a stream whole: the stream is paused as long as the warehouse has the rule. */
import { expect, test } from 'vitest';
import { pause, resume } from '../../../src/engine/runs/operations.ts';
import type { FieldRules } from '../../../src/privacy/fields/field-rules.ts';
import { parseRules } from '../../../src/privacy/fields/parse-field-rules.ts';
import { keepFieldRules, liftRule, pauseLeftOut } from '../../../src/privacy/fields/stored-rules.ts';
import { kinds, streams } from '../../../src/sources/index.ts';
import { at, type Scripted, scripted } from '../../support/scripted.ts';

const of: FieldRules = { kinds, rules: parseRules('customers users messages.body', kinds), key: 'a key of sixteen' };
const me = { account: 'default', who: 'me' };
const paused = (s: Scripted) => s.rows('select stream, paused_by from sync.paused order by stream');
const begin = async (s: Scripted) => {
  await keepFieldRules(s.pool, 'default', of, at(1));
  await pauseLeftOut(s.pool, 'default', of, streams, at(1));
};

test('processes that start together pause it once, also while the whole account is paused', async () => {
  await using s = await scripted();
  await pause(s.pool, me, at(0));
  await Promise.all([begin(s), begin(s), begin(s)]);
  const own = ['customers', 'users'].map(stream => ({ stream, paused_by: 'FIELD_RULES' }));
  expect(await paused(s)).toEqual([{ stream: '', paused_by: 'me' }, ...own]);
  await resume(s.pool, me, at(2));
  expect(await paused(s)).toEqual(own);
  expect(await s.rows(`select subject from sync.operations where who = 'FIELD_RULES' order by id`)).toEqual([
    { subject: 'users' },
    { subject: 'customers' },
  ]);
});

test('a stream that the account does not mirror is not paused', async () => {
  await using s = await scripted();
  await s.rows(`delete from sync.coverage where stream = 'users'`);
  await begin(s);
  expect(await paused(s)).toEqual([{ stream: 'customers', paused_by: 'FIELD_RULES' }]);
});

test('it is resumed with the rule, and not before', async () => {
  await using s = await scripted();
  await pause(s.pool, { ...me, stream: 'users' }, at(0));
  await begin(s);
  for (const stream of ['customers', 'helpdesk.users'])
    await expect(resume(s.pool, { ...me, stream }, at(2))).rejects.toMatchObject({
      message: expect.stringContaining('a field rule leaves out'),
      remedy: expect.stringMatching(/fields lift (customers|users)` and take (customers|users) out of FIELD_RULES/),
    });
  expect(await liftRule(s.pool, { ...me, rule: 'customers' }, at(3))).toBe('customers');
  expect(await liftRule(s.pool, { ...me, rule: 'messages.body' }, at(3))).toBeUndefined();
  // People paused this one themselves.
  expect(await liftRule(s.pool, { ...me, rule: 'users' }, at(3))).toBeUndefined();
  expect(await paused(s)).toEqual([{ stream: 'users', paused_by: 'me' }]);
  await resume(s.pool, { ...me, stream: 'users' }, at(4));
  expect(
    await s.rows(
      `select action, subject from sync.operations where action = 'resume' and outcome = 'done' order by id`,
    ),
  ).toEqual([
    { action: 'resume', subject: 'customers' },
    { action: 'resume', subject: 'users' },
  ]);
});

test('rules are kept and lifted durably, and so are their pauses', async () => {
  await using s = await scripted();
  await s.rows(`create function public.durable() returns trigger language plpgsql as $$ begin
    if current_setting('synchronous_commit') = 'off' then raise exception 'a crash may lose it'; end if;
    return coalesce(new, old); end $$`);
  for (const table of ['sync.field_rules', 'sync.paused'])
    await s.rows(
      `create trigger durable before insert or delete on ${table} for each row execute function public.durable()`,
    );
  await begin(s);
  await liftRule(s.pool, { ...me, rule: 'customers' }, at(3));
  expect(await paused(s)).toEqual([{ stream: 'users', paused_by: 'FIELD_RULES' }]);
});
