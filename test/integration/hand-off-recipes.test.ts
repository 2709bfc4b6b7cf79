/**
 * The recipes of examples/after-a-hand-off, without the orchestrators that run them: Python reads them, and what they ask the warehouse
 * finds the certificate of all streams that a build reads, lets a complete load pass, and stops at a gap that was found since.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { syncList } from '../../src/engine/load/list-loop.ts';
import { runStream } from '../../src/engine/load/run-stream.ts';
import { keepHandOffSettings } from '../../src/engine/runs/hand-offs.ts';
import { streams } from '../../src/sources/index.ts';
import { root } from '../support/docker.ts';
import type {} from '../support/python.ts';
import { letReaderIn } from '../support/readers.ts';
import { at, iso, open, type Scripted, scripted } from '../support/scripted.ts';
import { deskLists } from '../support/sources.ts';

const recipe = (name: string): string => readFileSync(join(root, 'examples/after-a-hand-off', name), 'utf8');

/** A statement of a recipe in Python, with the parameters of PostgreSQL. */
function sqlOf(name: string, constant: string): string {
  const [, sql] = new RegExp(`^${constant} = """\n([^"]*)"""$`, 'm').exec(recipe(name))!;
  let n = 0;
  return sql!.replaceAll('%s', () => `$${++n}`);
}

test.for(['airflow_dag.py', 'dagster_sensor.py'])('Python reads %s', (name, context) => {
  const read = spawnSync('python3', ['-c', 'import ast, sys; ast.parse(sys.stdin.read())'], { input: recipe(name) });
  if (read.error) {
    context.task.meta.lacksPython = true;
    context.skip('there is no python3');
  }
  expect(String(read.stderr)).toBe('');
});

test('STREAMS names streams that there are, the same in each', () => {
  const [airflow, dagster] = ['airflow_dag.py', 'dagster_sensor.py'].map(
    name => /^STREAMS = (\[[^\]]+\])$/m.exec(recipe(name))![1]!,
  );
  expect(dagster).toBe(airflow);
  const named: string[] = JSON.parse(airflow!);
  expect(named.filter(name => !streams.some(({ key }) => key === name))).toEqual([]);
  const flow = parse(recipe('kestra_flow.yaml')) as { variables: { streams: string } };
  expect(flow.variables.streams.split(',')).toEqual(named);
});

test('their SQL finds the certificate of a complete load of all streams, and stops at a gap', async () => {
  const flow = parse(recipe('kestra_flow.yaml')) as { tasks: { sql?: string }[] };
  const kestra = flow.tasks[0]!.sql!.replaceAll(':id', '$1').replaceAll(':streams', '$2');
  const [dagster, airflow] = ['dagster_sensor.py', 'airflow_dag.py'].map(name => sqlOf(name, 'CERTIFICATE'));
  const stillComplete = sqlOf('airflow_dag.py', 'STILL_COMPLETE');
  expect(sqlOf('dagster_sensor.py', 'STILL_COMPLETE')).toBe(stillComplete);

  await using s = await scripted({ lookbackMs: 1000 });
  await s.rows(`update sync.accounts set lookback = '1 s'`);
  const runs = { channels: ['webhook'], notify: null, runs: ['sync'], rejectsAllowed: 0 } as const;
  const settings = { ...runs, dueWithinMs: null, dueBy: null, timeZone: 'UTC' };
  await keepHandOffSettings(s.pool, 'default', settings, at(0), true);
  await using reader = await letReaderIn(s, { pii: true });
  const needs = ['helpdesk.tickets', 'helpdesk.users'];
  const newest = () => reader.rows(dagster!, 'default', needs);
  const unbuilt = (built: string | null) => reader.rows(airflow!, 'default', needs, built);
  const ofKestra = (id: string) => reader.rows(kestra, id, needs.join());
  const certificateOf = async (run: number) => {
    const rows = await s.rows(
      `select certificate ->> 'id' as id from sync.hand_offs where run_id = $1 and issued_at is not null`,
      run,
    );
    return (rows as [{ id: string }])[0].id;
  };
  expect(await newest()).toEqual([]);
  expect(await unbuilt(null)).toEqual([]);
  await expect(ofKestra('handoff_unknown')).rejects.toThrow('was asked about nothing');
  await expect(reader.rows(stillComplete, 'handoff_unknown', needs)).rejects.toThrow('was asked about nothing');

  s.goTo(90);
  await s.sync('users');
  expect(await newest()).toEqual([]);
  expect(await unbuilt(null)).toEqual([]);
  const ofUsers = await certificateOf(1);
  expect(await ofKestra(ofUsers)).toEqual([{ complete_through: null, builds: false }]);
  await expect(reader.rows(stillComplete, ofUsers, needs)).rejects.toThrow('was asked about nothing');

  // The tenth is the newest one, by its number and not by its name.
  for (let run = 2; run <= 10; run++) {
    s.goTo(90 + run);
    await loadAll(s, ['tickets', 'users']);
  }
  const [before, id, through] = [await certificateOf(9), await certificateOf(10), at(98).toISOString()];
  // A later one of users alone is not in their way.
  s.goTo(101);
  await s.sync('users');
  expect(await newest()).toEqual([{ id, complete_through: through }]);
  for (const built of [null, before, 'handoff_forgotten'])
    expect(await unbuilt(built)).toEqual([{ id, complete_through: through }]);
  expect(await unbuilt(id)).toEqual([]);
  expect(await ofKestra(id)).toEqual([{ complete_through: through, builds: true }]);
  expect(await reader.rows(stillComplete, id, needs)).toEqual([
    { require_complete: at(98) },
    { require_complete: at(100) },
  ]);

  await s.rows(
    `update sync.coverage set covered = covered - tstzmultirange(tstzrange('${iso(50)}', '${iso(51)}')) where stream = 'tickets'`,
  );
  for (const asked of [ofKestra(id), reader.rows(stillComplete, id, needs)])
    await expect(asked).rejects.toThrow(/^helpdesk\.tickets .* is complete through /);
});

/** One run of several streams. */
async function loadAll({ ctx, pool }: Scripted, names: readonly string[]): Promise<void> {
  const run = await open(pool, names, new Date(ctx.clock.now()));
  for (const list of deskLists.filter(({ name }) => names.includes(name)))
    await runStream(
      ctx,
      { account: 'default', run, stream: list.key },
      { read: (job, claim) => syncList(job, claim, list), isDone: async () => undefined },
    );
}
