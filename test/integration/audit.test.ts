/** Audit confidence: what random checks prove, and the run that makes them while nobody wants the credits. */

import { expect, test } from 'vitest';
import { auditStream } from '../../jobs/audit-stream.ts';
import type { AuditConfig } from '../../src/engine/context.ts';
import { openWaiting } from '../../src/engine/queue/reconcile.ts';
import { readProgress } from '../../src/engine/runs/runs.ts';
import { chooseAtRandom, liveOf } from '../../src/engine/verify/one-by-one.ts';
import { type InProcess, inProcess } from '../support/in-process.ts';
import { differences } from '../support/mirror.ts';
import { freshDatabase } from '../support/postgres.ts';
import { withAudit } from '../support/sources.ts';

test('at_most is the bound of Clopper and Pearson', async () => {
  await using db = await freshDatabase();
  // Computed beside it with sixty digits, from the sum of binomial terms; rounded up to four places.
  const known = [
    [0, 1, 95],
    [0, 10, 25.8866],
    [0, 100, 2.9514],
    [0, 8400, 0.0357],
    [1, 2, 97.468],
    [1, 100, 4.656],
    [3, 50, 14.7838],
    [10, 50, 31.5597],
    [50, 100, 58.6379],
    [99, 100, 99.9488],
    [420, 8400, 5.4089],
    [4000, 8400, 48.5219],
    [1, 1, 100],
    [0, 0, 100],
  ];
  const { rows } = await db.pool.query<{ differ: number; many: number; percent: number }>(
    `select differ, many, sync.at_most(differ, many)::float8 as percent
     from unnest($1::int[], $2::int[]) v (differ, many)`,
    [known.map(([differ]) => differ), known.map(([, many]) => many)],
  );
  expect(rows.map(({ differ, many, percent }) => [differ, many, percent])).toEqual(known);
});

/** A mirror, and a run of an audit over it. */
async function audited(options: Parameters<typeof inProcess>[0], audit: AuditConfig) {
  const s = await inProcess(options);
  let chance = 0;
  s.ctx = withAudit({ ...s.ctx, random: () => (chance += 0.1) }, audit);
  const run = async () => {
    const [open] = await s.rows(`select id from sync.runs where kind = 'audit' and finished_at is null order by id`);
    const id = (open?.id as number | undefined) ?? (await s.open('audit', ['tickets']));
    for (const { stream } of (await readProgress(s.pool, id)).streams)
      await auditStream.run(s.ctx, { account: 'default', run: id, stream });
    return (await readProgress(s.pool, id)).streams.find(({ stream }) => stream === 'tickets')!;
  };
  return { s, run };
}

const audits = (s: InProcess, where = 'true') =>
  s.rows(`select stream, record_id, kind, repaired_at is not null as repaired,
    (select array_agg(k order by k) from jsonb_object_keys(differences) k) as fields
    from sync.audit where differences is not null and ${where} order by stream, record_id`);

test('an audit counts what the source refuses as unread, deletes none of it, and goes on', async () => {
  const { s, run } = await audited({ tickets: 10, seed: 6 }, { perHour: 100 });
  await using _ = s;
  await s.sync();
  s.nowMs += 600_000;
  const [refused, hidden, edited] = [...s.world.tickets.keys()];
  s.world.patchTicket(edited!, { subject: 'Edited' }, { quiet: true });
  const statuses: Record<string, number> = { [`/tickets/${refused}`]: 422, [`/tickets/${hidden}`]: 451 };
  s.before = path => statuses[path];
  expect((await run()).state).toBe('completed');
  expect(await audits(s)).toMatchObject([{ record_id: edited, repaired: true }]);
  expect(await s.rows('select from helpdesk.tickets where _deleted_at is not null')).toEqual([]);
  await s.pool.query('update sync.audit set checked_at = now()');
  expect(
    await s.rows(`select stream, checked, unread from sync.audit_confidence where field = '' order by stream`),
  ).toEqual([
    { stream: 'messages', checked: 8, unread: 2 },
    { stream: 'tickets', checked: 8, unread: 2 },
  ]);
});

test('an audit finds what nothing announces, repairs it, names its kind and what cures it, and says how sure it is', async () => {
  const { s, run } = await audited({ tickets: 30, seed: 5 }, { perHour: 100 });
  await using _ = s;
  await s.sync();
  s.nowMs += 600_000;
  const quiet = { quiet: true };
  const [a, b, c, d, e, f] = [...s.world.tickets.values()].filter(({ messages }) => messages.length > 0);
  const label = [...s.world.tickets.values()].flatMap(one => one.label_ids)[0]!;
  for (const { id, label_ids } of [a!, b!])
    s.world.patchTicket(id, { label_ids: label_ids.includes(label) ? [] : [label] }, quiet);
  s.world.addNote(c!.id, { body: 'A note that moves nothing' }, quiet);
  s.world.deleteTicket(d!.id);
  await s.pool.query(`update helpdesk.tickets set subject = 'by hand' where id = $1`, [e!.id]);

  // Nobody can read it, and six times it is tried.
  s.before = path => (path === `/tickets/${f!.id}` ? 500 : undefined);
  const { credits, state } = await run();
  expect({ credits, state }).toEqual({ credits: 2 * (29 + 6) + 1, state: 'completed' });
  const found = [
    { stream: 'messages', record_id: c!.id, kind: 'note edits do not move updated_at', fields: ['row'] },
    {
      stream: 'tickets',
      record_id: a!.id,
      kind: 'label edits do not move updated_at',
      fields: ['label_ids'],
    },
    {
      stream: 'tickets',
      record_id: b!.id,
      kind: 'label edits do not move updated_at',
      fields: ['label_ids'],
    },
    { stream: 'tickets', record_id: d!.id, kind: 'deleted', fields: ['row'] },
    { stream: 'tickets', record_id: e!.id, kind: 'changed here', fields: ['subject'] },
  ].map(one => ({ ...one, repaired: true }));
  const byId = (x: { stream: string; record_id: string }, y: typeof x) =>
    `${x.stream} ${x.record_id}` < `${y.stream} ${y.record_id}` ? -1 : 1;
  expect(await audits(s)).toEqual(found.toSorted(byId));
  expect(await differences(s.pool, s.world)).toEqual([]);
  const deleted = `select record_id from sync.changes where run_id = 5 and table_name = 'tickets' and changes ? '_deleted_at'`;
  expect(await s.rows(deleted)).toEqual([{ record_id: d!.id }]);

  // The views go by the clock of the database, which this help desk does not know.
  await s.pool.query('update sync.audit set checked_at = now()');
  const confidence = await s.rows(
    `select stream, field, checked, differed, unread, at_most_percent::float8 as percent from sync.audit_confidence order by 1, 2`,
  );
  expect(confidence).toEqual([
    { stream: 'messages', field: '', checked: 28, differed: 1, unread: 1, percent: expect.closeTo(15.9, 0) },
    { stream: 'messages', field: 'row', checked: 28, differed: 1, unread: 1, percent: expect.closeTo(15.9, 0) },
    { stream: 'tickets', field: '', checked: 29, differed: 4, unread: 1, percent: expect.closeTo(28.8, 0) },
    { stream: 'tickets', field: 'label_ids', checked: 29, differed: 2, unread: 1, percent: expect.closeTo(20.2, 0) },
    { stream: 'tickets', field: 'row', checked: 29, differed: 1, unread: 1, percent: expect.closeTo(15.3, 0) },
    { stream: 'tickets', field: 'subject', checked: 29, differed: 1, unread: 1, percent: expect.closeTo(15.3, 0) },
  ]);
  // Twice in one run may be one event.
  const recommendations = 'select stream, kind, times, setting from sync.recommendations';
  expect(await s.rows(recommendations)).toEqual([]);
  await s.rows(`update sync.audit set run_id = 1 where stream = 'tickets' and record_id = $1`, a!.id);
  expect(await s.rows(recommendations)).toEqual([
    { stream: 'tickets', kind: 'label edits do not move updated_at', times: 2, setting: 'SWEEP_AGE_DAYS' },
  ]);
});

test('an audit begins once an hour where nothing else is to be done, ends when there is, and reads old messages again', async () => {
  const { s, run } = await audited({ tickets: 12, seed: 5 }, { perHour: 3, againMs: 86_400_000 });
  await using _ = s;
  const open = async () => {
    await openWaiting(s.ctx, 0);
    return (await s.rows(`select id from sync.stored_runs where kind = 'audit'`)).length;
  };
  expect(await open()).toBe(0);
  await s.sync();
  const other = await s.open('backfill', ['tickets']);
  expect(await open()).toBe(0);
  await s.pool.query(`update sync.stored_runs set state = 'completed' where id = $1`, [other]);
  expect(await open()).toBe(1);
  s.nowMs += 1_800_000;
  expect(await open()).toBe(1);
  // What is three at random, and nothing is old yet.
  expect((await run()).credits).toBe(6);
  expect(await open()).toBe(1);
  s.nowMs += 2 * 86_400_000;
  const [note, other2] = [...s.world.tickets.values()];
  s.world.addNote(note!.id, { body: 'A note that moves nothing' }, { quiet: true });
  s.world.addNote(other2!.id, { body: 'A note that moves nothing' }, { quiet: true });
  expect(await open()).toBe(2);
  // Somebody else comes after five tickets.
  let asked = 0;
  s.between = async () => {
    if (++asked === 5) await s.open('backfill', ['tickets']);
  };
  expect((await run()).credits).toBe(10);
  await s.pool.query(
    `update sync.stored_runs set state = 'completed', finished_at = started_at where kind = 'backfill'`,
  );
  s.nowMs += 3_600_000;
  expect(await open()).toBe(3);
  const { credits } = await run();
  expect(credits).toBeGreaterThan(6);
  expect(await differences(s.pool, s.world)).toEqual([]);
  expect((await audits(s)).map(({ kind }) => kind)).toEqual([
    'note edits do not move updated_at',
    'note edits do not move updated_at',
  ]);
});

test('each ticket has the same chance, and an unconfirmed 404 costs no other ticket its credits', async () => {
  const { s, run } = await audited({ tickets: 20, seed: 5 }, { perHour: 0, againMs: 86_400_000 });
  await using _ = s;
  await s.sync();
  const drawn = new Map<string, number>();
  for (let i = 0; i < 400; i++)
    for (const id of await chooseAtRandom(
      { pg: s.pool, account: 'default', random: () => i / 400 },
      liveOf('helpdesk.tickets'),
      2,
    ))
      drawn.set(id, (drawn.get(id) ?? 0) + 1);
  // 40 each, give or take four times the root of 36.
  expect(drawn.size).toBe(20);
  expect(Math.min(...drawn.values())).toBeGreaterThan(16);
  expect(Math.max(...drawn.values())).toBeLessThan(64);

  s.nowMs += 2 * 86_400_000;
  const [odd] = s.world.tickets.values();
  const asked: string[] = [];
  s.before = (path, query) => {
    asked.push(path);
    if (asked.length === 200) void s.open('backfill', ['tickets']);
    return path === `/tickets/${odd!.id}` && query.get('embed')?.includes('messages') ? 404 : undefined;
  };
  await run();
  expect(asked.filter(path => path === `/tickets/${odd!.id}`)).toHaveLength(2);
  expect(new Set(asked).size).toBe(20);
  expect(await audits(s)).toEqual([]);
});
