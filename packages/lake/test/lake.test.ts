/**
 * The lake: equal to the warehouse after each export, whatever happened before, and wherever the export before it died. What
 * was erased is in no file and nowhere in the catalog, and old snapshots are otherwise as they were.
 */
import { expect, test } from 'vitest';
import { recompute } from '../../../src/analytics/calendars.ts';
import type { Lake } from '../../../src/lake/package.ts';
import { eraseCustomer } from '../../../src/privacy/erasures.ts';
import { streams } from '../../../src/sources/index.ts';
import { type InProcess, inProcess } from '../../../test/support/in-process.ts';
import { amount, long } from '../../../test/support/long.ts';
import { makeRng, pick, type Rng } from '../../sandbox/src/random.ts';
import { tidy } from '../src/tidy.ts';
import { describeOnLake } from './support/lake.ts';
import { type LakeBeside, lakeBeside, personalTables } from './support/lake-beside.ts';

const erase = (s: InProcess, customer: string) =>
  eraseCustomer(s.pool, { account: 'default', customer, who: 'me', withShared: true, streams }, new Date(s.nowMs));

/** Somebody who has written, has texts of their own, and was not erased. */
async function somebody(s: InProcess, rng: Rng): Promise<{ id: string; texts: string[] } | undefined> {
  const people = await s.rows(
    `select c.id, c.first_name, array(select value from helpdesk.contacts k where k.customer_id = c.id) as contacts,
       array(select subject from helpdesk.tickets t where t.customer_id = c.id) as subjects
     from helpdesk.customers c
     where not exists (select from sync.erased e where e.customer_id = c.id)
       and exists (select from helpdesk.tickets t where t.customer_id = c.id) order by c.id`,
  );
  if (people.length === 0) return undefined;
  const one = pick(rng, people);
  return { id: String(one.id), texts: (one.contacts as string[]).filter(text => text.length > 6) };
}

/** What no erasure changes, of one snapshot. */
const stateOf = (lake: Lake, version: number) =>
  lake.rows(
    `select id, state, user_id, inbox_id, label_ids, spam, updated_at from lake.helpdesk.tickets at (version => ${version}) order by id`,
  );

const newest = async (lake: Lake) =>
  Number((await lake.rows<{ id: string }>('select max(snapshot_id)::varchar as id from lake.snapshots()'))[0]!.id);

/** An erasure tells which texts are gone. */
const steps: Record<string, (s: InProcess, beside: LakeBeside, rng: Rng, gone: string[]) => Promise<void>> = {
  async changes(s, _, rng) {
    for (let i = 0; i < 6; i++) s.world.mutate(rng);
    s.nowMs += 300_000;
    await s.sync();
  },
  async deletions(s) {
    s.nowMs += 8 * 86_400_000;
    await s.run('sweep', ['tickets']);
    await s.run('sweep', ['customers']);
  },
  async erasure(s, _, rng, gone) {
    const one = await somebody(s, rng);
    if (one === undefined) return;
    await erase(s, one.id);
    gone.push(...one.texts);
  },
  async calendar(s, _, rng) {
    const zone = pick(rng, ['Europe/Berlin', 'America/New_York', 'Asia/Kolkata']);
    await s.rows(
      `insert into analytics.calendars (name, time_zone) values ('office', $1) on conflict (name) do update set time_zone = excluded.time_zone`,
      zone,
    );
    await s.rows(`insert into analytics.calendar_hours values ('office', 1, '09:00', '17:00') on conflict do nothing`);
    await s.rows(
      `insert into internal.stored_calendar_assignments (account_id, inbox_id, calendar) values ('default', null, 'office') on conflict do nothing`,
    );
    await recompute(s.pool, 'default');
  },
  async tidy(_, { lake }) {
    await tidy(lake, 30);
  },
};

await describeOnLake('the lake', () => {
  test('equal after each export, with old snapshots as they were but for who was erased since', long, async () => {
    const rng = makeRng(11);
    await using s = await inProcess({ tickets: 24, seed: 5 });
    await s.sync();
    await using beside = await lakeBeside(s.url);
    await beside.export();
    expect(await beside.compare(true)).toEqual([]);
    const before: { version: number; through: string; state: unknown }[] = [];
    const gone: string[] = [];
    const rounds = [
      ['changes', 'calendar'],
      ['erasure', 'deletions'],
      ['tidy', 'changes', 'erasure'],
    ];
    for (let more = amount(4, 0); more > 0; more--) rounds.push([pick(rng, Object.keys(steps))]);
    for (const round of rounds) {
      const version = await newest(beside.lake);
      const [{ through }] = (await beside.lake.rows<{ through: string }>(
        `select complete_through::varchar as through from lake.internal.lake_completeness where stream = 'tickets'`,
      )) as [{ through: string }];
      before.push({ version, through, state: await stateOf(beside.lake, version) });
      for (const name of round) await steps[name]!(s, beside, rng, gone);
      await beside.export();
      expect(await beside.compare(), round.join()).toEqual([]);
    }
    for (const { version, through, state } of before) {
      expect(await stateOf(beside.lake, version), `snapshot ${version}`).toEqual(state);
      // A snapshot is what tickets_as_of tells of its time, as far as that is certain.
      const told = await s.rows(
        `select ticket_id as id, state, user_id, inbox_id from analytics.tickets_as_of($1) where certain order by 1`,
        through,
      );
      const there = await beside.lake.rows<{ id: string }>(
        `select id, state, user_id, inbox_id from lake.helpdesk.tickets at (version => ${version}) order by id`,
      );
      const known = new Map(there.map(row => [row.id, row]));
      expect(told.length).toBeGreaterThan(10);
      expect(told.map(({ id }) => known.get(String(id)))).toEqual(told);
    }
    const held = await beside.everything();
    expect(gone.length).toBeGreaterThan(0);
    expect(gone.filter(text => held.includes(text))).toEqual([]);
    // The bounds that the catalog has of personal columns tell nothing, and mislead nobody.
    const [bounds] = await s.rows(
      `select min(value collate "C") as least, max(value collate "C") as most from helpdesk.contacts`,
    );
    expect(
      await beside.lake.rows('select min(value) as least, max(value) as most from lake.helpdesk.contacts'),
    ).toEqual([bounds]);
  });

  test('an export that dies at any statement is made good by the next one', long, async () => {
    const rng = makeRng(2);
    await using s = await inProcess({ tickets: 16, seed: 7 });
    await s.sync();
    await using beside = await lakeBeside(s.url, { only: personalTables });
    let at = 3;
    for (let round = 0; at !== Number.POSITIVE_INFINITY; round++) {
      if (round % 4 === 1) await steps.erasure!(s, beside, rng, []);
      else await steps.changes!(s, beside, rng, []);
      let n = 0;
      const dies = (sql: string) => {
        n++;
        if (n === at) throw new Error(`died before: ${sql.slice(0, 40)}`);
      };
      const mortal: Lake = {
        ...beside.lake,
        run: async sql => {
          dies(sql);
          return beside.lake.run(sql);
        },
        rows: async sql => {
          dies(sql);
          return beside.lake.rows(sql);
        },
      };
      const died = await beside.export(mortal).then(
        () => false,
        () => true,
      );
      // The first export has one statement for each table, a later one several.
      at = died ? at + amount(7, 31) : Number.POSITIVE_INFINITY;
      await beside.reopen();
      await beside.export();
      expect(await beside.compare(), `round ${round}`).toEqual([]);
      const { snapshot } = await beside.export();
      expect(snapshot, 'nothing is written twice').toBeUndefined();
    }
  });
});
