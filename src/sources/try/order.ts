/** Questions about a list of changes: whether its order is that of its cursor, and what `since` includes. */
import { isObject } from '../../engine/http/request.ts';
import type { Ask } from '../../engine/reading/reading.ts';
import { timeOf } from '../record/check.ts';
import type { Page } from './page.ts';
import { readIfAny, type Trying } from './trying.ts';

/** The time of a record, in ms. */
const stampOf = (cursor: string, record: unknown): number => timeOf(String(isObject(record) ? record[cursor] : ''));

/** The maker that reads a list without an order. */
const whole = (path: string) =>
  `fullRefresh(…, '${path}'), or params by which the service sorts it, oldest change first`;

/** Whether the records of the pages are in the ascending order of their times. */
export function noteOrder({ notes, places, stream }: Trying, cursor: string, page: Page): void {
  const times = page.records.map(one => stampOf(cursor, one)).filter(ms => !Number.isNaN(ms));
  const steps = times.slice(1).map((ms, i) => ms - times[i]!);
  const [up, down] = [steps.filter(ms => ms > 0).length, steps.filter(ms => ms < 0).length];
  if (up + down === 0) notes.open(`no two records differ in ${cursor}: the order is not known`);
  else if (down === 0)
    notes.seen(`${times.length} records came in the ascending order of ${cursor}`, { order: 'declared' });
  else {
    const how = up === 0 ? 'in the descending order of' : `${down} of ${steps.length} times out of the order of`;
    notes.wrong(
      `${times.length} records came ${how} ${cursor}: a mirror that reads on from the last one would lose others`,
      places.stream(stream.path),
      whole(stream.path),
      { order: up === 0 ? 'descending' : 'id' },
    );
  }
}

/** The mirror asks for a second before the last record that it knows. What that hides is lost. */
const overlapMs = 1000;
const dayMs = 86_400_000;
const grains = [
  [1, 'to the millisecond'],
  [1000, 'to the second'],
  [60_000, 'to the minute'],
  [dayMs, 'to the day'],
] as const;

/** By how many seconds a list begins earlier than it is asked for; 0: by none, or by so many that its times are coarse. */
async function slackOf(ofMs: number, comesFrom: (ms: number) => Promise<boolean>): Promise<number> {
  const secondMs = ofMs - (ofMs % 1000);
  if (!(await comesFrom(secondMs + 1000))) return 0;
  for (const seconds of [1, 2]) {
    const laterMs = secondMs + (seconds + 1) * 1000;
    // A service that cuts the time to the minute shows the record up to there.
    if (Math.floor(laterMs / 60_000) > Math.floor(secondMs / 60_000)) return 0;
    if (!(await comesFrom(laterMs))) return seconds;
  }
  return 0;
}

interface Start {
  readonly cursor: string;
  readonly startParam: string;
  readonly startSlackSeconds?: number;
}

/** Asks from the time of a record on: does it come, and from how much later on does it come no more? */
export async function trySince(
  trying: Trying,
  { cursor, startParam, startSlackSeconds = 0 }: Start,
  ask: Ask,
  first: Page,
): Promise<void> {
  const { notes, places, stream } = trying;
  const at = places.option(stream.path, 'startParam');
  const known = first.records
    .map((one, i) => ({ id: first.ids[i]!, ms: stampOf(cursor, one) }))
    .filter(({ ms, id }) => !Number.isNaN(ms) && id !== '');
  const oldest = known.toSorted((a, b) => a.ms - b.ms)[0];
  // The last one of several: the order may be another one than that of its cursor.
  const subject = known
    .toSorted((a, b) => b.ms - a.ms)
    .find(({ ms }) => oldest !== undefined && ms - overlapMs > oldest.ms);
  if (oldest === undefined || subject === undefined)
    return notes.open(
      `no two records are more than a second apart in ${cursor}: what ${startParam} includes is not known`,
    );
  const shown = async (since: number) => {
    const { page, answer } = await readIfAny(trying, { ...ask, since });
    return { ids: page?.ids, status: answer.status, isFull: page !== undefined && page.ids.length >= ask.perPage };
  };
  const from = await shown(subject.ms);
  if (from.ids === undefined)
    return notes.wrong(
      `${startParam} is refused with ${from.status} when it is ${new Date(subject.ms).toISOString()}`,
      at,
      'the name of the parameter that takes such a time; or fullRefresh',
    );
  const isKnown = async () => !(await shown(subject.ms + 2 * dayMs)).ids?.includes(oldest.id);
  const coarse = `is coarser than a second, and shows records that are older than it is asked for: its pages would be refused`;
  if (from.ids.includes(oldest.id) && (await isKnown()))
    return notes.wrong(`${startParam} ${coarse}`, at, `fullRefresh(…, '${stream.path}')`);
  if (from.ids.includes(oldest.id))
    return notes.wrong(
      `a record from before ${startParam} came: the service does not know the parameter`,
      at,
      'the name of the parameter that wants changes since a time; or fullRefresh',
      { since: 'ignored' },
    );
  if (!from.ids.includes(subject.id)) {
    const before = await shown(subject.ms - overlapMs);
    if (before.ids?.includes(subject.id) && startSlackSeconds > 0)
      return notes.wrong(
        `${startParam} shows no older record than it is asked for: changes would be lost`,
        places.option(stream.path, 'startSlackSeconds'),
        'no startSlackSeconds',
        { slackMs: 0 },
      );
    if (before.ids?.includes(subject.id))
      return notes.seen(
        `${startParam} is exclusive: a record of that very time does not come, from a second before it does`,
        { inclusive: false, slackMs: startSlackSeconds * 1000 },
      );
    if (before.isFull || from.isFull)
      return notes.open(`${startParam}: the record that was asked for is on a later page, or has changed meanwhile`);
    return notes.wrong(`${startParam} hides a record of a second later: changes would be lost`, at, whole(stream.path));
  }
  const slack = await slackOf(subject.ms, async ms => (await shown(ms)).ids?.includes(subject.id) === true);
  if (slack > 0)
    return notes.wrong(
      `${startParam} shows records that are ${slack} s older than it is asked for: its pages would be refused`,
      at,
      `startSlackSeconds: ${startSlackSeconds + slack}`,
      { slackMs: (startSlackSeconds + slack) * 1000 },
    );
  let [grain, grainMs] = ['', 1];
  for (const [ms, words] of grains) {
    [grain, grainMs] = [words, ms];
    const later = subject.ms - (subject.ms % ms) + ms;
    if (!(await shown(later)).ids?.includes(subject.id)) break;
    grain = 'to more than a day';
  }
  if (grain !== grains[0][1] && grain !== grains[1][1])
    return notes.wrong(`${startParam} ${coarse}`, at, `fullRefresh(…, '${stream.path}')`);
  notes.seen(`${startParam} is inclusive, ${grain}`, { inclusive: true, grainMs, slackMs: startSlackSeconds * 1000 });
}
