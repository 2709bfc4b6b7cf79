/** Arguments that several commands share: parsers, defaults and groups of streams. */
import { InvalidArgumentError } from 'commander';
import { moment } from '../app/setting-types.ts';
import { systemClock } from '../clock.ts';
import { streams } from '../sources/index.ts';

/** Records of a sample of `verify` by default. */
export const defaultSample = 100;

/** Streams that are read as lists, not record by record. */
export const listStreams = streams.filter(stream => !('of' in stream)).map(({ key }) => key);

/** Parses a time in the format of HELPDESK_SINCE. Throws InvalidArgumentError. */
export function parseTime(text: string): Date {
  const { success, data } = moment.safeParse(text);
  if (success) return new Date(data);
  throw new InvalidArgumentError('It must be a day such as 2024-01-31, or a time such as 2024-01-31T12:00:00Z.');
}

/** Parses a time that is over, as the start of a range. Throws InvalidArgumentError. */
export function parsePast(text: string): Date {
  const time = parseTime(text);
  if (time.getTime() <= systemClock.now()) return time;
  throw new InvalidArgumentError('It is in the future, where nothing has changed yet.');
}

/** Of fifteen digits every number is exact. Runs, rejects and snapshots may have numbers that long. */
const mostExact = 999_999_999_999_999;

/** Parses a whole number. `what`: what it must be, for the InvalidArgumentError of any other text. */
export const parseNumber =
  (what: string, { least = 1, most = mostExact } = {}) =>
  (text: string): number => {
    if (/^\d{1,15}$/.test(text) && Number(text) >= least && Number(text) <= most) return Number(text);
    throw new InvalidArgumentError(`It must be ${what}.`);
  };

export const parseCount = parseNumber('a number, 1 or more');
