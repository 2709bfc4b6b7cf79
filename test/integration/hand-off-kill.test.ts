/**
 * Real processes, killed between the commit of a hand-off and its delivery: none is missing, none is sent with a gap, doubles
 * carry one id. A notification of PostgreSQL tells the test of the commit before the process sends.
 */
import pg from 'pg';
import { expect, test } from 'vitest';
import { startSandbox } from '../../packages/sandbox/src/server.ts';
import { settingsFor, shelfdesk } from '../support/cli.ts';
import { eventually } from '../support/desk.ts';
import { long, proof } from '../support/long.ts';
import { noSandboxLimits } from '../support/mirror.ts';
import { freshDatabase } from '../support/postgres.ts';
import { openReceiver } from '../support/receiver.ts';

/** When a process is killed. */
const moments = ['committed', 'asked', 'answered'] as const;
type Moment = (typeof moments)[number];

const gap = `tstzmultirange(tstzrange('2020-01-01', '2020-01-02'))`;

async function kill(times: number): Promise<void> {
  await using db = await freshDatabase();
  const sandbox = await startSandbox({ ...noSandboxLimits, tickets: 3 });
  let moment: Moment | undefined;
  let victim = () => {};
  const strike = (now: Moment) => {
    if (moment !== now) return;
    moment = undefined;
    victim();
  };
  let answers = 0;
  await using receiver = await openReceiver(to => {
    const dies = moment === 'asked';
    strike('asked');
    if (dies) {
      // It is lost here: only an answer says that it was taken.
      receiver.got.pop();
      return void to.destroy();
    }
    // It takes each hand-off, and now and then says that it has not.
    answers++;
    to.writeHead(answers % 3 === 0 ? 500 : 204).end(() => strike('answered'));
  });
  const listener = new pg.Client({ connectionString: db.url });
  await listener.connect();
  listener.on('notification', () => strike('committed'));
  await listener.query('listen load_done');
  const env = {
    ...{ ...settingsFor(db.url, sandbox), ...receiver.env, HANDOFF_NOTIFY: 'load_done', HANDOFF_RUNS: 'sync fresh' },
    ...{ SCHEDULE_FRESH: '* * * * * *', SCHEDULE_NIGHTLY: '' },
  };
  const rows = async (sql: string) => (await db.pool.query<Record<string, number>>(sql)).rows;
  // A failed attempt is repeated by the next process, and not only when it is due.
  const due = () => rows(`update sync.hand_off_deliveries set next_try_at = '2026-01-01' where delivered_at is null`);
  const cover = (how: '+' | '-') =>
    rows(`update sync.coverage set covered = covered ${how} ${gap} where stream = 'tickets' and list = 'default'`);
  let [gaps, syncs] = [0, 0];
  try {
    for (let n = 0; n < times; n++) {
      const args = n % 4 === 3 ? ['start'] : ['sync', 'tickets'];
      moment = moments[n % moments.length]!;
      const running = shelfdesk(args, env);
      if (args[0] === 'sync') syncs++;
      victim = () => void running.process.kill('SIGKILL');
      const { signal, stderr } = await running.finished;
      expect(signal, `${n}: ${stderr}`).toBe('SIGKILL');
      await due();
      if (n % 5 !== 2) continue;
      await cover('-');
      gaps++;
      const { code } = await shelfdesk(['sync', 'tickets'], env).finished;
      expect(code).toBe(0);
      await cover('+');
      await due();
    }
    await eventually(async () => {
      await due();
      await shelfdesk(['hand-off', 'send'], env).finished;
      expect(await rows('select hand_off_id from sync.hand_off_deliveries where delivered_at is null')).toEqual([]);
    });
    const [issued, withheld] = [
      (await rows('select run_id::int as run from sync.hand_offs where certificate is not null order by id')).map(
        ({ run }) => run,
      ),
      (await rows('select run_id::int as run from sync.hand_offs where withheld is not null')).map(({ run }) => run),
    ];
    const got = receiver.got.map(({ message: { data } }) => data.run as number);
    // In their order, none missing, and none with a gap.
    expect([...new Set(got)]).toEqual(issued);
    // Each `sync` was killed after its commit. A worker may be killed while it sends what another one has left.
    expect(issued.length).toBeGreaterThanOrEqual(syncs);
    expect(withheld.length).toBeGreaterThanOrEqual(gaps);
    for (const { message } of receiver.got)
      for (const { gaps: many } of message.data.streams as { gaps: number }[]) expect(many).toBe(0);
    // Every run that ended well is told, or it says why not.
    const ended = await rows(
      `select id::int as run from sync.stored_runs
       where kind in ('sync', 'fresh') and state in ('completed', 'partial') order by id`,
    );
    expect([...issued, ...withheld].sort((a, b) => a! - b!)).toEqual(ended.map(({ run }) => run));
    // Doubles are the same message.
    expect(got.length).toBeGreaterThan(issued.length);
    expect(new Set(receiver.got.map(({ id, body }) => `${id} ${body}`)).size).toBe(issued.length);
    expect(receiver.forged).toEqual([]);
  } finally {
    await listener.end();
    await sandbox.close();
  }
}

test('4 times killed between commit and delivery', long, () => kill(4));
test('30 times', proof, () => kill(30));
