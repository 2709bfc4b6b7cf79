/** `backfill` against the sandbox: which gaps are read in which order, what is claimed, and what is paid for, once. */
import { CommanderError } from 'commander';
import { describe, expect, test, vi } from 'vitest';
import type { Fault } from '../../packages/sandbox/src/admission/faults.ts';
import { World } from '../../packages/sandbox/src/helpdesk/world/world.ts';
import {
  type Sandbox,
  type SandboxOptions,
  type SeenRequest,
  startSandbox,
} from '../../packages/sandbox/src/server.ts';
import { addBackfill } from '../../src/cli/work/backfill.ts';
import { addSync } from '../../src/cli/work/sync.ts';
import { retryRun } from '../../src/engine/runs/operations.ts';
import { Interrupted } from '../../src/errors.ts';
import { backfillAlone, syncAlone } from '../support/alone.ts';
import { settingsFor, shelfdesk } from '../support/cli.ts';
import { command } from '../support/command.ts';
import { ran } from '../support/here.ts';
import { inProcess } from '../support/in-process.ts';
import { long } from '../support/long.ts';
import { backfillOnce, configFor, differences, noSandboxLimits } from '../support/mirror.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';

const begin = Date.UTC(2025, 0, 1);
const hour = (n: number): number => begin + n * 3_600_000;
const at = (n: number): Date => new Date(hour(n));

interface Desk extends AsyncDisposable {
  readonly db: TestDatabase;
  readonly sandbox: Sandbox;
  readonly world: World;
  /** Sets the clock of the source on. */
  wait(ms: number): void;
  /** Calls this with each request, and how many there were. */
  onRequest: (request: SeenRequest, n: number) => void;
  /** Since it was last called: in which hour each request of the default list of tickets begins. */
  listed(): number[];
  /** Since it was last called: which tickets were asked for by id. */
  asked(): string[];
  /** In hours. */
  covered(stream: string, list?: string): Promise<[from: number, to: number][]>;
}

/** `hours`: how many, each with one customer, and one ticket with a message: long ago, so that nothing is fresh. */
async function openDesk({
  hours = 1200,
  make = world => makeHours(world, hours),
  ...options
}: SandboxOptions & { hours?: number; make?: (world: World) => void } = {}): Promise<Desk> {
  let aheadMs = 0;
  const world = new World({ now: () => Date.now() + aheadMs });
  make(world);
  const db = await freshDatabase();
  const before = (request: SeenRequest, n: number) => desk.onRequest(request, n);
  const sandbox = await startSandbox({ ...noSandboxLimits, ...options, world, before });
  const passed = { list: 0, ids: 0 };
  const since = (what: keyof typeof passed) => {
    const found = sandbox.requests.slice(passed[what]);
    passed[what] = sandbox.requests.length;
    return found;
  };
  const desk: Desk = {
    db,
    sandbox,
    world,
    wait: ms => {
      aheadMs += ms;
    },
    onRequest: () => {},
    listed: () =>
      since('list')
        .filter(({ path, query }) => path === '/tickets' && !query.has('spam') && !query.has('trash'))
        .map(({ query }) => (Date.parse(query.get('since_updated_at')!) + 1000 - begin) / 3_600_000),
    asked: () =>
      since('ids')
        .filter(({ path }) => path.startsWith('/tickets/'))
        .map(({ path }) => path.slice('/tickets/'.length)),
    async covered(stream, list = 'default') {
      const { rows } = await db.pool.query<{ from_h: number; to_h: number }>(
        `select extract(epoch from lower(part) - $3::timestamptz)::float8 / 3600 as from_h,
           extract(epoch from upper(part) - $3::timestamptz)::float8 / 3600 as to_h
         from sync.coverage, unnest(covered) part where stream = $1 and list = $2 order by 1`,
        [stream, list, at(0)],
      );
      return rows.map(({ from_h, to_h }) => [from_h, to_h]);
    },
    async [Symbol.asyncDispose]() {
      await sandbox.close();
      await db.drop();
    },
  };
  return desk;
}

/** Spam and trash are among the newest, so that it is known at once that the default list shows them. */
function makeHours(world: World, hours: number): void {
  world.addInbox();
  for (let n = 0; n < hours; n++) {
    const created_at = new Date(hour(n)).toISOString();
    const customer = world.customers.add({ id: `c${n}`, first_name: `Ada ${n}`, created_at });
    const flags = { spam: n === hours - 2, trash: n === hours - 1 };
    world.addTicket({ id: `t${n}`, customer_id: customer.id, created_at, ...flags });
    world.addMessage(`t${n}`, { id: `m${n}`, created_at }, { at: created_at });
  }
}

const upFrom = (from: number, to: number, prefix = 't') =>
  Array.from({ length: to - from }, (_, i) => `${prefix}${from + i}`);

/** With a page in which each ticket has an hour of its own, the next request begins with the last one that was shown. */
const pagesOf = (tickets: number) => Math.ceil(tickets / 99) + 1;

const idsOf = async (desk: Desk, table: string): Promise<Set<string>> => {
  const { rows } = await desk.db.pool.query<{ id: string }>(`select id from helpdesk.${table}`);
  return new Set(rows.map(({ id }) => id));
};

const configOf = (desk: Desk, sinceHour?: number) =>
  configFor(desk.db.url, desk.sandbox, sinceHour === undefined ? {} : { sinceMs: hour(sinceHour) });

/** An abort as Ctrl-C makes it. */
function interruption(): { signal: AbortSignal; interrupt: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, interrupt: () => controller.abort(new Interrupted()) };
}

const range = (from: number | null, to: number | null, again = false) => ({
  since: from === null ? null : at(from),
  until: to === null ? null : at(to),
  again,
});

// Each has a help desk and a database of its own, and waits for them most of the time.
describe.concurrent('gaps', () => {
  test('of a range are filled newest first, each ascending; only the range is read and claimed', async () => {
    await using desk = await openDesk();
    await syncAlone(configOf(desk, 1000), ['tickets']);
    await backfillAlone(configOf(desk, 1000), ['tickets'], range(300, 400));
    const [before] = await desk.covered('tickets');
    expect(before).toEqual([300, 400]);
    desk.listed();

    const result = await backfillAlone(configOf(desk, 1000), ['tickets'], range(100, 900));
    expect(result).toMatchObject({ state: 'completed', exitCode: 0 });
    const listed = desk.listed();
    const older = listed.indexOf(100);
    const [newerGap, olderGap] = [listed.slice(0, older), listed.slice(older)];
    expect(newerGap[0]).toBe(400);
    for (const gap of [newerGap, olderGap]) expect(gap).toEqual(gap.toSorted((a, b) => a - b));
    expect(newerGap.length).toBeLessThanOrEqual(pagesOf(500));
    expect(olderGap.length).toBeLessThanOrEqual(pagesOf(200));
    expect(Math.max(...newerGap)).toBeLessThan(900);
    expect(Math.max(...olderGap)).toBeLessThan(300);
    const covered = await desk.covered('tickets');
    expect(covered).toEqual([
      [100, 900],
      [1000, covered[1]![1]],
    ]);
    const ids = await idsOf(desk, 'tickets');
    expect(upFrom(100, 900).filter(id => !ids.has(id))).toEqual([]);
  });

  test('that HELPDESK_SINCE leaves when it is set earlier are shown, and filled without bounds', long, async () => {
    await using desk = await openDesk({ hours: 140 });
    await syncAlone(configOf(desk, 105));
    expect((await idsOf(desk, 'tickets')).size).toBe(35);
    // Those of newer tickets are there, however old they are.
    expect((await idsOf(desk, 'customers')).size).toBe(140);
    // A sync goes on at the top, and leaves the gap to be seen.
    await syncAlone(configOf(desk, 0));
    const { rows: gaps } = await desk.db.pool.query(
      `select gap_from as from, gap_to as to from sync.gaps where stream = 'tickets' and list = 'default' and gap_to < $1`,
      [at(120)],
    );
    expect(gaps).toEqual([{ from: at(0), to: at(105) }]);
    const result = await backfillAlone(configOf(desk, 0), ['users', 'customers', 'tickets', 'messages']);
    expect(result).toMatchObject({ state: 'completed', exitCode: 0 });
    expect(await differences(desk.db.pool, desk.world)).toEqual([]);
    const asked = desk.asked();
    expect(new Set(asked).size).toBe(asked.length);
  });

  test('of an empty warehouse without bounds: it reads everything, and leaves nothing for a sync', async () => {
    await using desk = await openDesk({ hours: 110 });
    const streams = ['users', 'customers', 'tickets', 'messages'];
    expect(await backfillAlone(configOf(desk), streams)).toMatchObject({ exitCode: 0 });
    expect(await differences(desk.db.pool, desk.world)).toEqual([]);
    desk.asked();
    expect(await syncAlone(configOf(desk))).toMatchObject({ exitCode: 0 });
    expect(desk.asked()).toEqual([]);
    expect(await differences(desk.db.pool, desk.world)).toEqual([]);
    // What is newer than the top is left to a sync.
    desk.world.touch('t5');
    const requests = desk.sandbox.totals.requests;
    expect(await backfillAlone(configOf(desk), streams)).toMatchObject({ state: 'completed', exitCode: 0 });
    expect(desk.sandbox.totals.requests).toBe(requests);
  });

  test(
    'up to a time that is still to come: nothing of the future is claimed, and a sync goes on at the top',
    long,
    async () => {
      await using desk = await openDesk({ hours: 60 });
      const streams = ['users', 'customers', 'tickets', 'messages'];
      const result = await backfillAlone(configOf(desk), streams, { until: new Date('2100-01-01') });
      expect(result).toMatchObject({ state: 'completed', exitCode: 0 });
      for (const stream of ['customers', 'tickets']) {
        const [, to] = (await desk.covered(stream)).at(-1)!;
        expect(hour(to)).toBeLessThanOrEqual(Date.now());
      }
      expect(await differences(desk.db.pool, desk.world)).toEqual([]);
      desk.world.addMessage('t5', { body: 'just now' });
      desk.wait(10_000);
      expect(await syncAlone(configOf(desk))).toMatchObject({ exitCode: 0 });
      expect(await differences(desk.db.pool, desk.world)).toEqual([]);
    },
  );

  test('beyond the top leave no gap for a sync to pass over: refused; from below it, it is read on', async () => {
    await using desk = await openDesk({ hours: 130 });
    await backfillAlone(configOf(desk), ['tickets'], range(null, 30));
    const refused = await backfillAlone(configOf(desk), ['tickets'], range(100, 120));
    expect(refused).toMatchObject({ state: 'failed', exitCode: 1 });
    expect(refused.streams[0]).toMatchObject({ error: expect.stringContaining('after the top of what is covered') });
    expect(await backfillAlone(configOf(desk), ['tickets'], range(20, 45))).toMatchObject({ exitCode: 0 });
    expect((await desk.covered('tickets')).map(([, to]) => to)).toEqual([45]);
    expect(await syncAlone(configOf(desk))).toMatchObject({ state: 'completed', exitCode: 0 });
    expect(await differences(desk.db.pool, desk.world)).toEqual([]);
  });

  test('of customers are filled by walks that end where the gap does', long, async () => {
    await using desk = await openDesk();
    await backfillAlone(configOf(desk), ['customers'], range(900, 1100));
    expect(await desk.covered('customers')).toEqual([[900, 1100]]);
    const before = desk.sandbox.totals.credits;
    await backfillAlone(configOf(desk), ['customers'], range(400, 1000));
    expect(await desk.covered('customers')).toEqual([[400, 1100]]);
    // Six pages, one or two at either end, two counts.
    expect(desk.sandbox.totals.credits - before).toBeLessThanOrEqual(6 + 3 + 4);
    const ids = await idsOf(desk, 'customers');
    expect(upFrom(400, 1100, 'c').filter(id => !ids.has(id))).toEqual([]);
    expect(upFrom(0, 300, 'c').filter(id => ids.has(id))).toEqual([]);
    await syncAlone(configOf(desk), ['customers']);
    await backfillAlone(configOf(desk), ['customers']);
    expect((await differences(desk.db.pool, desk.world)).filter(line => /^(customers|contacts)/.test(line))).toEqual(
      [],
    );
  });
});

test('gaps deeper than paging reaches stay, with their reason; what is around them is filled: partly', async () => {
  await using s = await inProcess({ tickets: 0, customers: 1, paging: { perPage: 10, depth: 50 }, totalCountCap: 50 });
  const [customer] = s.world.customers.values();
  const add = (id: string, ms: number) =>
    s.world.addTicket({ id, customer_id: customer!.id, created_at: new Date(ms).toISOString() });
  for (let n = 0; n < 15; n++) add(`before${n}`, hour(n));
  for (let n = 0; n < 70; n++) add(`tie${n}`, hour(100));
  for (let n = 0; n < 15; n++) add(`after${n}`, hour(200 + n));
  const result = await s.run('backfill', ['tickets'], { range: range(0, 210) });
  expect(result).toMatchObject({ state: 'partial', error: expect.stringContaining('paging reaches') });
  const { rows: covered } = await s.pool.query(
    `select lower(part) as from, upper(part) as to from sync.coverage, unnest(covered) part
     where stream = 'tickets' and list = 'default' order by 1`,
  );
  const after = new Date(hour(100) + 1000);
  expect(covered).toEqual([
    { from: at(0), to: at(100) },
    { from: after, to: at(210) },
  ]);
  const { rows } = await s.pool.query(
    `select lower(gap) as from, upper(gap) as to, reason from sync.gap_reasons where list = 'default'`,
  );
  expect(rows).toEqual([{ from: at(100), to: after, reason: expect.stringContaining('50') }]);
  const ids = new Set((await s.rows('select id from helpdesk.tickets')).map(({ id }) => id));
  expect([...upFrom(0, 15, 'before'), ...upFrom(0, 10, 'after')].filter(id => !ids.has(id))).toEqual([]);
});

describe.concurrent('messages', () => {
  test('of the tickets that changed in the range and wait for them, and no others', long, async () => {
    await using desk = await openDesk({ hours: 180 });
    await syncAlone(configOf(desk), ['tickets']);
    await backfillAlone(configOf(desk), ['messages'], range(60, 80));
    expect(desk.asked()).toEqual(upFrom(60, 80).reverse());
    expect(await idsOf(desk, 'messages')).toEqual(new Set(upFrom(60, 80, 'm')));
    await backfillAlone(configOf(desk), ['messages'], range(null, 70));
    expect(desk.asked()).toEqual(upFrom(0, 60).reverse());
    await backfillAlone(configOf(desk), ['messages'], range(150, null));
    expect(desk.asked()).toEqual(upFrom(150, 180).reverse());
  });
});

describe.concurrent('--again', () => {
  test('for tickets reads the lists of the range, covered or not, and no ticket by its id', long, async () => {
    await using desk = await openDesk({ hours: 130 });
    await syncAlone(configOf(desk));
    desk.wait(60_000);
    // What nothing announces: it is found by reading again.
    desk.world.patchTicket('t60', { subject: 'changed quietly' }, { quiet: true });
    desk.listed();
    desk.asked();
    const result = await backfillAlone(configOf(desk), ['tickets'], range(10, 120, true));
    expect(result).toMatchObject({ state: 'completed', exitCode: 0 });
    const listed = desk.listed();
    expect(listed[0]).toBe(10);
    expect(listed.length).toBeLessThanOrEqual(pagesOf(110));
    expect(desk.asked()).toEqual([]);
    expect(await differences(desk.db.pool, desk.world)).toEqual([]);
    // Done is done: asked for once more, it is read once more.
    await backfillAlone(configOf(desk), ['tickets'], range(10, 120, true));
    expect(desk.listed()).toEqual(listed);
  });

  test(
    'for messages pays once, 2 credits for a ticket, also where a reply proved less than the first one did',
    long,
    async () => {
      let begun = false;
      let n = 0;
      const fault = ({ path }: SeenRequest): Fault | undefined =>
        begun && path.startsWith('/tickets/') && ++n === 7
          ? { kind: 'headers', set: { Date: new Date(desk.world.clock.now() - 30_000).toUTCString() } }
          : undefined;
      await using desk = await openDesk({ hours: 60, fault });
      await syncAlone(configOf(desk));
      desk.wait(60_000);
      desk.asked();
      begun = true;
      const before = desk.sandbox.totals.credits;
      expect(await backfillAlone(configOf(desk), ['messages'], range(20, 40, true))).toMatchObject({ exitCode: 0 });
      expect(desk.asked()).toEqual(upFrom(20, 40).reverse());
      expect(desk.sandbox.totals.credits - before).toBe(40);
    },
  );

  test('after another one that ended by a clock that was ahead, reads all of it again', long, async () => {
    await using desk = await openDesk({ hours: 60 });
    await syncAlone(configOf(desk));
    const streams = ['tickets', 'messages'];
    const read = async () => {
      desk.wait(60_000);
      desk.listed();
      desk.asked();
      expect(await backfillAlone(configOf(desk), streams, range(20, 40, true))).toMatchObject({ state: 'completed' });
      return { listed: desk.listed(), asked: desk.asked() };
    };
    const first = await read();
    expect(first.asked).toEqual(upFrom(20, 40).reverse());
    await desk.db.pool.query(`update sync.stored_runs set finished_at = finished_at + interval '100 days' where again`);
    expect(await read()).toEqual(first);
  });

  test('for messages goes on after Ctrl-C, and pays for nothing a third time', long, async () => {
    await using desk = await openDesk({ hours: 80 });
    await syncAlone(configOf(desk));
    desk.wait(60_000);
    desk.asked();
    const { signal, interrupt } = interruption();
    let n = 0;
    desk.onRequest = () => {
      if (++n === 25) interrupt();
    };
    const first = await backfillAlone(configOf(desk), ['messages'], range(20, 70, true), signal);
    expect(first).toMatchObject({ state: 'interrupted', exitCode: 130 });
    desk.onRequest = () => {};
    const second = await backfillAlone(configOf(desk), ['messages'], range(20, 70, true));
    expect(second).toMatchObject({ run: first.run, state: 'completed', exitCode: 0 });
    expect(desk.asked()).toEqual(upFrom(20, 70).reverse());
  });

  test('for tickets goes on after Ctrl-C where it was', async () => {
    await using desk = await openDesk();
    await syncAlone(configOf(desk), ['tickets']);
    desk.wait(60_000);
    desk.listed();
    const { signal, interrupt } = interruption();
    let n = 0;
    desk.onRequest = () => {
      if (++n === 4) interrupt();
    };
    const first = await backfillAlone(configOf(desk), ['tickets'], range(0, 900, true), signal);
    expect(first).toMatchObject({ state: 'interrupted', exitCode: 130 });
    desk.onRequest = () => {};
    const second = await backfillAlone(configOf(desk), ['tickets'], range(0, 900, true));
    expect(second).toMatchObject({ run: first.run, state: 'completed' });
    const listed = desk.listed();
    // One page is asked for from the second in which the last one ended, as always.
    expect(listed).toEqual([...new Set(listed)]);
    expect(listed.length).toBeLessThanOrEqual(pagesOf(900) + 1);
  });

  /** One that is interrupted at its nth request. */
  const interrupted = async (desk: Desk, bounds: ReturnType<typeof range>, n: number) => {
    const { signal, interrupt } = interruption();
    desk.onRequest = () => {
      if (--n === 0) interrupt();
    };
    const result = await backfillAlone(configOf(desk), ['tickets'], bounds, signal);
    desk.onRequest = () => {};
    expect(result).toMatchObject({ state: 'interrupted' });
    return result;
  };

  test('for tickets goes on without what another one has read since', long, async () => {
    await using desk = await openDesk();
    await syncAlone(configOf(desk), ['tickets']);
    desk.wait(60_000);
    desk.listed();
    const { run } = await interrupted(desk, range(0, 900, true), 4);
    const here = desk.listed();
    await backfillAlone(configOf(desk), ['tickets'], range(500, 900, true));
    expect(Math.max(...here)).toBeLessThan(Math.min(...desk.listed()));
    expect(await backfillAlone(configOf(desk), ['tickets'], range(0, 900, true))).toMatchObject({ run });
    const rest = desk.listed();
    expect(rest.length).toBeGreaterThan(0);
    expect(Math.max(...rest)).toBeLessThan(500);
  });

  test('for tickets does not take for read what a retry has of the run that it tries again', long, async () => {
    await using desk = await openDesk();
    await syncAlone(configOf(desk), ['tickets']);
    desk.wait(60_000);
    const early = await interrupted(desk, range(0, 900, true), 6);
    const { run } = await interrupted(desk, range(0, 600, true), 1);
    const retry = await retryRun(
      desk.db.pool,
      { account: 'default', run: early.run, who: 'ada', opener: 0 },
      new Date(),
    );
    desk.listed();
    expect(await backfillAlone(configOf(desk), ['tickets'], range(0, 900, true))).toMatchObject({ run: retry });
    expect(Math.min(...desk.listed())).toBeGreaterThan(200);
    expect(await backfillAlone(configOf(desk), ['tickets'], range(0, 600, true))).toMatchObject({ run });
    expect(desk.listed().length).toBeGreaterThan(4);
  });

  test('for customers goes on after Ctrl-C where its walk was', long, async () => {
    await using desk = await openDesk();
    await syncAlone(configOf(desk), ['customers']);
    desk.wait(60_000);
    const begun = desk.sandbox.requests.length;
    const { signal, interrupt } = interruption();
    // In the midst of its pages.
    let pages = 0;
    desk.onRequest = ({ query }) => {
      if (query.get('per_page') === '100' && ++pages === 7) interrupt();
    };
    const stopped = await backfillAlone(configOf(desk), ['customers'], range(null, 900, true), signal);
    expect(stopped).toMatchObject({ state: 'interrupted' });
    desk.onRequest = () => {};
    const { run, exitCode } = await backfillAlone(configOf(desk), ['customers'], range(null, 900, true));
    expect([run, exitCode]).toEqual([stopped.run, 0]);
    const asked = desk.sandbox.requests.slice(begun).map(({ path, query }) => `${path}?${query}`);
    // A bounded walk asks for page 1 at its beginning as well.
    const twice = asked.filter((one, i) => asked.indexOf(one) < i && !one.includes('page=1&'));
    expect(twice).toEqual([]);
  });

  test('for customers a walk of another time is not gone on with', long, async () => {
    await using desk = await openDesk({ hours: 700 });
    await syncAlone(configOf(desk), ['customers']);
    await desk.db.pool.query(
      `insert into sync.walks (account_id, source, stream, list, until, since, as_of, page, deep)
       values ('default', 'helpdesk', 'customers', 'default', $1, '1970-01-01', $1, 2, false)`,
      [at(600)],
    );
    desk.sandbox.requests.length = 0;
    await backfillAlone(configOf(desk), ['customers'], range(null, 600, true));
    const pages = desk.sandbox.requests.map(({ query }) => Number(query.get('page')));
    expect(pages).toEqual(expect.arrayContaining([1, 2, 3, 4, 5, 6]));
    const { rows } = await desk.db.pool.query('select until from sync.walks');
    expect(rows).toEqual([]);
  });
});

describe('several at once', () => {
  /** Slow enough that the second one meets the first at work. */
  const slowly: SandboxOptions = { fault: () => ({ kind: 'delay', ms: 40 }) };

  test('that ask for the same follow one run', long, async () => {
    await using desk = await openDesk(slowly);
    const [one, other] = await Promise.all(
      [1, 2].map(() => backfillOnce(configOf(desk), ['tickets'], range(100, 900))),
    );
    expect(one).toMatchObject({ state: 'completed', exitCode: 0 });
    expect(other).toMatchObject({ run: one!.run, state: 'completed', exitCode: 0 });
    const listed = desk.listed();
    expect(listed.filter((_, i) => listed.indexOf(listed[i]!) !== i)).toEqual([]);
  });

  test('that overlap pay once', long, async () => {
    await using desk = await openDesk(slowly);
    const results = await Promise.all([
      backfillOnce(configOf(desk), ['tickets'], range(100, 600)),
      backfillOnce(configOf(desk), ['tickets'], range(300, 900)),
    ]);
    for (const result of results) expect(result).toMatchObject({ state: 'completed', exitCode: 0 });
    expect(results[0]!.run).not.toBe(results[1]!.run);
    // 800 hours in two parts: five or six pages, and four or two; 300 of them are asked for by both.
    const listed = desk.listed();
    expect(new Set(listed).size).toBe(listed.length);
    expect(listed.length).toBeLessThanOrEqual(11);
    const ids = await idsOf(desk, 'tickets');
    expect(upFrom(100, 900).filter(id => !ids.has(id))).toEqual([]);
  });

  test('with overlapping ranges and --again pay for messages once', long, async () => {
    // The first one is slow until the second one is there: a range that was read before a command came is read again for it.
    let both = true;
    await using desk = await openDesk({ hours: 100, fault: () => (both ? undefined : { kind: 'delay', ms: 400 }) });
    await syncAlone(configOf(desk));
    desk.wait(60_000);
    desk.asked();
    both = false;
    const running = [range(20, 90, true), range(50, 90, true)].map(one =>
      backfillOnce(configOf(desk), ['messages'], one),
    );
    await vi.waitUntil(async () => {
      const { rows } = await desk.db.pool.query(`select from sync.runs where state = 'running' and kind = 'backfill'`);
      return rows.length === 2;
    }, 20_000);
    both = true;
    const results = await Promise.all(running);
    for (const result of results) expect(result).toMatchObject({ state: 'completed', exitCode: 0 });
    const asked = desk.asked();
    expect(new Set(asked)).toEqual(new Set(upFrom(20, 90)));
    // A command whose own run is over may leave the other's to its worker, with two on their way.
    expect(asked.length).toBeLessThanOrEqual(70 + 2);
  });
});

describe('on the command line', () => {
  test.for([
    [['--since', '2024-02-31'], 'must be a day'],
    [['--since', 'yesterday'], 'must be a day'],
    [['--until', '2024-01-01T10:00'], 'must be a day'],
    [['--since', '2999-01-01'], 'It is in the future, where nothing has changed yet.'],
    [['--since', '2025-02-01', '--until', '2025-02-01'], '--since is not before --until'],
    [['--since', '2025-02-01', '--until', '2025-01-01'], '--since is not before --until'],
    [['nonsense'], 'there is no stream nonsense'],
  ] as const)('%j is an error of usage, before anything is opened', async ([args, said]) => {
    const config = configFor('postgres://nobody@127.0.0.1:1/none', { url: 'http://127.0.0.1:1/api/v1', token: 'none' });
    const { code, stderr, stdout } = await command(addBackfill, config, 'backfill', ...args).catch((error: Error) => {
      if (!(error instanceof CommanderError)) throw error;
      return { code: 2, stderr: error.message, stdout: '' };
    });
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(said);
  });

  test('--again without names leaves messages out; --json is one document', long, async () => {
    await using desk = await openDesk({ hours: 60 });
    await syncAlone(configOf(desk));
    desk.wait(60_000);
    desk.asked();
    const args = ['backfill', '--again', '--until', '2025-01-03', '--json'];
    const { code, stdout, stderr } = await ran(args, settingsFor(desk.db.url, desk.sandbox));
    expect(code, stderr).toBe(0);
    const result = JSON.parse(stdout);
    expect(result).toMatchObject({ state: 'completed', exitCode: 0 });
    expect(result.streams.map(({ stream }: { stream: string }) => stream)).toEqual(['users', 'customers', 'tickets']);
    expect(desk.asked()).toEqual([]);
  });

  test('sync --ticket reads one ticket again, also what changed in it, and no other', long, async () => {
    await using desk = await openDesk({ hours: 40 });
    await syncAlone(configOf(desk));
    desk.wait(60_000);
    const id = upFrom(20, 21)[0]!;
    const { number } = desk.world.tickets.get(id)!;
    desk.world.patchTicket(id, { subject: 'Changed in silence' }, { quiet: true });
    desk.asked();
    const done = await ran(['sync', '--ticket', String(number), '--json'], settingsFor(desk.db.url, desk.sandbox));
    expect(done.code, done.stderr).toBe(0);
    expect(JSON.parse(done.stdout)).toMatchObject({
      state: 'completed',
      streams: [{ stream: 'messages', credits: 2 }],
    });
    expect(desk.asked()).toEqual([id]);
    const { rows } = await desk.db.pool.query('select subject from helpdesk.tickets where id = $1', [id]);
    expect(rows).toEqual([{ subject: 'Changed in silence' }]);

    const unknown = await command(addSync, configOf(desk), 'sync', '--ticket', '999999');
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('there is no ticket 999999 here')]);
    expect((await command(addSync, configOf(desk), 'sync', 'users', '--ticket', id)).code).toBe(2);
  });

  test('Ctrl-C ends it with 130, and the same command resumes', long, async () => {
    await using desk = await openDesk({ fault: () => ({ kind: 'delay', ms: 30 }) });
    const env = settingsFor(desk.db.url, desk.sandbox);
    const command = ['backfill', 'tickets', '--until', at(900).toISOString()];
    const first = shelfdesk(command, env);
    desk.onRequest = (_request, n) => {
      if (n === 4) first.process.kill('SIGINT');
    };
    const stopped = await first.finished;
    expect(stopped.code, stopped.stderr).toBe(130);
    expect(stopped.stderr).toContain('Run the same command again');
    const second = await shelfdesk(command, env).finished;
    expect(second.code, second.stderr).toBe(0);
    const listed = desk.listed();
    expect(new Set(listed).size).toBe(listed.length);
    expect((await desk.covered('tickets')).map(([, to]) => to)).toEqual([900]);
  });
});
