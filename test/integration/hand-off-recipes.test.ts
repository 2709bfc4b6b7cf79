/**
 * The recipes of examples/after-a-hand-off, without the orchestrators that run them: Python reads them, and what they ask the warehouse
 * finds the certificate, lets a complete load pass, and stops at a gap that was found since.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { keepHandOffSettings } from '../../src/engine/runs/hand-offs.ts';
import { root } from '../support/docker.ts';
import type {} from '../support/python.ts';
import { letReaderIn } from '../support/readers.ts';
import { at, iso, scripted } from '../support/scripted.ts';

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

test('their SQL finds the certificate of a complete load, and stops at a gap', async () => {
  const flow = parse(recipe('kestra_flow.yaml')) as { tasks: { sql?: string }[] };
  const kestra = flow.tasks[0]!.sql!.replace(':id', '$1');
  const [dagster, airflow] = ['dagster_sensor.py', 'airflow_dag.py'].map(name => sqlOf(name, 'CERTIFICATE'));
  const stillComplete = sqlOf('airflow_dag.py', 'STILL_COMPLETE');
  expect(sqlOf('dagster_sensor.py', 'STILL_COMPLETE')).toBe(stillComplete);

  await using s = await scripted({ lookbackMs: 1000 });
  await s.rows(`update sync.accounts set lookback = '1 s'`);
  const runs = { channels: ['webhook'], notify: null, runs: ['sync'], rejectsAllowed: 0 } as const;
  const settings = { ...runs, dueWithinMs: null, dueBy: null, timeZone: 'UTC' };
  await keepHandOffSettings(s.pool, 'default', settings, at(0), true);
  await using reader = await letReaderIn(s, { pii: true });
  expect(await reader.rows(dagster!, 'default')).toEqual([]);
  await expect(reader.rows(kestra, 'handoff_unknown')).rejects.toThrow('was asked about nothing');

  // The tenth is the newest one, by its number and not by its name.
  for (let run = 1; run <= 10; run++) {
    s.goTo(90 + run);
    await s.sync('tickets');
  }
  const [{ id }] = (await s.rows(
    `select certificate ->> 'id' as id from sync.hand_offs where run_id = 10 and issued_at is not null`,
  )) as [{ id: string }];
  const through = at(98).toISOString();
  expect(await reader.rows(dagster!, 'default')).toEqual([{ id, complete_through: through }]);
  expect(await reader.rows(airflow!, 'default', at(100))).toHaveLength(1);
  expect(await reader.rows(airflow!, 'default', at(101))).toEqual([]);
  expect(await reader.rows(kestra, id)).toEqual([{ complete_through: through, streams: 1 }]);
  expect(await reader.rows(stillComplete, id)).toEqual([{ require_complete: at(98) }]);

  await s.rows(`update sync.coverage set covered = covered - tstzmultirange(tstzrange('${iso(50)}', '${iso(51)}'))`);
  for (const sql of [kestra, stillComplete])
    await expect(reader.rows(sql, id)).rejects.toThrow(/^helpdesk\.tickets .* is complete through /);
});
