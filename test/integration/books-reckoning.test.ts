/**
 * Events on shelves, the volumes of the star and its credits, of two accounts that read one catalog at times of their own:
 * against plain code over what the catalog held when each of them read it.
 */
import { expect, test } from 'vitest';
import { BooksWorld } from '../../packages/sandbox/src/books/world.ts';
import { between, makeRng, pick } from '../../packages/sandbox/src/random.ts';
import { addShelf, addVolumes, openCatalog } from '../support/books.ts';
import { dayOf } from '../support/business-in-words.ts';
import { syncOnce } from '../support/mirror.ts';
import { freshDatabase } from '../support/postgres.ts';

interface Reading {
  readonly asOfMs: number;
  readonly ids: readonly string[];
  /** When volumes last came or went, as the catalog says. */
  readonly saidMs: number;
  /** The reply was written in this second. */
  readonly dateMs: number;
}

/** The days of an account are those of its calendar. */
const zones: Readonly<Record<string, string>> = { default: 'UTC', other: 'Pacific/Auckland' };
const farCalendar = `
  insert into analytics.calendars (name, time_zone) values ('far', 'Pacific/Auckland');
  insert into internal.stored_calendar_assignments (account_id, inbox_id, calendar) values ('other', null, 'far')`;

const iso = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());

/** From one reading to the next: what came, went or moved, by when, and after when. */
function eventsOf(readings: readonly Reading[]): (string | number | null)[][] {
  return readings.flatMap(({ ids, saidMs, dateMs }, i) => {
    const before = readings[i - 1];
    const known = before?.ids ?? [];
    // The catalog's own time counts if it is news; else the change happened by the time of the reply.
    const seenMs = dateMs + 999;
    const changedMs = saidMs > (before?.asOfMs ?? 0) && saidMs <= seenMs ? saidMs : seenMs;
    const [stayed, stays] = [known.filter(id => ids.includes(id)), ids.filter(id => known.includes(id))];
    const isOther = stayed.length < known.length || stays.length < ids.length;
    // Beside a volume that came or went, a change of the order may be of any time.
    const movedMs = isOther && stayed.join() !== stays.join() ? seenMs : changedMs;
    const after = iso(before?.asOfMs ?? null);
    const came = ids.flatMap((id, position) => {
      const was = known.indexOf(id);
      if (was === position) return [];
      if (was >= 0) return [[id, 'moved', position, iso(movedMs), after]];
      return [[id, before ? 'added' : 'found', position, iso(changedMs), after]];
    });
    const went = known.filter(id => !ids.includes(id)).map(id => [id, 'removed', null, iso(changedMs), after]);
    return [...came, ...went];
  });
}

test.for([
  { seed: 1, moveShows: true },
  { seed: 2, moveShows: false },
])(
  'what is on which shelf, and since when, is what plain code makes of the readings: %o',
  async ({ seed, moveShows }) => {
    const rng = makeRng(seed);
    await using catalog = await openCatalog({
      config: { library: false, shelfAgeMs: moveShows ? 1e12 : 0 },
      world: now => {
        const world = new BooksWorld({ now, moveShows });
        world.addUser('ada').shelves.clear();
        return world;
      },
    });
    const { world, rows } = catalog;
    await rows(farCalendar);
    const volumes = [1, 2].flatMap(id => addShelf(world, 'ada', id, 4).volumes);
    addVolumes(world, ['x', 'y', 'z']);
    const all = [...volumes, 'x', 'y', 'z'];
    const readings = new Map<string, Reading[]>();
    const spent = new Map<string, number>();
    for (let round = 0; round < 14; round++) {
      const account = pick(rng, ['default', 'other']);
      for (let changes = between(rng, 0, 3); changes > 0; changes--) {
        catalog.pass(between(rng, 1500, 60_000));
        const { id, volumes: has } = world.shelf('ada', pick(rng, [1, 2]));
        const kind = pick(rng, ['add', 'remove', 'move']);
        const absent = all.filter(one => !has.includes(one));
        if (kind === 'add' && absent.length > 0) world.add('ada', id, pick(rng, absent), between(rng, 0, has.length));
        else if (kind === 'remove' && has.length > 1) world.remove('ada', id, pick(rng, has));
        else world.move('ada', id, pick(rng, has), between(rng, 0, has.length - 1));
      }
      catalog.pass(between(rng, 2000, 10_000_000));
      const before = catalog.sandbox.books.requests.length;
      expect((await syncOnce({ ...catalog.config(), account }, ['shelves'])).exitCode).toBe(0);
      spent.set(account, (spent.get(account) ?? 0) + catalog.sandbox.books.requests.length - before);
      for (const { shelf_id, as_of } of await rows(
        'select shelf_id, as_of from sync.shelf_readings where account_id = $1',
        [account],
      )) {
        const key = `${account}/ada/${shelf_id}`;
        const past = readings.get(key) ?? [];
        readings.set(key, past);
        // When it was read is the mirror's to say.
        const asOfMs = (as_of as Date).getTime();
        if (past.at(-1)?.asOfMs === asOfMs) continue;
        const shelf = world.shelf('ada', Number(shelf_id));
        const dateMs = Math.floor(catalog.now() / 1000) * 1000;
        past.push({ asOfMs, ids: [...shelf.volumes], saidMs: Date.parse(shelf.volumesLastUpdated), dateMs });
      }
    }

    const expected = [...readings].flatMap(([key, past]) => eventsOf(past).map(event => [key, ...event]));
    const text = (of: readonly unknown[][]) => of.map(row => JSON.stringify(row)).sort();
    const found = await rows(
      `select account_id || '/' || owner_id || '/' || shelf_id as key, volume_id, event, position, at, change_after from analytics.shelf_events`,
    );
    expect(text(found.map(row => Object.values(row)))).toEqual(text(expected));
    expect(new Set(expected.map(([, , event]) => event))).toEqual(new Set(['found', 'added', 'moved', 'removed']));

    // It was first seen by a clock that nobody moves: at an hour, from now on, that is of another day in Auckland.
    await rows(
      `update books.shelf_volumes set _first_seen_at = date_trunc('day', _first_seen_at, 'UTC') + interval '20 hours'`,
    );
    // The star has the last place of each, when it came by the clock of the mirror, and by how much that may be late.
    const kept = await rows(
      `select shelf_volume_key as key, shelf_key, volume_key, account_key, position, is_on_shelf, removed_date::text, removed_error_seconds,
       first_seen_date::text, first_seen_error_seconds from analytics.fact_shelf_volumes`,
    );
    const firstSeen = await rows(
      `select account_id || '/' || owner_id || '/' || shelf_id || '/' || volume_id as key, _first_seen_at as at from books.shelf_volumes`,
    );
    const places = [...readings].flatMap(([key, past]) => {
      const events = eventsOf(past);
      return [...new Set(past.flatMap(({ ids }) => ids))].map(id => {
        const its = events.filter(([volume]) => volume === id);
        const last = its.at(-1)!;
        const isOn = last[1] !== 'removed';
        const seconds = (at: unknown, after: unknown) =>
          after === null ? null : (Date.parse(String(at)) - Date.parse(String(after))) / 1000;
        const seen = firstSeen.find(row => row.key === `${key}/${id}`)!.at as Date;
        const account = key.split('/')[0]!;
        const day = (ms: number) => dayOf(zones[account]!, ms);
        return [
          ...[`${key}/${id}`, key, `${account}/${id}`, account],
          ...[isOn ? last[2] : its.at(-2)![2], isOn, isOn ? null : day(Date.parse(String(last[3])))],
          ...[isOn ? null : seconds(last[3], last[4]), day(seen.getTime()), seconds(seen.toISOString(), its[0]![4])],
        ];
      });
    });
    expect(text(kept.map(row => Object.values(row)))).toEqual(text(places));

    // A credit of the catalog is a request.
    const credits = await rows(
      `select account_key, sum(interactive + fresh + backfill + sweep)::int as credits from analytics.fact_credits where source = 'books' group by 1`,
    );
    expect(Object.fromEntries(credits.map(row => [row.account_key, row.credits]))).toEqual(Object.fromEntries(spent));
  },
);

test('the credits of an hour are those of its minutes, on the day of the account', async () => {
  await using db = await freshDatabase();
  await db.pool.query(`insert into sync.accounts (account_id) values ('default'), ('other'); ${farCalendar}`);
  const rng = makeRng(5);
  const names = ['interactive', 'fresh', 'backfill', 'sweep', 'others', 'refused', 'waited_ms'] as const;
  const hours = new Map<string, number[]>();
  for (
    let minute = Date.UTC(2026, 3, 3, 20);
    minute < Date.UTC(2026, 3, 5, 16);
    minute += between(rng, 1, 40) * 60_000
  ) {
    const [account, source] = [pick(rng, Object.keys(zones)), pick(rng, ['helpdesk', 'books'])];
    const spent = names.map(() => between(rng, 0, 50));
    await db.pool.query(
      `insert into sync.credit_minutes (account_id, source, minute, credit_limit, ${names.join(', ')}) values ($1, $2, $3, 100, $4, $5, $6, $7, $8, $9, $10)`,
      [account, source, iso(minute), ...spent],
    );
    const key = `${account}/${source}/${iso(minute)!.slice(0, 13)}`;
    hours.set(
      key,
      (hours.get(key) ?? names.map(() => 0)).map((sum, i) => sum + spent[i]!),
    );
  }
  const { rows } = await db.pool.query(
    `select credit_key, date_key::text, account_key, source, hour, interactive, fresh, backfill, sweep, others, refused, waited_seconds, hours
     from analytics.fact_credits order by 1`,
  );
  const wanted = [...hours]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, [...sums]]) => {
      const [account, source, hour] = key.split('/') as [string, string, string];
      const at = new Date(`${hour}:00:00Z`);
      const waited = sums.pop()! / 1000;
      return [key, dayOf(zones[account]!, at.getTime()), account, source, at, ...sums, waited, 1];
    });
  expect(rows.map(row => Object.values(row))).toEqual(wanted);
});
