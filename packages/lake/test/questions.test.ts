/** What `lake sql` answers, and what it refuses: it reads the lake, and nothing else. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { lakePackage } from '../../../src/lake/package.ts';
import { inProcess } from '../../../test/support/in-process.ts';
import { describeOnLake } from './support/lake.ts';
import { lakeBeside } from './support/lake-beside.ts';

const contentOf = async (path: string): Promise<Record<string, string>> =>
  Object.fromEntries(
    await Promise.all(
      (await readdir(path, { recursive: true, withFileTypes: true }))
        .filter(one => one.isFile())
        .map(async one => {
          const file = join(one.parentPath, one.name);
          return [file, (await readFile(file)).toString('hex')] as const;
        }),
    ),
  );

await describeOnLake('questions to the lake', () => {
  test('read it, and reach no other table, file or setting', async () => {
    await using s = await inProcess({ tickets: 12, seed: 3 });
    await s.sync();
    await using beside = await lakeBeside(s.url, { personal: false });
    await beside.export();
    // Files that the catalog has scheduled for deletion.
    await s.rows(`delete from sync.lake_pending`);
    await beside.lake.run(
      `delete from lake.safe.users; insert into lake.safe.users from lake.safe.users at (version => 1)`,
    );
    await beside.lake.run(`call ducklake_expire_snapshots('lake', older_than => now())`);
    const scheduled = 'select count(*)::int as n from lake.ducklake_files_scheduled_for_deletion';
    const [files, [pending]] = [await contentOf(beside.place.path), await s.rows(scheduled)];
    expect(pending!.n).toBeGreaterThan(0);
    const tables = async () =>
      s.rows(
        `select (select count(*) from helpdesk.tickets) as tickets, (select count(*) from lake.ducklake_snapshot) as snapshots`,
      );
    const before = await tables();

    const { openForQuestions, askOnce } = await lakePackage();
    await using lake = await openForQuestions(s.url, beside.place);
    await lake.run('use lake');
    const ask = (question: string) => askOnce(lake, question);
    const refusal = (question: string) =>
      ask(question).then(
        () => 'answered',
        (error: Error) => `${error.name}: ${error.message.split('\n')[0]}`,
      );

    for (const good of [
      'select count(*) from safe.tickets',
      'with t as (from safe.tickets) select state, count(*) from t group by 1',
      'from lake.snapshots()',
      'describe safe.tickets',
      'show tables',
      'from analytics.tickets_as_of(now())',
      'select unnest([1, 2])',
      'from safe.users at (timestamp => now())',
    ])
      expect(await refusal(good), good).toBe('answered');

    const folder = beside.place.path;
    const written = `${folder}/written.parquet`;
    for (const [question, says] of [
      [`call postgres_execute('warehouse', 'commit; delete from helpdesk.tickets')`, 'runs one select'],
      [`from postgres_query('__ducklake_metadata_lake', 'select first_name from helpdesk.users')`, 'postgres_query'],
      [`select * from (select 1) a, lateral postgres_query('x', 'select 1')`, 'postgres_query'],
      [`select (select count(*) from postgres_scan('x', 'helpdesk', 'users'))`, 'postgres_scan'],
      [`from query('from read_text(''/etc/passwd'')')`, 'function query'],
      ['select 1; select 2', 'runs one select'],
      [`copy (select 1) to '${written}'`, 'runs one select'],
      [`attach ':memory:' as other`, 'runs one select'],
      [`load postgres_scanner`, 'runs one select'],
      [`set enable_external_access = true`, 'runs one select'],
      [`explain analyze delete from safe.tickets`, 'runs one select'],
      [`from read_text('/etc/passwd')`, 'read_text'],
      [`from '/etc/passwd'`, 'Catalog Error'],
      [`from '/etc/passwd.parquet'`, 'file system operations are disabled'],
      [`from '${folder}/../passwd.parquet'`, 'file system operations are disabled'],
      [`from enable_logging(storage = 'file', storage_config = {'path': '${folder}/log'})`, 'enable_logging'],
      [`from ducklake_cleanup_old_files('lake', cleanup_all => true)`, 'ducklake_cleanup_old_files'],
      [`from LAKE.Merge_Adjacent_Files()`, 'merge_adjacent_files'],
      ['selec 1', 'syntax error'],
      ['', 'runs one select'],
    ] as const)
      expect(await refusal(question), question).toContain(says);

    expect(await tables()).toEqual(before);
    expect(await s.rows(scheduled)).toEqual([pending]);
    // The session itself has no way out, whatever is asked of it.
    const direct = (sql: string) =>
      lake.run(sql).then(
        () => 'done',
        (error: Error) => error.message,
      );
    expect(await direct(`select * from postgres_query('warehouse', 'select 1')`)).not.toBe('done');
    expect(await direct(`load postgres_scanner`)).toContain('disabled');
    expect(await direct(`set allowed_directories = ['/']`)).toContain('locked');
    expect(await direct(`from read_text('/etc/passwd')`)).toContain('disabled');
    await direct(`call ducklake_cleanup_old_files('lake', cleanup_all => true)`);
    await direct(`call ducklake_delete_orphaned_files('lake', cleanup_all => true)`);
    await direct(`delete from safe.tickets`);
    expect(await contentOf(folder)).toEqual(files);
    expect(await tables()).toEqual(before);
  });
});
