/** A tracker with issues, and comments that are a list of their own for each issue: when they are read, and what becomes of them. */
import type pg from 'pg';
import { expect, test } from 'vitest';
import { addMirrors } from '../../../src/engine/database/mirrors.ts';
import { openCandidates } from '../../../src/engine/database/open-candidates.ts';
import { transaction } from '../../../src/engine/database/pool.ts';
import { replay } from '../../../src/engine/load/replay.ts';
import { readsOf, runStream } from '../../../src/engine/load/run-stream.ts';
import { openWaiting } from '../../../src/engine/queue/reconcile.ts';
import { openRun, readProgress } from '../../../src/engine/runs/runs.ts';
import { auditStream } from '../../../src/engine/verify/audit/audit-stream.ts';
import { openVerification, readFindings } from '../../../src/engine/verify/verifications.ts';
import { eraseCustomer } from '../../../src/privacy/erasures.ts';
import { sources, streams } from '../../../src/sources/index.ts';
import { children, id, record, text, time } from '../../../src/sources/record/record.ts';
import { details, incremental } from '../../../src/sources/service/declared.ts';
import type { Paginator } from '../../../src/sources/service/paginator.ts';
import { defineService } from '../../../src/sources/service/service.ts';
import { iso, scripted, second } from '../../support/scripted.ts';

const issue = record('issues', 'Issues.', {
  id: id(),
  title: text('Title.').plain(),
  updated_at: time('Last change.').always(),
  labels: children(record('labels', 'Labels.', { id: id() })),
});
const comment = record('comments', 'Comments.', {
  id: id(),
  author: text('Author.').personal('contact'),
  body: text('Body.').personal('text'),
});
const trackerWith = (
  get: { readonly get?: '/issues/:id'; readonly deletionsUnknown?: string },
  paginator: Paginator = { type: 'single_page' },
) =>
  defineService({
    ...{ name: 'tracker', label: 'the tracker', says: 'The tracker.', limits: [], paginator: { type: 'single_page' } },
    streams: [
      incremental(issue, '/issues', { cursor: 'updated_at', startParam: 'since', ...get }),
      details(comment, '/issues/:id/comments', { parent: 'issues', ageDays: 7, paginator }),
    ],
  });
const tracker = trackerWith({});
const [issues, comments] = tracker.streams as [(typeof tracker.streams)[number], (typeof tracker.streams)[number]];
const byId = trackerWith({ get: '/issues/:id' });

const one = (name: string, n: number) => ({ id: name, title: name, updated_at: iso(n), labels: [{ id: '1' }] });
const said = (name: string, body = `body of ${name}`, author = `${name}@example.org`) => ({ id: name, author, body });

async function opened(tracker = trackerWith({}), lookbackMs = 0, longestWaitMs?: number) {
  const [issues, comments] = tracker.streams as [(typeof tracker.streams)[number], (typeof tracker.streams)[number]];
  const s = await scripted({ lookbackMs });
  const client = (await s.pool.connect()) as pg.PoolClient & pg.Client;
  const mirrors = [...sources, tracker];
  await addMirrors(client, mirrors);
  await openCandidates(client, mirrors);
  await openCandidates(client, mirrors);
  client.release();
  await s.rows(
    `insert into sync.sources (account_id, source, address) values ('default', 'tracker', 'https://tracker.example')`,
  );
  await s.rows(
    `insert into sync.coverage (account_id, source, stream, list, covered) values ('default', 'tracker', 'issues', 'default', '{}')`,
  );
  const open = { ...s.ctx.sources.get('helpdesk')!, name: 'tracker' };
  const asked: string[] = [];
  const send = Object.assign((...[request, options]: Parameters<typeof open.send>) => {
    asked.push(request.path);
    return open.send(request, options);
  }, open.send);
  const ctx = {
    ...{ ...s.ctx, streams: tracker.streams, random: () => 0.5 },
    sources: new Map([['tracker', { ...open, send, longestWaitMs, audit: { perHour: 9 } }]]),
  };
  let now = 1000;
  const later = (seconds = 10) => {
    now += seconds;
    s.goTo(now);
    return new Date(second(now));
  };
  const work = async (stream: typeof issues, kind: 'sync' | 'sweep' | 'verify', run: number) => {
    await runStream(ctx as never, { account: 'default', run, stream: stream.key }, readsOf(stream, kind));
    return (await readProgress(s.pool, run)).streams[0]!;
  };
  const run = async (stream: typeof issues, kind: 'sync' | 'sweep' = 'sync') => {
    const of = { account: 'default', kind, streams: [stream.key], opener: 0 };
    const at = later();
    return work(stream, kind, await transaction(s.pool, db => openRun(db, of, at)));
  };
  return Object.assign(s, {
    later,
    /** What the list of issues shows from now on, to those who ask from an earlier time on. */
    shows(...some: ReturnType<typeof one>[]) {
      s.lists.issues = query =>
        some.filter(({ updated_at }) => Date.parse(updated_at) >= Date.parse(query.get('since') ?? iso(0)));
    },
    /** Reads the issues, then the comments of those that wait. */
    async both() {
      await run(issues);
      return run(comments);
    },
    sweep: () => run(issues, 'sweep'),
    read: () => run(comments),
    isDue: () => comments.pending!.isDue(ctx as never),
    /** The paths that were asked for since the last call, but that of the list. */
    asked: () =>
      asked
        .splice(0)
        .filter(path => path !== '/issues')
        .sort(),
    /** Requests of a first load, by stream, where the list says how many issues there are. */
    async plan(total: number) {
      const counting = { ...ctx, sources: new Map([['tracker', { ...open, send: async () => ({ total }) }]]) };
      const state = { ctx: counting as never, nowMs: second(now), counts: true, counted: [], unknown: false };
      const parts = await tracker.forecast(
        { ...state, assumed: new Set<string>() },
        { kind: 'sync', streams: tracker.streams.map(({ key }) => key) },
      );
      const manyOf = (part: (typeof parts)[number]) => part.readers.flat().reduce((sum, { many }) => sum + many, 0);
      return Object.fromEntries(parts.map(part => [part.stream, manyOf(part)]));
    },
    rejects: () => s.rows('select stream_key as of, ask_id as id from sync.rejects where cleared_at is null'),
    buried: () => s.rows('select id, _deleted_at as at from tracker.issues where _deleted_at is not null order by id'),
    replay: (reject: unknown) => replay(ctx as never, tracker.streams, reject as number),
    erase: (contact: string) =>
      eraseCustomer(
        s.pool,
        { account: 'default', contact, who: 'test', streams: [...streams, ...tracker.streams] },
        later(),
      ),
    async verify(stream: typeof issues, repair = true) {
      const asked = { asked: { sample: null, repair }, forecast: { credits: 1, seconds: 1 } };
      const of = { account: 'default', streams: [stream.key], opener: 0, ...asked };
      const { run } = await openVerification(s.pool, of, later());
      expect(await work(stream, 'verify', run)).toMatchObject({ error: null });
      const { found } = await readFindings(s.pool, run, 100);
      return found.map(({ record: id, kind }) => [id, kind]);
    },
    /** The streams of the audit that a worker opens now. */
    async opensAudit() {
      await openWaiting(ctx as never, 0);
      return (
        await s.rows(
          `select stream from sync.stored_run_streams t join sync.stored_runs r on r.id = t.run_id where r.kind = 'audit' and t.state = 'waiting' order by 1`,
        )
      ).map(({ stream }) => stream);
    },
    /** Runs the audit that is open. Answers what it found. */
    async audits() {
      const [{ run }] = (await s.rows(`select max(id) as run from sync.stored_runs where kind = 'audit'`)) as [
        { run: number },
      ];
      for (const stream of tracker.streams)
        await runStream(
          ctx as never,
          { account: 'default', run, stream: stream.key },
          {
            read: (job, claim) => auditStream(job, claim, stream),
          },
        );
      expect((await readProgress(s.pool, run)).streams.map(({ state }) => state)).not.toContain('failed');
      const { found } = await readFindings(s.pool, run, 100);
      return found.map(({ stream, record: id, kind, repaired_at }) => [stream, id, kind, repaired_at !== null]);
    },
    live: async (table = 'comments') =>
      (
        await s.rows(
          `select string_agg(issue_id || '/' || id, ' ' order by issue_id, id) as ids from tracker.${table} where _deleted_at is null`,
        )
      )[0]!.ids,
    status: async () =>
      (
        await s.rows(
          `select waiting, complete_through, behind is null as unknown from sync.status where stream_key = 'tracker.comments'`,
        )
      )[0],
  });
}

test('comments are read of an issue that is new or has changed, and replaced as a set; their ids are unique within it', async () => {
  await using s = await opened();
  s.shows(one('a', 1), one('b', 2), one('c', 3));
  Object.assign(s.details, {
    '/issues/a/comments': [said('1'), said('2')],
    '/issues/b/comments': [said('1')],
    '/issues/c/comments': [],
  });
  expect(await s.both()).toMatchObject({ inserted: 3, error: null });
  expect(s.asked()).toEqual(['/issues/a/comments', '/issues/b/comments', '/issues/c/comments']);
  expect(await s.live()).toBe('a/1 a/2 b/1');
  expect(await s.rows(`select _payload from tracker.comments where issue_id = 'b'`)).toEqual([{ _payload: said('1') }]);
  // Nothing has changed, so nothing is asked for, and nothing is due.
  await s.both();
  expect([s.asked(), await s.isDue()]).toEqual([[], false]);
  s.shows(one('a', 1), one('b', 1045), one('c', 1046));
  Object.assign(s.details, { '/issues/b/comments': [said('2')], '/issues/c/comments': [said('1', 'first')] });
  expect(await s.both()).toMatchObject({ inserted: 2, deleted: 1 });
  expect(s.asked()).toEqual(['/issues/b/comments', '/issues/c/comments']);
  expect(await s.live()).toBe('a/1 a/2 b/2 c/1');
  expect(
    await s.rows(`select record_id, changes ? 'id' as gone from sync.changes where table_name = 'comments'`),
  ).toEqual([{ record_id: '1', gone: true }]);
});

test('status says how many issues wait, and since when; a migration again changes nothing of it', async () => {
  await using s = await opened();
  s.shows(one('a', 1), one('b', 2));
  Object.assign(s.details, { '/issues/a/comments': [said('1')], '/issues/b/comments': 503 });
  await s.both();
  expect(await s.status()).toMatchObject({ waiting: 1, complete_through: new Date(second(2)) });
  s.details['/issues/b/comments'] = [];
  s.later(120);
  await s.read();
  expect((await s.status())!.waiting).toBe(0);
  expect((await s.status())!.complete_through).not.toEqual(new Date(second(2)));
});

test('a 404 of the comments buries no issue; with its issue they are buried, and they come back with it', async () => {
  await using s = await opened();
  s.shows(one('a', 1), one('b', 2));
  Object.assign(s.details, { '/issues/a/comments': [said('1')], '/issues/b/comments': 404 });
  expect(await s.both()).toMatchObject({ state: 'partial' });
  s.later(3600);
  await s.read();
  const rejects = () => s.rows('select ask_id from sync.rejects where cleared_at is null');
  expect([await s.live(), await rejects()]).toEqual(['a/1', [{ ask_id: 'b' }]]);
  expect(await s.rows('select from tracker.issues where _deleted_at is not null')).toEqual([]);
  s.details['/issues/a/comments'] = 404;
  s.shows();
  await s.sweep();
  expect([await s.live(), await s.live('labels')]).toEqual([null, null]);
  expect(await s.rows('select _comments_as_of as at from tracker.issues')).toEqual([{ at: null }, { at: null }]);
  // An issue that is gone is not asked for its comments.
  s.asked();
  s.later(24 * 3600);
  await s.read();
  expect([s.asked(), await rejects()]).toEqual([[], []]);
  s.shows(one('a', 1));
  s.details['/issues/a/comments'] = [said('1'), said('2')];
  await s.sweep();
  await s.read();
  expect(await s.live()).toBe('a/1 a/2');
});

test('an issue that is deleted after the list showed it, before its comments are read, is buried by a 404 of its own', async () => {
  await using s = await opened(byId);
  s.shows(one('a', 1), one('b', 2));
  Object.assign(s.details, { '/issues/a/comments': [said('1')], '/issues/b/comments': 404, '/issues/b': 404 });
  expect(await s.both()).toMatchObject({ state: 'completed', error: null, deleted: 1 });
  expect(s.asked()).toEqual(['/issues/a/comments', '/issues/b', '/issues/b/comments', '/issues/b/comments']);
  expect([await s.rejects(), await s.live(), await s.live('labels')]).toEqual([[], 'a/1', 'a/1']);
  expect(await s.buried()).toEqual([{ id: 'b', at: expect.any(Date) }]);
  expect(await s.status()).toMatchObject({ waiting: 0 });
  // Nothing of it is asked for again. If the list shows it later, it is back.
  s.later(3600);
  expect([await s.isDue(), await s.read().then(s.asked)]).toEqual([false, []]);
  s.shows(one('a', 1), one('b', 4700));
  s.details['/issues/b/comments'] = [said('2')];
  s.later(3600);
  await s.both();
  expect([await s.buried(), await s.live()]).toEqual([[], 'a/1 b/2']);
});

test('a 404 of the comments of an issue that is there, or of which nobody can say, is a reject and buries nothing', async () => {
  await using s = await opened(byId);
  s.shows(one('a', 1), one('b', 2), one('c', 3));
  Object.assign(s.details, { '/issues/a': one('a', 1), '/issues/a/comments': 404 });
  Object.assign(s.details, { '/issues/b': 503, '/issues/b/comments': 404 });
  Object.assign(s.details, { '/issues/c': one('a', 1), '/issues/c/comments': 404 });
  expect(await s.both()).toMatchObject({ state: 'partial' });
  const of = 'tracker.comments';
  expect([await s.buried(), await s.rejects()]).toEqual([[], ['a', 'b', 'c'].map(id => ({ of, id }))]);
  expect(await s.status()).toMatchObject({ waiting: 3 });
  // 410 may mean that the list has moved.
  s.details['/issues/b'] = 410;
  s.later(3600);
  await s.read();
  expect([await s.buried(), (await s.rejects()).length]).toEqual([[], 3]);
});

test('a 404 of an issue so new that a copy of the source may lack it buries it once the copy must have it', async () => {
  await using s = await opened(byId, 60_000);
  s.shows(one('c', 900));
  s.details['/issues/c/comments'] = [];
  await s.both();
  s.later(3600);
  // The list of b is late, and c was there before it changed.
  s.shows(one('b', 4500), one('a', 4620), one('c', 4625));
  for (const id of ['a', 'b', 'c']) s.details[`/issues/${id}/comments`] = 404;
  expect(await s.both()).toMatchObject({ state: 'partial' });
  expect((await s.buried()).map(({ id }) => id)).toEqual(['b', 'c']);
  s.later(3600);
  expect(await s.read()).toMatchObject({ state: 'completed', deleted: 1 });
  expect([(await s.buried()).length, await s.rejects()]).toEqual([3, []]);
});

test('a 404 of a later page of the comments is one of all of them', async () => {
  await using s = await opened(
    trackerWith({ get: '/issues/:id' }, { type: 'page_number', pageParam: 'page', limit: 2 }),
  );
  s.shows(one('a', 1), one('b', 2));
  const twoPages = () => {
    let asked = 0;
    return () => (asked++ % 2 === 0 ? [said('1'), said('2')] : 404);
  };
  Object.assign(s.details, {
    '/issues/a/comments': twoPages(),
    '/issues/b/comments': twoPages(),
    '/issues/a': one('a', 1),
  });
  expect(await s.both()).toMatchObject({ state: 'partial', deleted: 1 });
  expect([await s.live(), (await s.buried()).map(({ id }) => id)]).toEqual([null, ['b']]);
  expect((await s.rejects()).map(({ id }) => id)).toEqual(['a']);
  s.details['/issues/a/comments'] = [said('1')];
  s.later(3600);
  expect(await s.read()).toMatchObject({ state: 'completed' });
  expect([await s.live(), await s.rejects()]).toEqual(['a/1', []]);
});

test('a 404 of an issue counts also where its list hides some', async () => {
  await using s = await opened(trackerWith({ get: '/issues/:id', deletionsUnknown: 'the list hides closed issues' }));
  s.shows(one('a', 1));
  Object.assign(s.details, { '/issues/a': 404, '/issues/a/comments': 404 });
  expect(await s.both()).toMatchObject({ state: 'completed', deleted: 1 });
});

test('a tombstone of an issue ends what its comments had failed to tell: 404, 410, or one that is malformed', async () => {
  await using s = await opened();
  s.shows(one('a', 1), one('b', 2), one('c', 3), one('d', 4));
  const broken = { ...said('1'), body: ['x'] };
  Object.assign(s.details, { '/issues/a/comments': 404, '/issues/b/comments': 410 });
  Object.assign(s.details, { '/issues/c/comments': [broken], '/issues/d/comments': [broken] });
  expect(await s.both()).toMatchObject({ state: 'partial' });
  expect((await s.rejects()).map(({ id }) => id)).toEqual(['a', 'b', 'c', 'd']);
  s.shows(one('d', 4));
  await s.sweep();
  s.asked();
  expect([(await s.buried()).map(({ id }) => id), (await s.rejects()).map(({ id }) => id)]).toEqual([
    ['a', 'b', 'c'],
    ['d'],
  ]);
  s.later(24 * 3600);
  await s.read();
  expect(s.asked()).toEqual(['/issues/d/comments']);
  // A 404 that was noted after the tombstone ends with the next one.
  await s.rows(`update sync.rejects set cleared_at = null where ask_id = 'a'`);
  s.later(24 * 3600);
  await s.read();
  expect(s.asked()).toEqual(['/issues/a/comments', '/issues/d/comments']);
  expect((await s.rejects()).map(({ id }) => id)).toEqual(['d']);
});

test('comments that were read long ago are read again, because no list says that one was edited', async () => {
  await using s = await opened();
  s.shows(one('a', 1), one('b', 2));
  Object.assign(s.details, { '/issues/a/comments': [said('1')], '/issues/b/comments': [said('1')] });
  await s.both();
  s.asked();
  s.later(6 * 86_400);
  expect(await s.isDue()).toBe(false);
  s.later(86_400);
  s.details['/issues/a/comments'] = [said('1', 'edited')];
  expect(await s.isDue()).toBe(true);
  expect(await s.read()).toMatchObject({ updated: 1, unchanged: 1 });
  expect(s.asked()).toEqual(['/issues/a/comments', '/issues/b/comments']);
  expect(await s.isDue()).toBe(false);
});

test('verify finds a comment that was edited in silence, and one that is here only; the list of issues finds its labels', async () => {
  await using s = await opened();
  s.shows(one('a', 1), one('b', 2));
  Object.assign(s.details, { '/issues/a/comments': [said('1')], '/issues/b/comments': [said('1'), said('2')] });
  await s.both();
  s.details['/issues/a/comments'] = [said('1', 'edited')];
  s.details['/issues/b/comments'] = [said('2')];
  expect(await s.verify(comments, false)).toEqual([
    ['a', 'comment edits do not move updated_at'],
    ['b', 'comments do not move updated_at'],
  ]);
  expect(await s.live()).toBe('a/1 b/1 b/2');
  await s.verify(comments);
  expect([await s.live(), await s.verify(comments)]).toEqual(['a/1 b/2', []]);
  // Each issue has a label of the same id.
  s.shows({ ...one('a', 1), labels: [] }, one('b', 2));
  expect((await s.verify(issues)).map(([id]) => id)).toEqual(['a']);
  expect(await s.live('labels')).toBe('b/1');
});

test('an audit compares random issues and comments, and repairs what was changed in silence; it asks for nothing while other work waits', async () => {
  await using s = await opened(byId);
  s.shows(one('a', 1), one('b', 2), one('c', 3));
  for (const name of ['a', 'b', 'c'])
    Object.assign(s.details, {
      [`/issues/${name}`]: one(name, 'abc'.indexOf(name) + 1),
      [`/issues/${name}/comments`]: [said('1')],
    });
  expect(await s.opensAudit()).toEqual([]);
  await s.both();
  s.details['/issues/a'] = { ...one('a', 1), title: 'edited' };
  s.details['/issues/b/comments'] = [said('1', 'edited')];
  Object.assign(s.details, { '/issues/c': 404, '/issues/c/comments': 404 });
  const other = await s.rows(
    `insert into sync.stored_runs (account_id, kind, started_at, opened_by) values ('default', 'backfill', now(), 0) returning id`,
  );
  await s.rows(
    `insert into sync.stored_run_streams (run_id, account_id, source, stream) values ($1, 'default', 'tracker', 'issues')`,
    other[0]!.id,
  );
  s.later(3600);
  s.asked();
  expect(await s.opensAudit()).toEqual([]);
  const isOver = (state: string) =>
    s.rows(`update sync.stored_run_streams set state = $2 where run_id = $1`, other[0]!.id, state);
  await isOver('completed');
  expect(await s.opensAudit()).toEqual(['comments', 'issues']);
  // Somebody needs the source once more.
  await isOver('waiting');
  expect([await s.audits(), s.asked()]).toEqual([[], []]);
  await isOver('completed');
  s.later(1800);
  expect(await s.opensAudit()).toEqual([]);
  s.later(1800);
  expect(await s.opensAudit()).toEqual(['comments', 'issues']);
  expect((await s.audits()).sort()).toEqual([
    ['comments', 'b', 'comment edits do not move updated_at', true],
    ['issues', 'a', 'edits do not move updated_at', true],
    ['issues', 'c', 'deleted', true],
  ]);
  expect(await s.rows('select title from tracker.issues where _deleted_at is null order by id')).toEqual([
    { title: 'edited' },
    { title: 'b' },
  ]);
  expect(await s.live()).toBe('a/1 b/1');
  await s.rows('update sync.audit set checked_at = now()');
  expect(
    await s.rows(`select stream, checked, differed, unread from sync.audit_confidence where field = '' order by 1`),
  ).toEqual([
    { stream: 'comments', checked: 2, differed: 1, unread: 0 },
    { stream: 'issues', checked: 3, differed: 2, unread: 0 },
  ]);
});

test('an audit deletes no more than sweeps may in a day, and nothing of a list whose deletions are unknown', async () => {
  const lost = async (tracker: Parameters<typeof opened>[0]) => {
    await using s = await opened(tracker);
    const names = Array.from({ length: 40 }, (_, i) => `i${i}`);
    s.shows(...names.map((name, i) => one(name, i + 1)));
    for (const name of names) s.details[`/issues/${name}/comments`] = [];
    await s.both();
    // The key has lost the right to read a single issue.
    for (const name of names) Object.assign(s.details, { [`/issues/${name}`]: 404, [`/issues/${name}/comments`]: 404 });
    for (let audit = 0; audit < 4; audit++) {
      s.later(3600);
      expect(await s.opensAudit()).toEqual(['comments', 'issues']);
      await s.audits();
    }
    return (await s.buried()).length;
  };
  expect(await lost(byId)).toBe(20);
  expect(await lost(trackerWith({ get: '/issues/:id', deletionsUnknown: 'It hides closed issues.' }))).toBe(0);
});

test('no audit begins while comments wait for the quota of the next day, though no run is open', async () => {
  await using s = await opened(byId, 0, 60_000);
  s.shows(one('a', 1));
  s.details['/issues/a/comments'] = [said('1')];
  await s.both();
  s.shows(one('a', 1020));
  s.details['/issues/a/comments'] = 503;
  await s.both();
  await s.rows(`update sync.stored_run_streams set finished_at = $1, deferred_until = '2100-01-01'`, s.later(3600));
  await s.rows(`update sync.rejects set cleared_at = now()`);
  expect([await s.isDue(), await s.opensAudit()]).toEqual([true, []]);
  expect(await s.rows(`select kind from sync.stored_runs where kind <> 'sync'`)).toEqual([]);
});

test('a comment of an erased person is stored without what tells of them, and the others as they are', async () => {
  await using s = await opened();
  s.shows(one('a', 1));
  s.details['/issues/a/comments'] = [said('1'), said('2')];
  await s.both();
  await s.erase('1@example.org');
  expect(await s.rows('select id, author, body from tracker.comments order by id')).toEqual([
    { id: '1', author: null, body: null },
    { id: '2', author: '2@example.org', body: 'body of 2' },
  ]);
  s.shows(one('a', 1020));
  s.details['/issues/a/comments'] = [said('1', 'secret'), said('2', 'calm'), said('3', 'new')];
  expect(await s.both()).toMatchObject({ error: null });
  expect(await s.rows('select id, author, body, _payload from tracker.comments order by id')).toEqual([
    { id: '1', author: null, body: null, _payload: { id: '1' } },
    { id: '2', author: '2@example.org', body: 'calm', _payload: said('2', 'calm') },
    { id: '3', author: '3@example.org', body: 'new', _payload: said('3', 'new') },
  ]);
});

test('of two comments with one id, of two issues, only that of the erased person is cleared, with its old values and rejects', async () => {
  await using s = await opened();
  const whole = (body: string) => said('1', body, 'ada@secret.example');
  s.shows(one('a', 1), one('b', 2));
  Object.assign(s.details, { '/issues/a/comments': [whole('secret')], '/issues/b/comments': [said('1', 'calm')] });
  await s.both();
  s.shows(one('a', 1010), one('b', 1011));
  Object.assign(s.details, { '/issues/a/comments': [whole('older')], '/issues/b/comments': [said('1', 'calmer')] });
  await s.both();
  const broken = { ...said('1'), body: ['x'] };
  s.shows(one('a', 1030), one('b', 1031));
  Object.assign(s.details, { '/issues/a/comments': [broken], '/issues/b/comments': [broken] });
  await s.both();
  await s.rows(
    `insert into sync.audit (account_id, run_id, source, stream, record_id, checked_at, random, kind, differences)
     select 'default', 1, 'tracker', 'comments', i, now(), false, 'k', '{"body": [{"1": "x"}, {"1": "y"}]}' from unnest('{a,b,1}'::text[]) i`,
  );
  await s.erase('ada@secret.example');
  const kept = () =>
    s.rows(`select c.issue_id, c.body, (select jsonb_agg(h.changes -> 'body' -> 0) from sync.changes h where h.parent_id = c.issue_id) as before,
        j.reason !~ '^body' as emptied, j.payload, u.differences -> 'body' -> 1 as theirs
      from tracker.comments c join sync.rejects j on j.ask_id = c.issue_id join sync.audit u on u.record_id = c.issue_id order by 1`);
  const of = { issue_id: 'b', body: 'calmer', before: ['calm'], emptied: false, payload: JSON.stringify(broken) };
  expect(await kept()).toEqual([
    { issue_id: 'a', body: null, before: [null], emptied: true, payload: null, theirs: 'erased' },
    { ...of, theirs: { 1: 'y' } },
  ]);
  expect(await s.rows(`select differences -> 'body' -> 1 as theirs from sync.audit where record_id = '1'`)).toEqual([
    { theirs: { 1: 'y' } },
  ]);
  // Another comment of that id turns out to be theirs, too.
  s.shows(one('b', 1060), one('c', 1061));
  Object.assign(s.details, { '/issues/b/comments': [said('1', 'calm')], '/issues/c/comments': [whole('secret')] });
  await s.both();
  expect(await s.rows('select issue_id, body from tracker.comments order by 1')).toEqual([
    ...[
      { issue_id: 'a', body: null },
      { issue_id: 'b', body: 'calm' },
    ],
    { issue_id: 'c', body: null },
  ]);
  s.shows(one('b', 1090));
  s.details['/issues/b/comments'] = [whole('secret')];
  await s.both();
  expect(await s.rows(`select from tracker.comments where body is not null`)).toEqual([]);
});

test('rejects of two comments with one id are two, and each ends with its own issue', async () => {
  await using s = await opened();
  s.shows(one('a', 1), one('b', 2));
  const broken = { ...said('1'), body: ['x'] };
  Object.assign(s.details, { '/issues/a/comments': [broken], '/issues/b/comments': [broken, said('2')] });
  await s.both();
  const open = () => s.rows('select key, ask_id from sync.rejects where cleared_at is null order by 1');
  expect(await open()).toEqual([
    { key: 'a/1', ask_id: 'a' },
    { key: 'b/1', ask_id: 'b' },
  ]);
  // What is wrong with one comment says nothing of that of another issue.
  Object.assign(s.details, { '/issues/a/comments': [said('1')] });
  s.later(3600);
  await s.read();
  expect([await open(), await s.live()]).toEqual([[{ key: 'b/1', ask_id: 'b' }], 'a/1 b/2']);
  Object.assign(s.details, {
    '/issues/a/comments': [said('1', 'edited')],
    '/issues/b/comments': [said('1'), said('2')],
  });
  expect(await s.verify(comments, false)).toEqual([['a', 'comment edits do not move updated_at']]);
});

test('a rejected comment is stored from its payload while its issue shows the comments of the same reading', async () => {
  await using s = await opened();
  s.shows(one('a', 1), one('b', 2));
  // Its id and a field of it have the names of others.
  const broken = { ...said('a'), body: ['x'], comments: [] };
  Object.assign(s.details, { '/issues/a/comments': [broken, said('2')], '/issues/b/comments': [broken] });
  await s.both();
  const rejects = await s.rows('select id, ask_id from sync.rejects order by ask_id');
  expect(rejects).toHaveLength(2);
  expect(await s.replay(rejects[0]!.id)).toMatch(/^body: /);
  await s.rows(`update sync.rejects set payload = replace(payload, '"body":["x"]', '"body":"seven"')`);
  expect(await s.replay(rejects[0]!.id)).toBeUndefined();
  expect(
    await s.rows(`select issue_id, body, _payload -> 'comments' as own from tracker.comments where id = 'a'`),
  ).toEqual([{ issue_id: 'a', body: 'seven', own: [] }]);
  // Those of the other issue were read once more.
  s.shows(one('b', 1025));
  s.details['/issues/b/comments'] = [];
  await s.both();
  await s.rows('update sync.rejects set cleared_at = null');
  expect(await s.replay(rejects[1]!.id)).toBe('issue b has comments of another reading; fetched again');
  expect(await s.live()).toBe('a/2 a/a');
});

test('a rejected issue is stored from its payload', async () => {
  await using s = await opened();
  s.lists.issues = [{ ...one('a', 1), updated_at: 'yesterday' }];
  await s.both();
  await s.rows(`update sync.rejects set payload = replace(payload, 'yesterday', '${iso(1)}')`);
  const [reject] = await s.rows('select id from sync.rejects');
  // A whole reading that lacked it said that no deletion is unknown: that is not known any more.
  await s.rows(
    `insert into sync.swept (account_id, source, stream, list, created, as_of, run_id) values ('default', 'tracker', 'issues', 'default', '[2026-01-01,)', '2030-01-01', 1)`,
  );
  expect(await s.replay(reject!.id)).toBeUndefined();
  expect(await s.live('labels')).toBe('a/1');
  expect(await s.rows('select from sync.swept')).toEqual([]);
});

test('a malformed comment is rejected by itself; what it stands beside is stored, and nothing counts as gone', async () => {
  await using s = await opened();
  s.shows(one('a', 1));
  s.details['/issues/a/comments'] = [said('1'), said('2')];
  await s.both();
  s.shows(one('a', 1020));
  s.details['/issues/a/comments'] = [{ id: '2', author: 7 }, { ...said('3'), body: ['no text'] }, said('4')];
  expect(await s.both()).toMatchObject({ state: 'partial' });
  expect(await s.live()).toBe('a/1 a/2 a/4');
  s.details['/issues/a/comments'] = [said('4')];
  s.later(3600);
  await s.read();
  expect([await s.live(), await s.rows('select from sync.rejects where cleared_at is null')]).toEqual(['a/4', []]);
});

test('the plan of a first load has a page of details for each record that the list counts', async () => {
  await using s = await opened();
  expect(await s.plan(1200)).toMatchObject({ 'tracker.comments': 1200 });
  s.shows(one('1', 1));
  await s.both();
  // Its comments answer 404, so it waits.
  expect(await s.plan(1200)).toMatchObject({ 'tracker.comments': 1 });
});
