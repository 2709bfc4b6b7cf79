/**
 * Tickets that the source dates ahead of its clock. Their next changes, dated right, are stored, whatever copy of the source
 * answers; and no moment claims one that is not stored.
 */
import { describe, expect, test } from 'vitest';
import { type InProcess, inProcess } from '../support/in-process.ts';
import { amount, long } from '../support/long.ts';
import { differences } from '../support/mirror.ts';

const secondMs = 1000;
const minuteMs = 60 * secondMs;

/** No ticket of before `complete_through` differs from the source. */
async function holds(s: InProcess): Promise<void> {
  const [{ at } = { at: null }] = await s.rows(`select sync.complete_through('default', 'tickets') as at`);
  const through = (at as Date | null)?.getTime() ?? 0;
  const rows = await s.rows('select id, updated_at, subject from helpdesk.tickets');
  const mirrored = new Map(rows.map(row => [row.id, row]));
  for (const { id, updated_at, subject } of s.world.tickets.values()) {
    if (Date.parse(updated_at) >= through) continue;
    expect(mirrored.get(id), `${id}, complete through ${new Date(through).toISOString()}`).toEqual({
      id,
      updated_at: new Date(updated_at),
      subject,
    });
  }
}

/** Changes a ticket; the source dates the change `aheadMs` ahead. Nobody reads the source meanwhile. */
function change(s: InProcess, id: string, aheadMs = 0): void {
  s.world.clock.jump(aheadMs);
  s.world.patchTicket(id, { subject: `${id} at ${s.nowMs}` });
  s.world.addMessage(id, { body: `at ${s.nowMs}` });
  s.world.clock.jump(-aheadMs);
}

async function read(s: InProcess, kinds = ['tickets']): Promise<void> {
  await s.run('sync', kinds);
  await holds(s);
}

interface Story {
  readonly lookbackMs: number;
  readonly aheadMs: number;
  /** From the reading of the ticket that is dated ahead to its next change; undefined: that is made before the reading, whose copy does not have it. */
  readonly afterMs?: number;
  /** The replies of the first reading, and of those after the change: how old the copy is that answers. */
  readonly lagMs: readonly [number, number];
}

const lag = (seconds: number) => [{ fault: { kind: 'lag' as const, seconds } }];

async function tell({ lookbackMs, aheadMs, afterMs, lagMs: [firstLagMs, laterLagMs] }: Story): Promise<void> {
  await using s = await inProcess({ tickets: 12, customers: 4, seed: 5, lookbackMs });
  await s.pool.query(`update sync.accounts set lookback = $1 * interval '1 millisecond'`, [lookbackMs]);
  s.rules.set(lag(0.001) as never);
  await s.sync();
  s.nowMs += 10 * minuteMs;
  await read(s);
  const [id, other] = [...s.world.tickets.keys()] as [string, string];

  change(s, id, aheadMs);
  if (afterMs === undefined) {
    s.nowMs += 2 * secondMs;
    change(s, id);
    s.nowMs += firstLagMs - secondMs;
  } else s.nowMs += firstLagMs;
  s.rules.set(lag(Math.max(1, firstLagMs) / 1000) as never);
  await read(s, ['tickets', 'messages']);
  if (afterMs !== undefined) {
    s.nowMs += afterMs;
    change(s, id);
  }
  change(s, other);
  s.rules.set(lag(Math.max(1, laterLagMs) / 1000) as never);
  await read(s);
  s.rules.set(lag(0.001) as never);
  // Often, as a schedule would: coverage passes the change in small steps.
  for (let ms = 0; ms < 2 * lookbackMs + 10 * secondMs; ms += lookbackMs / 3) {
    await read(s, ['tickets', 'messages']);
    s.nowMs += lookbackMs / 3;
  }
  // While the date of the ticket that was dated ahead is still to come, and when it is over.
  await read(s, ['tickets', 'messages']);
  expect(await differences(s.pool, s.world)).toEqual([]);
  s.nowMs += aheadMs + 3 * lookbackMs;
  await read(s, ['tickets', 'messages']);
  expect(await differences(s.pool, s.world)).toEqual([]);
  expect(await s.rows('select * from sync.ties where held')).toEqual([]);
}

const story = (lookback: number, ahead: number) => ({ lookbackMs: lookback * secondMs, aheadMs: ahead * secondMs });
const fresh = [0, 0] as const;

test.for([
  [5, 1],
  [120, 30],
] as const)(
  'a lookback of %d s, a ticket dated %d s ahead: its next change comes in the same second',
  ([lookback, ahead]) => tell({ ...story(lookback, ahead), afterMs: 0, lagMs: fresh }),
);

test('its next change comes before it is read, and the copy that answers does not have that change', () =>
  tell({ ...story(120, 300), lagMs: [115 * secondMs, 0] }));

const aheads = [1, 30, 90, 300, 1800, 3660];

describe.for([5, 120])('a lookback of %d s', lookback => {
  test.for(aheads)('a ticket dated %d s ahead', long, async ahead => {
    const most = (lookback - 1) * secondMs;
    const stories = [0, 20 * secondMs].flatMap(afterMs =>
      ([fresh, [most, 0], [0, most]] as const).map(lagMs => ({ afterMs, lagMs })),
    );
    // In CI one of each six, and another one for each time ahead.
    for (const [n, how] of stories.entries())
      if ((n - aheads.indexOf(ahead)) % amount(1, stories.length) === 0)
        await tell({ ...story(lookback, ahead), ...how });
    await tell({ ...story(lookback, ahead), lagMs: [most - 2 * secondMs, 0] });
  });
});
