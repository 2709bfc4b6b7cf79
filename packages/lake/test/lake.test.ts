/**
 * The lake: equal to the warehouse after each export, whatever happened before, and wherever the export before it died. What
 * was erased is in no file and nowhere in the catalog, and old snapshots are otherwise as they were.
 */
import { describe, expect, test } from 'vitest';
import { recompute } from '../../../src/analytics/calendars.ts';
import { eraseCustomer } from '../../../src/engine/runs/operations.ts';
import { streams } from '../../../src/sources/index.ts';
import { type InProcess, inProcess } from '../../../test/support/in-process.ts';
import { amount, long, proof } from '../../../test/support/long.ts';
import { makeRng, pick, type Rng } from '../../sandbox/src/random.ts';
import type { Lake } from '../../../src/lake/package.ts';
import { tidy } from '../src/tidy.ts';
import { describeOnLake } from './support/lake.ts';
import { type LakeBeside, lakeBeside } from './support/lake-beside.ts';

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

const steps: Record<string, (s: InProcess, beside: LakeBeside, rng: Rng) => Promise<void>> = {
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
  async erasure(s, _, rng) {
    const one = await somebody(s, rng);
    if (one) await erase(s, one.id);
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
  describe.each([{ personal: true }, { personal: false }])('with personal data: $personal', ({ personal }) => {
    test('equal after each of some random steps, and old snapshots stay', personal ? long : proof, async () => {
      const rng = makeRng(personal ? 11 : 12);
      await using s = await inProcess({ tickets: 50, seed: 5 });
      await s.sync();
      await using beside = await lakeBeside(s.url, { personal });
      await beside.export();
      expect(await beside.compare(true)).toEqual([]);
      const old = new Map<number, unknown>();
      for (let step = 0; step < 6; step++) {
        const name = pick(rng, Object.keys(steps));
        await steps[name]!(s, beside, rng);
        await beside.export();
        expect(await beside.compare(), `step ${step}: ${name}`).toEqual([]);
        if (personal) old.set(await newest(beside.lake), await stateOf(beside.lake, await newest(beside.lake)));
      }
      for (const [version, state] of old)
        expect(await stateOf(beside.lake, version), `snapshot ${version}`).toEqual(state);
    });
  });

  test('what was erased is in no file and nowhere in the catalog; masked, it never was', long, async () => {
    const rng = makeRng(4);
    await using s = await inProcess({ tickets: 40, seed: 6 });
    await s.sync();
    await using beside = await lakeBeside(s.url);
    await beside.export();
    await steps.changes!(s, beside, rng);
    await beside.export();
    await tidy(beside.lake, 30);
    const version = await newest(beside.lake);
    const before = await stateOf(beside.lake, version);
    const one = (await somebody(s, rng))!;
    const held = await beside.everything();
    expect(one.texts.filter(text => held.includes(text))).toEqual(one.texts);
    await erase(s, one.id);
    const { filesCleared } = await beside.export();
    expect(filesCleared).toBeGreaterThan(0);
    const now = await beside.everything();
    expect(one.texts.filter(text => now.includes(text))).toEqual([]);
    expect(await stateOf(beside.lake, version)).toEqual(before);
    expect(await beside.compare()).toEqual([]);
    // The bounds that the catalog has of personal columns tell nothing, and mislead nobody.
    const [bounds] = await s.rows(
      `select min(value collate "C") as least, max(value collate "C") as most from helpdesk.contacts`,
    );
    expect(
      await beside.lake.rows('select min(value) as least, max(value) as most from lake.helpdesk.contacts'),
    ).toEqual([bounds]);
  });

  test('a lake without personal data has no address, name or text', async () => {
    await using s = await inProcess({ tickets: 40, seed: 6 });
    await s.sync();
    await using beside = await lakeBeside(s.url, { personal: false });
    await beside.export();
    const held = await beside.everything();
    const texts = (
      await s.rows(
        `select value as text from helpdesk.contacts union select subject from helpdesk.tickets union select body from internal.messages
       union select first_name || ' ' || last_name from helpdesk.customers`,
      )
    ).map(({ text }) => String(text));
    expect(texts.filter(text => text.length > 8 && held.includes(text))).toEqual([]);
  });

  test('a snapshot is what tickets_as_of tells of its time, as far as that is certain', async () => {
    const rng = makeRng(9);
    await using s = await inProcess({ tickets: 40, seed: 8 });
    await s.sync();
    await using beside = await lakeBeside(s.url);
    const moments: { version: number; at: string }[] = [];
    for (let i = 0; i < 3; i++) {
      await steps.changes!(s, beside, rng);
      await beside.export();
      const [row] = await beside.lake.rows<{ at: string }>(
        `select complete_through::varchar as at from lake.analytics.completeness where stream = 'tickets'`,
      );
      moments.push({ version: await newest(beside.lake), at: row!.at });
    }
    for (const { version, at } of moments) {
      const told = await s.rows(
        `select ticket_id as id, state, user_id, inbox_id from analytics.tickets_as_of($1) where certain order by 1`,
        at,
      );
      const there = await beside.lake.rows<{ id: string }>(
        `select id, state, user_id, inbox_id from lake.helpdesk.tickets at (version => ${version}) order by id`,
      );
      const known = new Map(there.map(row => [row.id, row]));
      expect(told.length).toBeGreaterThan(10);
      expect(told.map(({ id }) => known.get(String(id)))).toEqual(told);
    }
  });

  test('an export that dies at any statement is made good by the next one', long, async () => {
    const rng = makeRng(2);
    await using s = await inProcess({ tickets: 30, seed: 7 });
    await s.sync();
    await using beside = await lakeBeside(s.url);
    let at = 3;
    for (let round = 0; at !== Number.POSITIVE_INFINITY; round++) {
      if (round % 4 === 1) await steps.erasure!(s, beside, rng);
      else await steps.changes!(s, beside, rng);
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
      at = died ? at + amount(41, 167) : Number.POSITIVE_INFINITY;
      await beside.reopen();
      await beside.export();
      expect(await beside.compare(), `round ${round}`).toEqual([]);
      const { snapshot } = await beside.export();
      expect(snapshot, 'nothing is written twice').toBeUndefined();
    }
  });
});
