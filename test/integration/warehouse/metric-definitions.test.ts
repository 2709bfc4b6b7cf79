/** What is said of the figures, and what does not fit together, in views that analysts read. */
import { expect, test } from 'vitest';
import { at, message, scripted, ticket } from '../../support/scripted.ts';
import { told } from '../../support/told.ts';

const words = (text: string) => text.split(' ');

/** Columns of the views that are no figures: what a row is of, and what the ticket itself says. */
const besides: Record<string, readonly string[]> = {
  ticket_metrics: words(
    'account_id ticket_id number customer_id inbox_id user_id state type spam trash created_at updated_at deleted_at',
  ),
  reply_turns: words('account_id ticket_id turn waiting_since answered_at user_id first_message_id reply_message_id'),
  agent_daily: words('account_id day user_id'),
  shelf_events: words('account_id owner_id shelf_id volume_id position'),
  arrivals_hourly: words('account_id hour time_zone local_weekday local_hour'),
  ticket_targets: words('account_id ticket_id metric turn customer_id inbox_id user_id created_at messages_complete'),
  customer_summary: words('account_id customer_id first_ticket_at last_ticket_at last_inbound_at'),
};

test('every figure has a definition, and every definition a figure', async () => {
  await using s = await scripted();
  const columns = await s.rows(`select attrelid::regclass::text as relation, attname::text as name from pg_attribute
    where attnum > 0 and attrelid in (select oid from pg_class where relnamespace = 'analytics'::regnamespace and relkind = 'v')`);
  const defined = (await s.rows('select relation, name, kind, unit from analytics.metric_definitions')) as {
    relation: string;
    name: string;
    kind: string;
    unit: string;
  }[];
  const of = (relation: string) => defined.filter(one => one.relation === relation).map(one => one.name);
  for (const [relation, others] of Object.entries(besides)) {
    const figures = columns.filter(one => one.relation === `analytics.${relation}`).map(one => String(one.name));
    expect({ relation, figures: of(relation).sort() }).toEqual({
      relation,
      figures: figures.filter(name => !others.includes(name)).sort(),
    });
  }
  const views = new Set(columns.map(one => `${one.relation}.${one.name}`));
  // Of functions, what they return.
  const returned = await s.rows(`select p.proname || '.' || a.name as name from pg_proc p
    cross join unnest(p.proargnames) as a (name) where p.pronamespace = 'analytics'::regnamespace`);
  for (const { name } of returned) views.add(`analytics.${name}`);
  expect(defined.map(({ relation, name }) => `analytics.${relation}.${name}`).filter(name => !views.has(name))).toEqual(
    [],
  );

  // What is observed says how wrong it may be, beside it.
  const observed = defined
    .filter(one => one.relation === 'ticket_metrics' && one.kind === 'observed')
    .map(one => one.name);
  const errorOf = (metric: string) =>
    `${metric
      .replace(/_business_seconds$/, '_seconds')
      .replace(/^seconds_/, '')
      .replace(/(_at|_seconds|_count)$/, '')}_error_seconds`;
  const lacking = observed.filter(metric => !metric.endsWith('_error_seconds') && !observed.includes(errorOf(metric)));
  expect(lacking).toEqual([]);
  expect(observed.length).toBeGreaterThan(20);

  // What is stored has the columns that are defined, in their order.
  const columnsOf = (relation: string) =>
    s.rows(
      `select attname, atttypid::regtype::text as type from pg_attribute where attrelid = $1::regclass and attnum > 0 order by attnum`,
      relation,
    );
  expect(await columnsOf('internal.stored_ticket_metrics')).toEqual(await columnsOf('internal.ticket_metrics_defined'));
});

test('what does not fit together is counted, check by check', async () => {
  await using s = await scripted();
  const attachments = [{ id: 'a1', name: 'a', type: 'b', size: 1 }];
  const said = [message('m1', { direction: 'out', user_id: 'u1', attachments })];
  await told(s.pool, 'default', Date.UTC(2026, 0, 2), ticket('t1', { label_ids: ['l1'], user_id: 'u1' }), said);
  await s.rows(
    `insert into helpdesk.customers (account_id, id, _created_after, _created_before, _checked_at, _first_seen_at, _synced_at, _observed_at, _payload)
    values ('default', 'c1', $1, $1, $1, $1, $1, $1, '{}')`,
    at(0),
  );
  await s.rows(
    `insert into helpdesk.users (account_id, id, _first_seen_at, _synced_at, _observed_at, _payload) values ('default', 'u1', $1, $1, $1, '{}')`,
    at(0),
  );
  await s.rows('insert into internal.ticket_history select * from internal.first_versions');
  const found = async () =>
    (await s.rows(`select check_name, found from analytics.integrity where found > 0 order by 1`)).map(
      row => `${row.found} ${row.check_name}`,
    );
  expect(await found()).toEqual([]);

  // Each is broken by itself, and mended again.
  const breaks: [string, string[]][] = [
    [`delete from helpdesk.customers`, ['1 tickets without their customer']],
    [`delete from helpdesk.users`, ['1 messages of a user who is not here', '1 tickets of a user who is not here']],
    [`delete from helpdesk.inboxes`, ['1 tickets of an inbox that is not here']],
    [`delete from helpdesk.labels`, ['1 labels of tickets without the label']],
    [`delete from internal.messages`, ['1 attachments without their message']],
    [`delete from internal.stored_ticket_metrics`, ['1 tickets without metrics']],
    [`update helpdesk.tickets set _messages_as_of = null`, ['1 tickets whose messages are not complete']],
    [`update internal.ticket_history set state = 'odd'`, ['1 tickets whose history tells otherwise']],
    [`update internal.ticket_history set label_ids = '{l2}'`, ['1 tickets whose history tells otherwise']],
    [`insert into internal.stored_recomputes values ('default')`, ['1 business times that are not worked out anew']],
    [
      `insert into internal.ticket_history (account_id, ticket_id, valid_from, valid_to)
       select account_id, ticket_id, valid_from - interval '1 hour', valid_from + interval '1 hour' from helpdesk.ticket_history`,
      ['1 history that overlaps'],
    ],
    [
      `insert into internal.ticket_history (account_id, ticket_id, valid_from) values ('default', 'nobody', now())`,
      ['1 history of tickets that are not here'],
    ],
    [
      `insert into helpdesk.contacts (account_id, id, customer_id, _first_seen_at, _synced_at, _observed_at, _payload)
       values ('default', 'k', 'nobody', now(), now(), now(), '{}')`,
      ['1 contacts without their customer'],
    ],
    [
      `insert into books.shelf_volumes (account_id, owner_id, shelf_id, volume_id, position, _first_seen_at, _synced_at, _observed_at, _payload)
       values ('default', 'o', 's', 'v', 0, now(), now(), now(), '{}')`,
      ['1 volumes on a shelf that are not here', '1 volumes on a shelf that is not here'],
    ],
  ];
  const client = await s.pool.connect();
  try {
    for (const [statement, expected] of breaks) {
      await client.query('begin');
      await client.query(statement);
      const { rows } = await client.query(
        `select found || ' ' || check_name as says from analytics.integrity where found > 0 order by check_name`,
      );
      expect({ statement, found: rows.map(row => row.says) }).toEqual({ statement, found: expected });
      await client.query('rollback');
    }
  } finally {
    client.release();
  }
});

test('analytics.completeness shows reports the values of sync.status', async () => {
  await using s = await scripted();
  s.lists.tickets = [ticket('t1')];
  s.goTo(100);
  await s.sync('tickets');
  const columns = 'account_id, stream, complete_through, gaps, waiting, open_rejects, deletes_checked_at, state';
  const rows = await s.rows(`select ${columns} from analytics.completeness order by 1, 2`);
  expect(rows.length).toBeGreaterThan(1);
  expect(rows).toEqual(await s.rows(`select ${columns} from sync.status order by 1, 2`));
});

test('business time is stored with the turns: a question works none out', async () => {
  await using s = await scripted();
  await s.rows(`insert into analytics.calendars values ('office', 'UTC')`);
  await s.rows(
    `insert into analytics.calendar_hours select 'office', n, '09:00', '17:00' from generate_series(1, 7) n`,
  );
  await s.rows(`insert into internal.stored_calendar_assignments values ('default', null, 'office')`);
  for (const [i, day] of ['05', '06', '07'].entries()) {
    const said = ['10', '11'].map(hour =>
      message(`m${day}-${hour}`, {
        ...{ direction: hour === '10' ? 'in' : 'out', user_id: hour === '10' ? null : 'u1' },
        created_at: `2026-01-${day}T${hour}:00:00Z`,
      }),
    );
    await told(
      s.pool,
      'default',
      Date.UTC(2026, 0, 8),
      ticket(`t${i}`, { created_at: `2026-01-${day}T10:00:00Z` }),
      said,
    );
  }
  const client = await s.pool.connect();
  try {
    await client.query(`set track_functions = 'pl'`);
    const calls = async () => {
      await client.query('select pg_stat_force_next_flush()');
      const { rows } = await client.query<{ name: string; calls: number }>(
        `select funcname as name, calls::float8 as calls from pg_stat_user_functions where schemaname = 'analytics'`,
      );
      return (name: string) => rows.find(row => row.name === name)?.calls ?? 0;
    };
    const [before, asked] = [
      await calls(),
      await client.query(
        `select wait_seconds, wait_business_seconds from analytics.agent_daily where day = '2026-01-06'`,
      ),
    ];
    expect(asked.rows).toEqual([{ wait_seconds: 3600, wait_business_seconds: 3600 }]);
    const { rows } = await client.query('select wait_business_seconds from analytics.reply_turns');
    expect(rows).toEqual([3600, 3600, 3600].map(wait_business_seconds => ({ wait_business_seconds })));
    const ofAll = await calls();
    expect(ofAll('business_seconds') - before('business_seconds')).toBe(0);
    expect(ofAll('calendar_of') - before('calendar_of')).toBe(0);
  } finally {
    client.release(true);
  }
});
