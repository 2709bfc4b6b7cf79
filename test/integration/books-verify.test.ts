/** `verify` of the catalog: every column that a hand has made wrong is found, named and mended; what varies is no difference. */
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { auditStream } from '../../jobs/audit-stream.ts';
import { openContext } from '../../src/app/open-context.ts';
import type { JobContext } from '../../src/engine/context.ts';
import { openWaiting } from '../../src/engine/queue/reconcile.ts';
import { readProgress } from '../../src/engine/runs/runs.ts';
import { addShelf, type Catalog, openCatalog } from '../support/books.ts';
import { long } from '../support/long.ts';
import { verifyOnce } from '../support/mirror.ts';
import { columnsOf, spoil } from '../support/spoil.ts';

const hourMs = 3_600_000;

/** As many as a table of theirs has columns. */
const many = 16;

const letterOf = (n: number) => String.fromCharCode(97 + n);

/** Ada's shelves with three volumes each, read by sync. */
async function mirrored(shelves = 3): Promise<Catalog> {
  const catalog = await openCatalog({});
  for (let n = 1; n <= shelves; n++) addShelf(catalog.world, 'ada', 1000 + n, 3, letterOf(n - 1));
  catalog.pass();
  expect((await catalog.sync()).exitCode).toBe(0);
  catalog.pass();
  return catalog;
}

/** What no reading can tell, each with its reason. */
const untold: Record<string, string> = {
  account_id: "the row of another account is that account's: here it is missing, as one that was deleted is",
  _first_seen_at: 'when the row was first written here: nothing else knows',
  _waits_since: 'a mark of work: who verifies reads the volume, and clears it',
};

test('a mirror of the catalog that is right has no differences, though links, etags and totals vary', async () => {
  await using catalog = await mirrored();
  for (const sample of [null, 10]) {
    const result = await verifyOnce(catalog.config(), { sample, repair: true });
    expect({ differences: result.differences, exitCode: result.exitCode }).toEqual({ differences: [], exitCode: 0 });
    expect(Math.abs(result.credits - result.forecast.credits)).toBeLessThanOrEqual(3);
  }
  const random = `select stream, count(*)::int as n from sync.audit where random and differences is null and not unread group by 1 order by 1`;
  expect(await catalog.rows(random)).toEqual([
    { stream: 'shelves', n: 3 },
    { stream: 'volumes', n: 9 },
  ]);
  await catalog.rows('update sync.audit set checked_at = now()');
  const status = await catalog.rows(
    `select stream, differ_at_most_percent is not null as proven from sync.status order by 1`,
  );
  expect(status).toEqual([
    { stream: 'shelves', proven: true },
    { stream: 'volumes', proven: true },
  ]);
});

test.for(['books.shelves', 'books.shelf_volumes', 'books.volumes'])(
  'verify finds and repairs each wrong column of %s',
  long,
  async table => {
    await using catalog = await mirrored(many);
    const columns = (await columnsOf(catalog.pool, table)).filter(({ name }) => !(name in untold));
    const spoiled = await spoil(catalog.pool, table, columns);
    const { differences } = await verifyOnce(catalog.config(), { repair: true });
    const fields = differences.map(({ field }) => field.replace('shelf_volumes.', ''));
    expect(spoiled.fields.filter(field => !fields.includes(field))).toEqual([]);
    expect(differences.filter(one => !one.repaired)).toEqual([]);
    expect(await spoiled.left()).toEqual([]);
    expect((await verifyOnce(catalog.config())).differences).toEqual([]);
    expect(await catalog.differences()).toEqual([]);
  },
);

/** Wrong values, each of another row, and how each row is found. */
const wrong = {
  shelves: [
    `volumes_last_updated_at = volumes_last_updated_at + interval '1 day'`,
    `volumes_last_updated_at = volumes_last_updated_at - interval '1 day'`,
    'volumes_last_updated_at = null',
    `updated_at = '2001-01-01'`,
    `created_at = null`,
    `title = 'spoiled'`,
    'volume_count = volume_count + 1',
  ].map((set, n) => `update books.shelves set ${set} where id = '${1001 + n}'`),
  others: [
    `update books.volumes set title = 'spoiled' where id = 'h0'`,
    `update books.volumes set title = 'spoiled', _waits_since = _observed_at where id = 'i0'`,
    `update books.shelf_volumes set position = position + 10 where volume_id = 'j0'`,
  ],
};
const everyWrong = [...wrong.shelves, ...wrong.others];

/** Shelves that were edited just before they were read: their times are later than `_observed_at`, which is held back. */
async function justEdited(): Promise<Catalog> {
  const catalog = await openCatalog({});
  for (let n = 0; n < everyWrong.length; n++) addShelf(catalog.world, 'ada', 1001 + n, 2, letterOf(n));
  expect((await catalog.sync()).exitCode).toBe(0);
  const ahead = await catalog.rows('select from books.shelves where volumes_last_updated_at > _observed_at');
  expect(ahead).toHaveLength(everyWrong.length);
  return catalog;
}

const kept = (catalog: Catalog) =>
  catalog.rows(`select to_jsonb(s) - '{_synced_at,_observed_at}'::text[] as row from books.shelves s
    union all select to_jsonb(v) - '{_synced_at,_observed_at,_checked_at,_true_by,thumbnail}'::text[] from books.volumes v
    union all select to_jsonb(m) - '{_synced_at,_observed_at}'::text[] from books.shelf_volumes m order by 1`);

async function mends(sql: readonly string[], mend: (catalog: Catalog) => Promise<unknown>): Promise<void> {
  await using catalog = await justEdited();
  const before = await kept(catalog);
  for (const one of sql) await catalog.rows(one);
  expect(await kept(catalog)).not.toEqual(before);
  catalog.pass();
  await mend(catalog);
  expect(await kept(catalog)).toEqual(before);
}

test('a sync mends wrong columns of shelves, though the shelves are as before', () =>
  mends(wrong.shelves, catalog => catalog.sync()));

test('backfill --again mends wrong columns of shelves, of volumes and of positions', long, () =>
  mends(everyWrong, catalog => catalog.again()),
);

/** By the record that is to be named. */
const made = {
  'ada/1002': `insert into books.shelf_volumes select (jsonb_populate_record(m, '{"shelf_id": "1002"}')).* from books.shelf_volumes m where volume_id = 'a0'`,
  'ada/77': `insert into books.shelves select (jsonb_populate_record(s, '{"id": "77"}')).* from books.shelves s where id = '1001'`,
  'ada/88': `insert into books.shelf_volumes select (jsonb_populate_record(m, '{"shelf_id": "88"}')).* from books.shelf_volumes m where volume_id = 'a1'`,
  made: `insert into books.volumes select (jsonb_populate_record(v, '{"id": "made"}')).* from books.volumes v where id = 'a0'`,
};

test('rows that a hand has made or taken away are found, and mended', async () => {
  await using catalog = await mirrored();
  const before = await contents(catalog);
  for (const sql of Object.values(made)) await catalog.rows(sql);
  const found = await verifyOnce(catalog.config(), { repair: true });
  expect(found.differences.map(one => [one.record, one.repaired]).sort()).toEqual(
    Object.keys(made).map(one => [one, true]),
  );
  expect(await contents(catalog)).toEqual(before);
  for (const table of ['shelves', 'volumes', 'shelf_volumes']) {
    await catalog.rows(`delete from books.${table} where ctid = (select min(ctid) from books.${table})`);
    const missing = await verifyOnce(catalog.config(), { repair: true });
    expect(missing.differences.map(one => one.repaired)).toEqual([true]);
    expect(await contents(catalog)).toEqual(before);
  }
});

const contents = (catalog: Catalog) =>
  catalog.rows(`select 'shelf' as what, owner_id || '/' || id as id, title, _deleted_at from books.shelves where _deleted_at is null
    union all select 'volume', id, title, null from books.volumes
    union all select 'place', owner_id || '/' || shelf_id || '/' || volume_id, position::text, null from books.shelf_volumes where _removed_at is null
    order by 1, 2`);

test('what has changed since the mirror was last complete is read, and is no difference', long, async () => {
  await using catalog = await mirrored();
  const { world } = catalog;
  addShelf(world, 'ada', 2002, 2, 'z');
  world.add('ada', 1001, 'b0');
  catalog.pass(hourMs);
  const result = await verifyOnce(catalog.config(), { repair: true });
  expect(result.differences).toEqual([]);
  expect((await catalog.sync()).exitCode).toBe(0);
  expect(await catalog.differences()).toEqual([]);
});

/** The audit that the reconciler opens now, run to its end. */
async function audited(catalog: Catalog, auditVolumesPerHour: number) {
  const { signal } = new AbortController();
  const config = catalog.config({ auditVolumesPerHour });
  await using opened = openContext(
    config,
    { pg: catalog.pool, ledger: catalog.pool },
    { log: pino({ level: 'silent' }), signal },
  );
  const ctx: JobContext = { ...opened, claimant: { worker: 0, job: 'job' } };
  await openWaiting(ctx, 0);
  const [{ id }] = (await catalog.rows(`select id from sync.runs where kind = 'audit'`)) as [{ id: string }];
  const run = Number(id);
  for (const stream of ['shelves', 'volumes'] as const) await auditStream.run(ctx, { account: 'default', run, stream });
  expect((await readProgress(catalog.pool, run)).streams.map(({ state }) => state)).toEqual(['completed', 'completed']);
  const opensAt = async (ms: number) => {
    await openWaiting({ ...ctx, clock: { ...ctx.clock, now: () => ms } }, 0);
    return (await catalog.rows(`select from sync.runs where kind = 'audit' and id <> $1`, [run])).length;
  };
  const [{ began }] = (await catalog.rows('select started_at as began from sync.runs where id = $1', [run])) as [
    { began: Date },
  ];
  const [early, due] = [await opensAt(began.getTime() + hourMs - 1000), await opensAt(began.getTime() + hourMs + 1000)];
  return { early, due };
}

test('the audit of the catalog finds and mends what a hand has made wrong, once an hour', async () => {
  await using catalog = await mirrored();
  await catalog.rows(`update books.volumes set title = 'by hand' where id in ('a0', 'b1')`);
  await catalog.rows(`update books.shelves set title = 'by hand' where id = '1002'`);
  expect(await audited(catalog, 20)).toEqual({ early: 0, due: 1 });
  const compared = `select stream, record_id, random, repaired_at is not null as repaired from sync.audit where differences is not null order by 1, 2`;
  expect(await catalog.rows(compared)).toEqual([
    { stream: 'shelves', record_id: 'ada/1002', random: true, repaired: true },
    { stream: 'volumes', record_id: 'a0', random: true, repaired: true },
    { stream: 'volumes', record_id: 'b1', random: true, repaired: true },
  ]);
  expect(await catalog.differences()).toEqual([]);
});

test('the audit of the catalog reads as many volumes as its setting says, and a shelf for each five of them', async () => {
  await using catalog = await mirrored();
  await audited(catalog, 6);
  expect(await catalog.rows('select stream, count(*)::int as n from sync.audit group by 1 order by 1')).toEqual([
    { stream: 'shelves', n: 2 },
    { stream: 'volumes', n: 6 },
  ]);
});
