/** The help desk and the book catalog beside each other: in one run, in one queue, and opened of their own accord. */
import { describe, expect, test } from 'vitest';
import { BooksWorld } from '../../packages/sandbox/src/books/world.ts';
import type { Fault, SeenRequest } from '../../packages/sandbox/src/server.ts';
import { openWaiting } from '../../src/engine/queue/reconcile.ts';
import { keepSchedule } from '../../src/engine/queue/schedule.ts';
import type { NewRun } from '../../src/engine/runs/runs.ts';
import { addShelf, bookDifferences, booksConfig } from '../support/books.ts';
import { type Desk, type DeskOptions, eventually, openDesk } from '../support/desk.ts';
import { long } from '../support/long.ts';

const all = ['users', 'customers', 'tickets', 'messages', 'shelves', 'volumes'];
const isOpen = expect.stringMatching(/^(waiting|running)$/);
const owners = ['ada', 'mylibrary'];

/** How long a reply of a source lies about while it is slow: long enough that the other source is read meanwhile, on any machine. */
const slow: Fault = { kind: 'delay', ms: 1000 };

interface Both extends Desk {
  /** Opens a run, and has it worked on at once. */
  begin(streams: readonly string[], more?: Partial<NewRun>): Promise<number>;
  /** What happens with a request of the catalog, and goes wrong with its reply. */
  readonly catalog: { slow: boolean; fault: (request: SeenRequest) => Fault | undefined };
  readonly world: BooksWorld;
  /** Paths that the catalog was asked for. */
  asked(): string[];
}

/** Ada has two shelves, and whoever asks has one: 60 volumes in all. */
async function openBoth(options: Partial<DeskOptions> = {}): Promise<Both> {
  let settled = false;
  const world = new BooksWorld({ now: () => Date.now() - (settled ? 0 : 3_600_000) });
  world.addUser('ada');
  for (const { shelves } of world.users.values()) shelves.clear();
  addShelf(world, 'ada', 1, 30);
  addShelf(world, 'ada', 2, 10);
  addShelf(world, world.me, 3, 20);
  settled = true;
  const catalog: Both['catalog'] = { slow: false, fault: () => undefined };
  const desk = await openDesk({
    redisUrl: undefined,
    tickets: 20,
    books: {
      world,
      requestsPerDay: 1_000_000,
      requestsPerSecond: 1_000_000,
      fault: request => catalog.fault(request) ?? (catalog.slow ? slow : undefined),
    },
    settings: sandbox => ({ books: booksConfig(sandbox) }),
    ...options,
  });
  desk.fault = () => (desk.slow ? slow : undefined);
  const asked = () => desk.sandbox.books.requests.map(({ path }) => path);
  const begin: Both['begin'] = async (streams, more) => {
    const run = await desk.open(streams, more);
    await desk.addJobs();
    return run;
  };
  return Object.assign(desk, { catalog, world, asked, begin });
}

const statesOf = async (desk: Desk, run: number) => {
  const { state, streams } = await desk.progress(run);
  return { run: state, ...Object.fromEntries(Object.values(streams).map(one => [one.stream, one.state])) };
};

const ended = (desk: Desk, run: number) =>
  eventually(async () => {
    const progress = await desk.progress(run);
    expect(progress.state).not.toBe('running');
    return progress;
  });

const completed = async (desk: Desk, run: number) =>
  expect(await ended(desk, run)).toMatchObject({ state: 'completed' });

/** Which run reads which streams, but for those that tests open. */
const runsOf = (desk: Desk, ...kinds: string[]) =>
  desk.rows(
    `select kind, array_agg(stream order by stream) as streams
     from sync.stored_runs r join sync.stored_run_streams s on s.run_id = r.id
     where kind = any($1) group by r.id order by r.id`,
    kinds,
  );

describe.concurrent('one run of both', () => {
  test('a help desk that refuses us ends its own streams, those that wait included', long, async () => {
    await using both = await openBoth();
    both.fault = () => ({ kind: 'status', status: 401 });
    both.catalog.slow = true;
    await both.worker({ reconciles: true });
    const run = await both.begin(all);
    await eventually(async () => expect(await statesOf(both, run)).toMatchObject({ messages: 'failed' }));
    expect(await statesOf(both, run)).toMatchObject({
      run: 'running',
      tickets: 'failed',
      volumes: isOpen,
    });
    both.catalog.slow = false;
    const { state, streams } = await ended(both, run);
    expect(state).toBe('failed');
    for (const name of ['users', 'customers', 'tickets', 'messages'])
      expect(streams[name]).toMatchObject({ exit_code: 4, remedy: expect.stringContaining('HELPDESK_TOKEN') });
    for (const name of ['shelves', 'volumes'])
      expect(streams[name]).toMatchObject({ state: 'completed', exit_code: 0 });
    expect(await bookDifferences(both.pool, both.world, owners)).toEqual([]);
  });
});

describe.concurrent('of its own accord', () => {
  const opening = (both: Desk) => openWaiting(both.watcher.ctx, both.watcher.presence.id);
  /** Shelves are read, and all their volumes wait. */
  const withWaiting = async () => {
    const both = await openBoth();
    await using worker = await both.worker({ reconciles: true });
    await completed(both, await both.begin(['shelves']));
    await worker.leave();
    return both;
  };
  const endAs = (both: Desk, run: number, how: { state: string; deferredUntil?: Date }) =>
    both.rows(
      `with s as (update sync.stored_run_streams set state = $2, finished_at = now(), deferred_until = $3 where run_id = $1)
       update sync.stored_runs set state = $2, finished_at = now() where id = $1`,
      run,
      how.state,
      how.deferredUntil ?? null,
    );
  /** The run that reads what waits; it is worked on at once. */
  const opened = async (both: Both) => {
    await both.addJobs();
    const [run] = await both.rows(`select id from sync.stored_runs where kind = 'hydrate'`);
    return run!.id as number;
  };
  const inAnHour = () => new Date(Date.now() + 3_600_000);
  const awake = (both: Desk) =>
    both.rows(
      `update sync.stored_run_streams set deferred_until = now() - interval '1 second' where deferred_until is not null`,
    );

  test('volumes that wait get a run, once: not beside one that comes to them, nor while they sleep over a spent quota', async () => {
    await using both = await withWaiting();
    const opens = async () => {
      await opening(both);
      return runsOf(both, 'hydrate', 'fresh');
    };
    {
      await using without = await both.worker({ settings: { books: undefined } });
      await openWaiting(without.account.ctx, without.id);
    }
    const reading = await both.open(['tickets', 'volumes']);
    expect(await opens()).toEqual([]);
    await endAs(both, reading, { state: 'completed' });
    await endAs(both, await both.open(['volumes']), { state: 'partial', deferredUntil: inAnHour() });
    expect(await opens()).toEqual([]);
    await awake(both);
    // It has shelves to read first.
    const later = await both.open(['shelves', 'volumes']);
    for (let i = 0; i < 2; i++) expect(await opens()).toEqual([{ kind: 'hydrate', streams: ['volumes'] }]);
    await endAs(both, later, { state: 'completed' });
    await both.worker({ reconciles: true });
    await completed(both, await opened(both));
    expect(await bookDifferences(both.pool, both.world, owners)).toEqual([]);
    expect(await opens()).toHaveLength(1);
  });

  test('a quota that is spent in the middle: the run says until when, and another one goes on then', long, async () => {
    await using both = await openBoth();
    let left = 2;
    both.catalog.fault = ({ path }) =>
      !path.startsWith('/volumes/') || left-- > 0
        ? undefined
        : { kind: 'status', status: 403, reason: 'dailyLimitExceeded' };
    const worker = await both.worker({ reconciles: true });
    const { streams } = await ended(both, await both.begin(['shelves', 'volumes', 'users']));
    expect(streams).toMatchObject({
      shelves: { state: 'completed' },
      users: { state: 'completed' },
      volumes: { state: 'partial', exit_code: 3, error: expect.stringContaining('quota of the book catalog') },
    });
    await openWaiting(worker.account.ctx, worker.id);
    expect(await runsOf(both, 'hydrate')).toEqual([]);
    both.catalog.fault = () => undefined;
    await awake(both);
    await both.watcher.ctx.sources.get('books')!.thaw();
    await openWaiting(worker.account.ctx, worker.id);
    await completed(both, await opened(both));
    expect(await bookDifferences(both.pool, both.world, owners)).toEqual([]);
    const byId = both.asked().filter(path => path.startsWith('/volumes/'));
    // But for the one that was refused.
    expect(byId).toHaveLength(61);
  });

  test('shelves that slept are woken by one run, whoever of several comes first', async () => {
    await using both = await openBoth();
    const run = await both.open(['shelves']);
    await endAs(both, run, { state: 'partial', deferredUntil: inAnHour() });
    const workers = [await both.worker(), await both.worker()];
    const look = () =>
      Promise.all(workers.flatMap(({ account, id }) => [0, 1, 2].map(() => openWaiting(account.ctx, id))));
    await look();
    expect(await runsOf(both, 'fresh', 'hydrate')).toEqual([]);
    await awake(both);
    await using without = await both.worker({ settings: { books: undefined } });
    await openWaiting(without.account.ctx, without.id);
    expect(await runsOf(both, 'fresh', 'hydrate')).toEqual([]);
    await look();
    expect(await runsOf(both, 'fresh', 'hydrate')).toEqual([{ kind: 'fresh', streams: ['shelves'] }]);
    await look();
    expect(await runsOf(both, 'fresh', 'hydrate')).toHaveLength(1);
  });
});

describe.concurrent('the schedule', () => {
  const times = { fresh: '* * * * *', nightly: '* * * * *', timeZone: 'UTC' };
  const look = async (desk: Desk) => {
    const { ctx, presence } = desk.watcher;
    await using schedule = keepSchedule(ctx, times, presence.id, () => {});
    await schedule.look();
    return runsOf(desk, 'nightly', 'fresh', 'hydrate', 'backfill');
  };

  test('with the catalog alone: the night reads shelves, and nothing is read every minute', async () => {
    await using desk = await openBoth({
      settings: sandbox => ({ helpdesk: undefined, books: booksConfig(sandbox) }),
    });
    expect(await look(desk)).toEqual([{ kind: 'nightly', streams: ['shelves'] }]);
    expect(await desk.rows('select schedule from sync.schedule_slots')).toEqual([{ schedule: 'nightly' }]);
  });
});

describe.concurrent('one reader at a time', () => {
  const backfill = { kind: 'backfill', range: { since: null, until: null, again: true } } as const;

  test('a backfill and a sync of the shelves wait for each other', async () => {
    const stream = 'shelves';
    await using both = await openBoth();
    await both.worker({ reconciles: true });
    both.catalog.slow = true;
    const first = await both.begin([stream]);
    await eventually(async () => expect(await statesOf(both, first)).toMatchObject({ [stream]: 'running' }));
    const second = await both.begin([stream], backfill);
    await eventually(async () =>
      expect((await both.progress(second)).streams[stream]).toMatchObject({ state: 'waiting', waits_for: first }),
    );
    both.catalog.slow = false;
    await completed(both, first);
    await completed(both, second);
    const [one, other] = await both.rows(
      `select started_at, finished_at from sync.stored_run_streams where run_id = any($1) order by run_id`,
      [first, second],
    );
    expect((other!.started_at as Date).getTime()).toBeGreaterThanOrEqual((one!.finished_at as Date).getTime());
  });
});

describe.concurrent('hands', () => {
  test('a process without settings for the catalog that gets shelves: it says so', async () => {
    const stream = 'shelves';
    await using both = await openBoth();
    await using able = await both.worker({ reconciles: true });
    await completed(both, await both.begin(['shelves']));
    await able.leave();
    const asked = both.asked();
    const rows = await both.rows('select * from books.volumes order by id');
    const worker = await both.worker({ reconciles: true, settings: { books: undefined } });
    const run = await both.begin(['users', stream]);
    const { state, streams } = await ended(both, run);
    expect(state).toBe('failed');
    expect(streams).toMatchObject({
      users: { state: 'completed', worker: worker.id },
      [stream]: {
        state: 'failed',
        exit_code: 2,
        error: expect.stringContaining('not configured for books'),
        remedy: expect.stringContaining('BOOKS_BASE_URL'),
        seen: 0,
        credits: 0,
      },
    });
    expect(both.asked()).toEqual(asked);
    expect(await both.rows('select * from books.volumes order by id')).toEqual(rows);
    expect(await both.rows('select * from sync.rejects')).toEqual([]);
  });
});
