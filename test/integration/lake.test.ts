/** The lake is equal to the warehouse after each export, whatever happened before. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeRng } from '../../packages/sandbox/src/random.ts';
import { eraseCustomer } from '../../src/engine/runs/operations.ts';
import { compareLake } from '../../src/lake/compare.ts';
import { openLake } from '../../src/lake/duckdb.ts';
import { exportTo } from '../../src/lake/export.ts';
import { alone, turnOn } from '../../src/lake/state.ts';
import { lakeTables, streams } from '../../src/sources/index.ts';
import { inProcess } from '../support/in-process.ts';

test('random changes', async () => {
  await using s = await inProcess({ tickets: 60, seed: 5 });
  const path = await mkdtemp(join(tmpdir(), 'lake-'));
  const place = { path, extensions: process.env.LAKE_EXTENSIONS };
  const rng = makeRng(3);
  try {
    await s.sync();
    await alone(s.url, client => turnOn(client, { path, personal: true, keepDays: 30 }, 'test', new Date()));
    await using lake = await openLake(s.url, place);
    for (let step = 0; step < 6; step++) {
      const done = await alone(s.url, client => exportTo(lake, client, lakeTables));
      console.log(step, JSON.stringify(done));
      expect(await compareLake(lake, s.url, lakeTables)).toEqual([]);
      for (let i = 0; i < 5; i++) s.world.mutate(rng);
      s.nowMs += 300_000;
      await s.sync();
      if (step % 2 === 1) {
        const [who] = await s.rows(
          `select id, first_name from helpdesk.customers c where first_name is not null and exists (select from helpdesk.tickets t where t.customer_id = c.id) order by random() limit 1`,
        );
        const texts = (
          await s.rows(
            `select first_name as t from helpdesk.customers where id = $1 union select value from helpdesk.contacts where customer_id = $1 union select subject from helpdesk.tickets where customer_id = $1 union select body_text from helpdesk.messages m join helpdesk.tickets t on t.id = m.ticket_id where t.customer_id = $1 and direction='in'`,
            who!.id,
          )
        )
          .map(r => String(r.t))
          .filter(t => t.length > 5);
        const found = async () => {
          const files = (await readdir(path, { recursive: true })).filter(
            f => f.endsWith('.parquet') && !f.includes('delete'),
          );
          let n = 0;
          for (const file of files) {
            const rows = await lake.rows(`select * from read_parquet('${join(path, file)}')`);
            const text = JSON.stringify(rows);
            n += texts.filter(t => text.includes(JSON.stringify(t).slice(1, -1))).length;
          }
          return n;
        };
        const before = await found();
        const snap = (await lake.rows<{ n: string }>('select max(snapshot_id)::varchar as n from lake.snapshots()'))[0]!
          .n;
        const states = await lake.rows(
          `select id, state, user_id from lake.helpdesk.tickets at (version => ${snap}) order by id`,
        );
        await eraseCustomer(
          s.pool,
          { account: 'default', customer: String(who!.id), who: 'me', streams },
          new Date(s.nowMs),
        ).catch(e => console.log(e));
        await alone(s.url, client => exportTo(lake, client, lakeTables)).then(d =>
          console.log('erased', JSON.stringify(d)),
        );
        expect(before).toBeGreaterThan(0);
        expect(await found()).toBe(0);
        expect(
          await lake.rows(`select id, state, user_id from lake.helpdesk.tickets at (version => ${snap}) order by id`),
        ).toEqual(states);
        expect(await compareLake(lake, s.url, lakeTables)).toEqual([]);
      }
    }
  } finally {
    await rm(path, { recursive: true, force: true });
  }
}, 240_000);
