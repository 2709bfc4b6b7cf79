/** The lake of a source that the guide builds: each change, each part, masks, and what an erasure takes out of the files. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { describeLongOnLake } from '../../packages/lake/test/support/lake.ts';
import { openLake } from '../../src/lake/package.ts';
import { freshDatabase } from '../support/postgres.ts';
import { openBilling } from './harness.ts';
import { crmProgram, House, type Json } from './house.ts';
import { programOf, root } from './tree.ts';

await describeLongOnLake('the lake of the billing service', () => {
  const program = crmProgram('guide');
  const without = programOf({ folder: root, [Symbol.dispose]: () => {} });
  afterAll(() => without[Symbol.dispose]());

  test('follows it, also where the lake was on before; an erasure reaches files of all snapshots', async () => {
    await using of = await openBilling();
    await using db = await freshDatabase();
    const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-lake-'));
    const env = { ...of.env, LAKE_EXTENSIONS: process.env.LAKE_EXTENSIONS! };
    await new House(without, db, env).ends([0], 'lake', 'on', '--to', folder, '--pii');
    const s = new House(program(), db, env);
    const ask = async (sql: string): Promise<Json[]> => s.json(['lake', 'sql', sql]);
    const counted = () =>
      ask(
        `select (select count(*)::int from lake.billing.invoices where _deleted_at is null) as invoices,
           (select count(*)::int from lake.billing.lines where _deleted_at is null) as lines,
           (select count(*)::int from lake.safe.billing_payments where _deleted_at is null) as payments`,
      );
    const world = () => {
      const { invoices, payments } = of.billing;
      const lines = [...invoices.values()].flatMap(one => one.lines).length;
      return [{ invoices: invoices.size, lines, payments: payments.size }];
    };
    const exported = () => s.ends([0], 'lake', 'export');
    await s.sync();
    await exported();
    expect(await counted()).toEqual(world());
    // Each digit stays: as a decimal, or where none fits as text.
    const paid = [...of.billing.payments.values()];
    const amounts = () =>
      ask(
        'select typeof(amount) as type, sum(amount::decimal(38, 6))::text as sum from lake.billing.payments group by 1',
      );
    const cents = paid.reduce((sum, { amount }) => sum + Math.round(Number(amount) * 100), 0);
    expect(await amounts()).toEqual([{ type: 'DECIMAL(38,6)', sum: `${(cents / 100).toFixed(2)}0000` }]);
    const long = '0.1234567890123456789012345';
    paid[0]!.amount = long;
    await s.ends([0], 'sweep', 'payments');
    await exported();
    const kept = await ask(
      `select typeof(amount) as type, amount from lake.safe.billing_payments where id = '${paid[0]!.id}'`,
    );
    expect(kept).toEqual([{ type: 'VARCHAR', amount: long }]);
    of.change();
    await s.sync();
    await s.nextSecond();
    of.billing.delete('invoice', [...of.billing.invoices.keys()][7]!);
    await s.sync();
    await exported();
    expect(await counted()).toEqual(world());
    expect(await s.json(['lake', 'verify'])).toEqual([]);
    const [masked] = await ask(`select email ~ '^[0-9a-f]{64}$' as hashed from lake.safe.billing_clients limit 1`);
    expect(masked).toEqual({ hashed: true });
    // What one client's row held before stays in the files of older snapshots, until the person is erased.
    const [, client] = [...of.billing.clients.values()];
    Object.assign(client!, { name: 'Sekret Name', email: 'sekret@example.org' });
    await s.ends([0], 'sync', 'clients');
    await exported();
    client!.name = 'Another Sekret';
    await s.ends([0], 'sync', 'clients');
    await exported();
    const held = async () => {
      const place = { path: folder, extensions: process.env.LAKE_EXTENSIONS };
      await using engine = await openLake(db.url, place, { mode: 'none' });
      const [row] = await engine.rows<{ n: number }>(
        `select count(*)::int as n from read_parquet('${folder}/billing/**/*.parquet', union_by_name = true, hive_partitioning = false) t
         where t::varchar like '%ekret%'`,
      );
      return row!.n;
    };
    expect(await held()).toBeGreaterThan(1);
    await s.ends([0], 'erase', '--contact', 'sekret@example.org', '--yes');
    await exported();
    expect(await held()).toBe(0);
    expect(await s.json(['lake', 'verify'])).toEqual([]);
    const others = await ask(`select count(*)::int as n from lake.billing.clients where name like 'Client %'`);
    expect(others).toEqual([{ n: of.billing.clients.size - 1 }]);
    rmSync(folder, { recursive: true });
  });
});
