/** Renders the summary sentence: up to when everything is stored, and what is pending. */
import { streams as declared } from '../../../sources/index.ts';
import type { StreamFigures } from '../overview.ts';
import { amount, count, type Html, html, lasting, type Part, time } from './html.ts';

const declaredOf = ({ source, stream }: StreamFigures) =>
  declared.find(one => one.source === source && one.name === stream);

/** A stream of records that are fetched by id, after a list has shown them. */
const follows = (one: StreamFigures): boolean => declaredOf(one)?.pending !== undefined;

/** Streams within this distance are not named separately. */
const grainMs = 60_000;

export interface Told {
  readonly at: Date;
  readonly streams: readonly StreamFigures[];
  /** Whether a worker is running. */
  readonly works: boolean;
  /** Whether the whole account is paused. */
  readonly paused: boolean;
  /** Seconds until all pending records are read; null if unknown. */
  readonly timeLeft: (stream: StreamFigures) => number | null;
}

export function sentence({ at, streams, works, paused, timeLeft }: Told): Html {
  const lists = streams.filter(one => !follows(one));
  const read = lists.filter(({ complete_through }) => complete_through !== null);
  if (read.length === 0) return html`Nothing is in yet.`;
  const fresh = lists.filter(isFresh);
  const top = fresh.length > 0 ? fresh : lists;
  const unread = lists.filter(({ complete_through }) => complete_through === null);
  const known = top.filter(({ complete_through }) => complete_through !== null);
  // If the streams of every minute were never read, the sentence describes the others.
  const upTo = oldest(known.length > 0 ? known : read);
  const older = read.filter(
    one => !known.includes(one) && known.length > 0 && upTo.getTime() - one.complete_through!.getTime() > grainMs,
  );
  const gaps = lists.reduce((sum, one) => sum + one.gap_count, 0);
  const byMinute = Map.groupBy(older, one => Math.floor(one.complete_through!.getTime() / grainMs));
  const asides: Part[] = [
    ...[...byMinute.values()].map(
      some => html`${listed(some.map(({ name }) => name))} up to ${time(oldest(some), at)}`,
    ),
    ...(gaps > 0 ? [html`${gaps === 1 ? 'one gap' : `${amount(gaps)} gaps`} above it`] : []),
  ];
  const begun = read.flatMap(one => one.complete_from ?? []).sort((one, other) => other.getTime() - one.getTime())[0];
  const rejected = streams.filter(({ open_rejects }) => open_rejects > 0);
  const still = streams.filter(one => follows(one) && one.waiting > 0);
  return html`${unread.length > 0 ? html`Of ${listed(read.map(({ name }) => name))} everything` : 'Everything'}${begun === undefined ? null : html` from ${time(begun, at)}`} up to ${time(upTo, at)} is in${
    asides.length > 0 ? html` <span class="aside-note">(${joined(asides, ', ')})</span>` : null
  }${still.map(one => html`; ${follow(one, { works, paused, left: timeLeft(one) })}`)}${
    unread.length > 0
      ? html`; ${listed(unread.map(({ name }) => name))} ${unread.length === 1 ? 'has' : 'have'} still to be read`
      : null
  }${rejected.map(one => html`; ${count(one.open_rejects, 'record')} of ${one.name} ${one.open_rejects === 1 ? 'was' : 'were'} rejected`)}.`;
}

function follow(
  one: StreamFigures,
  { works, paused, left }: { works: boolean; paused: boolean; left: number | null },
): Html {
  const stream = declaredOf(one)!;
  const { unit } = stream.pending!;
  const records = one.waiting === 1 ? `one ${unit}` : `${amount(one.waiting)} ${unit}s`;
  // The details of one record are several: messages.
  const isPart = stream.kind === 'detail';
  const what = isPart ? `the ${one.name} of ${records}` : records;
  const s = one.waiting === 1 && !isPart ? 's' : '';
  if (paused || one.state === 'paused') return html`${what} wait${s} until it is resumed`;
  if (one.state === 'failing') return html`${what} wait${s}, because the last tries failed`;
  if (!works) return html`${what} wait${s} for a worker`;
  return html`${what} follow${s}${left === null ? null : html` in ${lasting(left)}`}`;
}

const isFresh = (one: StreamFigures): boolean => declaredOf(one)?.schedule.includes('fresh') === true;

const oldest = (some: readonly StreamFigures[]): Date =>
  new Date(Math.min(...some.map(({ complete_through }) => complete_through!.getTime())));

const listed = (names: readonly string[]): string =>
  names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;

const joined = (parts: readonly Part[], by: string): Part[] =>
  parts.flatMap((part, at) => (at === 0 ? [part] : [by, part]));
