/** What a report may ask in SQL: nothing says more than was proven, and the guard raises where it is not enough. */
import { expect, test } from 'vitest';
import { addStatus } from '../../../src/cli/look/status.ts';
import { command } from '../../support/command.ts';
import { configFor } from '../../support/mirror.ts';
import { at, iso, message, scripted, ticket } from '../../support/scripted.ts';

test('how far a stream is complete, of which tickets all messages are here, and how sure that is', async () => {
  await using s = await scripted({ lookbackMs: 1000 });
  const require = (stream: string, through: number, ...allowed: number[]) =>
    s
      .rows(
        `select sync.require_complete('default', $1, $2${allowed.length > 0 ? ', $3' : ''}) as complete`,
        stream,
        at(through),
        ...allowed,
      )
      .then(([row]) => row!.complete)
      .catch(({ message, hint }) => `${message} | ${hint}`);
  const tickets = () => s.rows('select * from sync.ticket_completeness order by ticket_id');
  const status = (stream: string) =>
    s.rows('select * from sync.status where stream = $1', stream).then(([row]) => row!);
  const noPercent = { differ_at_most_percent: null, differ_as_of: null };

  await s.rows(`set timezone = 'UTC'`);
  expect(await require('tickets', 1)).toMatch(
    /^tickets of the account default was never read: complete through nothing/,
  );
  expect(await require('nothing', 1)).toMatch(/^nothing is mirrored of the stream nothing .* \| sync.status lists/);
  await expect(s.rows(`select sync.require_complete('default', null, now())`)).rejects.toThrow('one of them is null');

  const t1 = ticket('t1', { inbox_id: null });
  const t2 = ticket('t2', { inbox_id: null, updated_at: iso(5) });
  s.lists.tickets = [t1, t2];
  s.details['/tickets/t1'] = { ...t1, messages: [message('m1'), message('m2', { created_at: 'never' })] };
  s.details['/tickets/t2'] = { ...t2, messages: [] };
  s.goTo(100);
  await s.sync('tickets');
  expect(await status('tickets')).toMatchObject({ complete_through: at(98), deletes_checked_at: null, ...noPercent });
  expect(await require('tickets', 98)).toEqual(at(98));
  expect(await require('tickets', 99)).toMatch(
    /^tickets of the account default is complete through 2026-01-01 00:01:38\+00, not through 2026-01-01 00:01:39\+00 \| Run `npx shelfdesk sync`/,
  );
  expect(await require('messages', 0)).toEqual(at(0));
  expect(await require('messages', 98)).toMatch(/complete through 2026-01-01 00:00:00\+00, .* \| 2 records wait/);
  const known = { account_id: 'default', checked_at: at(99) };
  const unread = { ...known, messages_complete: false, messages_as_of: null, open_rejects: 0 };
  expect(await tickets()).toEqual([
    { ...unread, ticket_id: 't1' },
    { ...unread, ticket_id: 't2' },
  ]);

  s.goTo(200);
  await s.sync('messages');
  const read = { ...known, messages_as_of: at(199) };
  expect(await tickets()).toEqual([
    { ...read, ticket_id: 't1', messages_complete: false, open_rejects: 1 },
    { ...read, ticket_id: 't2', messages_complete: true, open_rejects: 0 },
  ]);
  expect(await require('messages', 98)).toMatch(
    /^1 record of messages .* could not be stored \| See `npx shelfdesk rejects/,
  );
  expect(await require('messages', 98, 1)).toEqual(at(98));
  expect(await require('tickets', 98)).toEqual(at(98));

  // The ticket changes: its messages are not as new as itself. What is deleted is not here.
  s.lists.tickets = [{ ...t2, updated_at: iso(299) }];
  s.goTo(300);
  await s.sync('tickets');
  await s.rows(`update helpdesk.tickets set _deleted_at = now() where id = 't1'`);
  expect(await tickets()).toEqual([{ ...unread, ticket_id: 't2', messages_as_of: at(199), checked_at: at(299) }]);
  expect(await require('messages', 298, 1)).toEqual(at(298));

  // A gap below the top, with its reason.
  await s.rows(`update sync.coverage set covered = covered - tstzmultirange(tstzrange('${iso(50)}', '${iso(51)}'))
    where stream = 'tickets' and list = 'default'`);
  await s.rows(
    `insert into sync.gap_reasons values ('default', 'tickets', 'default', tstzrange('${iso(50)}', '${iso(51)}'), 'too many', now(), 'helpdesk')`,
  );
  expect(await require('tickets', 50)).toEqual(at(50));
  for (const stream of ['tickets', 'messages'])
    expect(await require(stream, 51, 9)).toMatch(
      /complete through 2026-01-01 00:00:50\+00, .* \| There is a gap from 2026-01-01 00:00:50\+00 to 2026-01-01 00:00:51\+00 \(too many\)/,
    );

  // Who compares does not read; what a comparison proves is said, and what cures a difference.
  const before = await status('tickets');
  const audit = await s.claim('tickets', { kind: 'audit' });
  const verify = await s.claim('tickets', { kind: 'verify' });
  await s.rows(`update sync.stored_run_streams set state = 'completed', finished_at = now() where run_id = any ($1)`, [
    audit.run,
    verify.run,
  ]);
  expect(await status('tickets')).toEqual({ ...before, lag: expect.anything(), behind: expect.anything() });
  const sweep = await s.claim('tickets', { kind: 'sweep' });
  expect(await status('tickets')).toMatchObject({ last_run: sweep.run, last_state: 'interrupted' });
  await s.rows(`insert into sync.audit (account_id, run_id, source, stream, record_id, checked_at, ours_as_of, random, differences, kind)
    select 'default', least(n, 2), 'helpdesk', 'tickets', 't' || n, date_trunc('second', now()) - make_interval(secs => n), now(), true,
      case when n <= 2 then '{"label_ids": [[], ["l1"]]}'::jsonb end,
      case when n <= 2 then 'label edits do not move updated_at' end
    from generate_series(1, 100) n`);
  // Repaired, and checked again; and one that nobody could read.
  await s.rows(`insert into sync.audit (account_id, run_id, source, stream, record_id, checked_at, ours_as_of, random, unread)
    select 'default', 3, 'helpdesk', 'tickets', 't' || n, now(), now(), true, n > 100 from generate_series(1, 101) n`);
  await s.rows(`insert into sync.swept values
    ('default', 'tickets', 'default', '[1970-01-01,${iso(270)})', '${iso(250)}', 1, 'helpdesk'), ('default', 'tickets', 'spam', '[1970-01-01,${iso(270)})', '${iso(240)}', 1, 'helpdesk'),
    ('default', 'tickets', 'trash', '[1970-01-01,${iso(270)})', '${iso(260)}', 1, 'helpdesk')`);
  // Swept by creation, and with it what a list showed; but not a version that could not be stored.
  await s.rows(`insert into sync.swept values
    ('default', 'tickets', 'open', '[1970-01-01,${iso(1)})', '${iso(900)}', 1, 'helpdesk'), ('default', 'tickets', 'open', '[${iso(2)},)', '${iso(950)}', 1, 'helpdesk')`);
  const sweptAt = async () => (await tickets()).map(({ checked_at }) => checked_at);
  expect(await sweptAt()).toEqual([at(900)]);
  const [{ as: single }] = (await s.rows(`select sync.ticket_checked_at('default', 't2') as "as"`)) as [{ as: Date }];
  expect(single).toEqual(at(900));
  const aside =
    await s.rows(`insert into sync.rejects (account_id, source, stream, key, ask_id, first_seen_at, last_seen_at, reason, replayable)
    values ('default', 'helpdesk', 'tickets', 't2', 't2', '${iso(900)}', '${iso(900)}', 'number: no', false) returning id`);
  expect(await sweptAt()).toEqual([at(299)]);
  await s.rows('delete from sync.rejects where id = $1', aside[0]!.id);
  const [certain] = await s.rows(`select * from sync.audit_confidence where stream = 'tickets' and field = ''`);
  expect(certain).toMatchObject({ checked: 100, differed: 2, unread: 1 });
  expect(await status('tickets')).toMatchObject({
    deletes_checked_at: at(240),
    differ_at_most_percent: certain!.at_most_percent,
    differ_as_of: certain!.as_of,
  });
  expect(Number(certain!.at_most_percent)).toBeCloseTo(6.162, 2);

  // What is missing here is in no draw of what is here: it counts as differing. (50 + 6.162 % of 100) of 150.
  const [{ id: verified }] = (await s.rows(`insert into sync.stored_runs (account_id, kind, state, started_at)
    values ('default', 'verify', 'completed', now()) returning id`)) as [{ id: number }];
  await s.rows(
    `insert into sync.verified_lists (run_id, account_id, source, stream, list, ours, theirs_least, theirs_most)
     values ($1, 'default', 'helpdesk', 'tickets', 'default', 60, 110, 111),
       ($1, 'default', 'helpdesk', 'tickets', 'spam', 40, 40, 40)`,
    verified,
  );
  const bound = async () => Number((await status('tickets')).differ_at_most_percent);
  expect(await bound()).toBeCloseTo(37.44, 2);
  await s.rows(
    `insert into sync.audit (account_id, run_id, source, stream, record_id, checked_at, random, kind, repaired_at, differences)
     select 'default', $1, 'helpdesk', 'tickets', 'm' || n, now(), false, 'missing here', now(), '{}' from generate_series(1, 50) n`,
    verified,
  );
  expect(await bound()).toBeCloseTo(6.162, 2);
  await s.rows('delete from sync.stored_runs where id = $1', verified);
  await s.rows('delete from sync.audit where run_id = $1', verified);

  const config = configFor(s.url, { url: 'https://desk.example/api/v1', token: 'none' });
  const told = await command(addStatus, config, 'status', '--wide');
  const asOf = (certain!.as_of as Date).toISOString().slice(0, 19);
  expect(told.stdout).toMatch(/rejects {2}deletes checked +unchecked since +last run\n/);
  expect(told.stdout).toMatch(/ tickets .* 2026-01-01T00:04:00Z +2026-01-01T00:04:00Z +interrupted\n/);
  expect(told.stdout).toMatch(/ customers .* never +never\n/);
  expect(told.stderr).toContain(
    `tickets: 2 of 100 re-read records differed from the source; 1 could not be read: at most 6.2 % of the mirrored tickets differ, with 95 % confidence, as of ${asOf}Z\n`,
  );
  expect(told.stderr).toMatch(
    /tickets: \d+ of 100 re-read records differed in label_ids.*: at most 6\.\d+ % of the mirrored tickets differ, with 95 %/,
  );
  expect(told.stderr).toMatch(
    /Comparisons found of tickets, more than once: label edits do not move updated_at\..*\n {2}Nothing announces it: set SWEEP_AGE_DAYS/,
  );
  const { streams } = JSON.parse((await command(addStatus, config, 'status', '--json')).stdout);
  expect(streams.find(({ stream }: { stream: string }) => stream === 'tickets')).toMatchObject({
    deletes_checked_at: at(240).toISOString(),
    audit_confidence: [{ field: '', checked: 100, differed: 2, unread: 1 }, { field: 'label_ids' }],
    recommendations: [{ kind: 'label edits do not move updated_at', times: 2, setting: 'SWEEP_AGE_DAYS' }],
  });
});
