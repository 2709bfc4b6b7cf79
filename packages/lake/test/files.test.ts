/** Who reads the listed files as `lake files` says has the rows of that snapshot, also after files were joined and cleared. */
import { expect, test } from 'vitest';
import { type FilesOfTable, listFiles } from '../../../src/lake/files.ts';
import type { Lake } from '../../../src/lake/package.ts';
import { eraseCustomer } from '../../../src/privacy/erasures.ts';
import { streams } from '../../../src/sources/index.ts';
import { inProcess } from '../../../test/support/in-process.ts';
import { makeRng } from '../../sandbox/src/random.ts';
import { tidy } from '../src/tidy.ts';
import { describeLongOnLake } from './support/lake.ts';
import { lakeBeside } from './support/lake-beside.ts';

const tables = ['helpdesk.tickets', 'safe.messages', 'helpdesk.contacts', 'analytics.ticket_metrics'];

/** SQL without DuckLake: the rows of the data files, without the places that the delete files name. */
function plain({ files }: FilesOfTable, columns: string): string {
  const read = (paths: readonly string[]) =>
    `(select *, parse_filename(filename) as file from read_parquet([${paths.map(path => `'${path}'`).join(', ')}],
       filename = true, file_row_number = true, union_by_name = true, hive_partitioning = false)
       union all by name select null::bigint as _ducklake_internal_snapshot_id where false)`;
  const deletes = files.filter(file => file.deletes !== null);
  const upTo = files.find(file => file.upTo !== null)?.upTo;
  // Not each file has the column.
  const counts = (alias: string) =>
    upTo === undefined ? 'true' : `coalesce(${alias}._ducklake_internal_snapshot_id, 0) <= ${upTo}`;
  const pairs = deletes.map(file => `(parse_filename('${file.path}'), parse_filename('${file.deletes}'))`);
  const gone =
    deletes.length === 0
      ? ''
      : `and not exists (select 1 from (values ${pairs.join(', ')}) p (data, deletes)
           join ${read(deletes.map(file => file.deletes!))} d on d.file = p.deletes
           where p.data = r.file and d.pos = r.file_row_number and ${counts('d')})`;
  return `select ${columns} from ${read(files.map(({ path }) => path))} r where ${counts('r')} ${gone}`;
}

async function columnsOf(lake: Lake, table: string): Promise<string> {
  const found = await lake.rows<{ column_name: string }>(`describe select * from lake.${table}`);
  return found.map(({ column_name }) => `"${column_name}"`).join(', ');
}

await describeLongOnLake('the files of a snapshot', () => {
  test('have its rows', async () => {
    const rng = makeRng(8);
    await using s = await inProcess({ tickets: 30, seed: 5 });
    await s.sync();
    await using beside = await lakeBeside(s.url, { only: tables });
    await beside.export();
    for (let step = 0; step < 3; step++) {
      for (let i = 0; i < 8; i++) s.world.mutate(rng);
      s.nowMs += 300_000;
      await s.sync();
      await beside.export();
    }
    const [one] = await s.rows(
      'select customer_id as id from helpdesk.tickets where customer_id is not null order by id limit 1',
    );
    const erasure = { account: 'default', customer: String(one!.id), who: 'test', withShared: true, streams };
    await eraseCustomer(s.pool, erasure, new Date(s.nowMs));
    await beside.export();
    const seen = { deletes: 0, joined: 0 };
    for (const isTidied of [false, true]) {
      if (isTidied) await tidy(beside.lake, 30);
      const snapshots = await beside.lake.rows<{ id: number }>(
        'select snapshot_id::int as id from lake.snapshots() where snapshot_id > 0 order by 1',
      );
      for (const { id } of snapshots) {
        const listed = await listFiles(s.pool, { snapshot: id, tables });
        expect(listed.tables.map(({ table }) => table).sort()).toEqual([...tables].sort());
        for (const one of listed.tables) {
          const columns = await columnsOf(beside.lake, one.table);
          const wanted = `select ${columns} from lake.${one.table} at (version => ${id})`;
          const got = plain(one, columns);
          const [differing] = await beside.lake.rows<{ n: number }>(
            `select (select count(*) from (${wanted} except all ${got}))::int + (select count(*) from (${got} except all ${wanted}))::int as n`,
          );
          expect(differing, `${one.table} at ${id}`).toEqual({ n: 0 });
          seen.deletes += one.files.filter(({ deletes }) => deletes !== null).length;
          seen.joined += one.files.filter(({ upTo }) => upTo !== null).length;
        }
      }
    }
    expect(seen.deletes).toBeGreaterThan(0);
    expect(seen.joined).toBeGreaterThan(0);
    await expect(listFiles(s.pool, { snapshot: 999 })).rejects.toThrow('no snapshot 999');
    await expect(listFiles(s.pool, { tables: ['safe.nothing'] })).rejects.toThrow('no table safe.nothing');
  });
});
