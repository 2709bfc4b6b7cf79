/**
 * Everything on which the specifications are silent, and every number that somebody may want otherwise, in one table:
 * the services have their options and defaults from it, the command line its flags, the page and the documents their
 * rows. A new switch is a row here and its use.
 */

type Service = 'helpdesk' | 'books';

interface Row {
  service: Service;
  /** The option of the service (of its world, where it is the world that differs). */
  name: string;
  flag: `--${string}`;
  /** What it decides, in a line. */
  says: string;
}

/** One of a few words. */
export interface Choice extends Row {
  /** The word on the command line → the value of the option. */
  values: Readonly<Record<string, unknown>>;
  /** One of the words. */
  default: string;
}

/** Any number of the words, comma separated; none by default. */
export interface Several extends Row {
  of: readonly string[];
}

/** A whole number. */
export interface Quantity extends Row {
  /** Of what, in the plural. */
  unit: string;
  default: number;
  /** Default 1. */
  least?: number;
  /** Words that stand for a number, such as `unlimited`. */
  words?: Readonly<Record<string, number>>;
  /** Whether it is a limit of the service rather than a reading of its specification. */
  limit?: true;
}

export type Switch = Choice | Several | Quantity;

const UNLIMITED = { unlimited: Number.POSITIVE_INFINITY };

export const SWITCHES = [
  // --- help desk: limits (spec/help-desk-api.md, section 8) -----------------------------------------------------------
  {
    service: 'helpdesk',
    name: 'credits',
    flag: '--credits',
    unit: 'credits',
    default: 100,
    limit: true,
    says: 'credits of the whole account in a period',
  },
  {
    service: 'helpdesk',
    name: 'periodSeconds',
    flag: '--period',
    unit: 'seconds',
    default: 60,
    limit: true,
    says: 'how long the period is',
  },
  {
    service: 'helpdesk',
    name: 'requestsPerSecond',
    flag: '--requests-per-second',
    unit: 'requests',
    default: 6,
    limit: true,
    says: 'requests of the whole account in any second',
  },
  {
    service: 'helpdesk',
    name: 'depth',
    flag: '--depth',
    unit: 'records',
    default: 10_000,
    limit: true,
    says: 'how deep `page` reaches into a list',
  },
  {
    service: 'helpdesk',
    name: 'mostBodyBytes',
    flag: '--most-body-bytes',
    unit: 'bytes',
    default: 16 * 1024 * 1024,
    limit: true,
    says: 'how long a body may be (413 beyond)',
  },
  // --- help desk: silence ---------------------------------------------------------------------------------------------
  {
    service: 'helpdesk',
    name: 'window',
    flag: '--window',
    values: { fixed: 'fixed', sliding: 'sliding' },
    default: 'fixed',
    says: 'how the period moves: one behind the other from the start, or each credit comes back a period after its use',
  },
  {
    service: 'helpdesk',
    name: 'chargeErrors',
    flag: '--errors',
    values: { charged: true, free: false },
    default: 'charged',
    says: 'whether an answer of the 400 series uses its credits (a 401 never does, of a 429 see --refused)',
  },
  {
    service: 'helpdesk',
    name: 'chargeRefused',
    flag: '--refused',
    values: { charged: true, free: false },
    default: 'free',
    says: 'whether a 429 uses its credits all the same',
  },
  {
    service: 'helpdesk',
    name: 'sinceInclusive',
    flag: '--since',
    values: { inclusive: true, exclusive: false },
    default: 'inclusive',
    says: 'whether since_* includes its own second',
  },
  {
    service: 'helpdesk',
    name: 'spamListed',
    flag: '--spam',
    values: { listed: true, hidden: false },
    default: 'listed',
    says: 'whether a list that was not asked about spam shows it',
  },
  {
    service: 'helpdesk',
    name: 'trashListed',
    flag: '--trash',
    values: { listed: true, hidden: false },
    default: 'listed',
    says: 'whether a list that was not asked about trash shows it',
  },
  {
    service: 'helpdesk',
    name: 'beyondDepth',
    flag: '--beyond-depth',
    values: { error: 'error', empty: 'empty' },
    default: 'error',
    says: 'what a page beyond the depth answers: 422, or an empty list',
  },
  {
    service: 'helpdesk',
    name: 'totalCountCap',
    flag: '--total-count-cap',
    unit: 'records',
    default: Number.POSITIVE_INFINITY,
    least: 0,
    words: UNLIMITED,
    says: 'where Total-Count stops counting',
  },
  {
    service: 'helpdesk',
    name: 'emptyPut',
    flag: '--empty-put',
    values: { refused: 'refused', accepted: 'accepted' },
    default: 'refused',
    says: 'what a PUT without body and content type answers: 415, as section 7 can be read, or what it would with one',
  },
  {
    service: 'helpdesk',
    name: 'quietly',
    flag: '--quiet',
    of: ['reply', 'note', 'labels', 'state', 'archive', 'wake'],
    says: 'kinds of change that leave `updated_at` alone (wake: the end of a snooze)',
  },
  {
    service: 'helpdesk',
    name: 'archiveHours',
    flag: '--archive-after',
    unit: 'hours',
    default: 0,
    least: 0,
    words: { never: 0 },
    says: 'when a closed ticket to which nothing happens is archived',
  },
  {
    service: 'helpdesk',
    name: 'archivedReopens',
    flag: '--reply-to-archived',
    values: { stays: false, reopens: true },
    default: 'stays',
    says: "whether a customer's reply opens an archived ticket too, as it does held, snoozed and closed ones",
  },
  {
    service: 'helpdesk',
    name: 'attachmentHours',
    flag: '--uploads-live',
    unit: 'hours',
    default: 24,
    least: 0,
    words: { forever: 0 },
    says: 'how long an attachment waits for a message before it is deleted',
  },
  {
    service: 'helpdesk',
    name: 'spamAndTrash',
    flag: '--spam-and-trash',
    values: { refused: 'refused', replaced: 'replaced' },
    default: 'refused',
    says: 'what `spam: true` does to a ticket in the trash, and the reverse: 422, or the new one lifts the old one',
  },
  {
    service: 'helpdesk',
    name: 'contactsUnique',
    flag: '--same-contact',
    values: { refused: true, shared: false },
    default: 'refused',
    says: 'whether two customers may have the same contact, or the second one is refused (422)',
  },
  {
    service: 'helpdesk',
    name: 'emailCase',
    flag: '--email-case',
    values: { ignored: 'ignored', exact: 'exact' },
    default: 'ignored',
    says: 'whether mail addresses that differ in case are the same contact',
  },
  {
    service: 'helpdesk',
    name: 'patchedContacts',
    flag: '--patched-contacts',
    values: { replaced: 'replaced', added: 'added' },
    default: 'replaced',
    says: 'what the contacts in a PATCH of a customer do to those that are there (the same contact keeps its id)',
  },
  // --- book catalog: limits (its specification shows none) ------------------------------------------------------------
  {
    service: 'books',
    name: 'requestsPerDay',
    flag: '--books-per-day',
    unit: 'requests',
    default: 1000,
    limit: true,
    says: 'requests that the catalog allows a day',
  },
  {
    service: 'books',
    name: 'requestsPerSecond',
    flag: '--books-per-second',
    unit: 'requests',
    default: 5,
    limit: true,
    says: 'requests that it allows in any second',
  },
  {
    service: 'books',
    name: 'daySeconds',
    flag: '--books-day',
    unit: 'seconds',
    default: 86_400,
    limit: true,
    says: 'how long its day is; the first one begins with the server',
  },
  {
    service: 'books',
    name: 'tokenSeconds',
    flag: '--books-token-lives',
    unit: 'seconds',
    default: 3600,
    limit: true,
    says: 'how long an access token lives that was given for the refresh token',
  },
  // --- book catalog: silence ------------------------------------------------------------------------------------------
  {
    service: 'books',
    name: 'totalItems',
    flag: '--books-total-items',
    values: { wanders: 'wanders', true: 'true', missing: 'missing' },
    default: 'wanders',
    says: 'what totalItems of volumes says: something near the truth, the truth, or nothing',
  },
  {
    service: 'books',
    name: 'shelfDates',
    flag: '--books-shelf-dates',
    values: { shown: true, missing: false },
    default: 'shown',
    says: 'whether lists of shelves show volumesLastUpdated',
  },
  {
    service: 'books',
    name: 'moveShows',
    flag: '--books-move',
    values: { shows: true, silent: false },
    default: 'shows',
    says: 'whether a move within a shelf changes volumesLastUpdated',
  },
  {
    service: 'books',
    name: 'countryNeeded',
    flag: '--books-country',
    values: { optional: false, needed: true },
    default: 'optional',
    says: 'whether volumes are refused (403 unknownLocation) to who does not say `country`',
  },
  {
    service: 'books',
    name: 'unknownUser',
    flag: '--books-unknown-user',
    values: { 400: 400, 404: 404 },
    default: '400',
    says: 'the status for a user that does not exist',
  },
  {
    service: 'books',
    name: 'posts',
    flag: '--books-posts',
    values: { 200: 200, 204: 204 },
    default: '200',
    says: 'what an operation that changes answers: 200 with {}, as the types of the public client have it, or 204',
  },
  {
    service: 'books',
    name: 'tooFast',
    flag: '--books-too-fast',
    values: { 403: 403, 429: 429 },
    default: '429',
    says: 'the status for who asks too often in a second',
  },
  {
    service: 'books',
    name: 'retryAfter',
    flag: '--books-retry-after',
    values: { absent: false, sent: true },
    default: 'absent',
    says: 'whether a refusal for a limit says Retry-After',
  },
  {
    service: 'books',
    name: 'searchDepth',
    flag: '--books-search-depth',
    unit: 'volumes',
    default: 1000,
    least: 0,
    words: UNLIMITED,
    says: 'how many volumes of a search can be paged through, whatever totalItems says',
  },
  {
    service: 'books',
    name: 'fieldsChecked',
    flag: '--books-fields',
    values: { lenient: false, strict: true },
    default: 'lenient',
    says: 'what a name in `fields` gets that no reply has: silence, or 400',
  },
  {
    service: 'books',
    name: 'parametersChecked',
    flag: '--books-parameters',
    values: { lenient: false, strict: true },
    default: 'lenient',
    says: 'what a parameter gets that the operation does not know: silence, or 400',
  },
  {
    service: 'books',
    name: 'userInfo',
    flag: '--books-user-info',
    values: { none: 'none', steady: 'steady', varies: 'varies' },
    default: 'none',
    says: 'whether volumes on shelves of my library have userInfo, and whether it differs from reply to reply',
  },
  {
    service: 'books',
    name: 'fixedShelvesLocked',
    flag: '--books-fixed-shelves',
    values: { open: false, locked: true },
    default: 'open',
    says: 'whether Purchased, Reviewed, Recently viewed, My eBooks and Books for you refuse changes (403)',
  },
  {
    service: 'books',
    name: 'addedAgain',
    flag: '--books-added-again',
    values: { stays: 'stays', moves: 'moves' },
    default: 'stays',
    says: 'where a volume goes that is added to a shelf that has it: nowhere, or to the front',
  },
  {
    service: 'books',
    name: 'absentVolume',
    flag: '--books-absent-volume',
    values: { 404: 404, done: 'done' },
    default: '404',
    says: 'what removing or moving a volume answers that is not on the shelf: 404, or as if it had been done',
  },
] as const satisfies readonly Switch[];

type Rows = (typeof SWITCHES)[number];

type ValueOf<R> = R extends { values: infer V }
  ? V[keyof V]
  : R extends { of: readonly (infer W)[] }
    ? readonly W[]
    : number;

/** All switches of a service, each with a value. */
export type Settled<S extends Service> = {
  [R in Extract<Rows, { service: S }> as R['name']]: ValueOf<R>;
};

export const switchesOf = (service: Service): readonly Switch[] => SWITCHES.filter(row => row.service === service);

/** What holds where nobody says otherwise, as a value of the option. */
export function defaultOf(row: Switch): unknown {
  if ('values' in row) return row.values[row.default];
  return 'of' in row ? [] : row.default;
}

/** Each switch of a service as the options have it, or else by default. */
export function settled<S extends Service>(service: S, options: Partial<Settled<S>>): Settled<S> {
  const given = options as Record<string, unknown>;
  const values = switchesOf(service).map(row => [row.name, given[row.name] ?? defaultOf(row)]);
  return Object.fromEntries(values) as Settled<S>;
}

/** A value as it is written on the command line. */
export function wordFor(row: Switch, value: unknown): string {
  if ('of' in row) return (value as readonly string[]).join(',') || 'none';
  const named = Object.entries('values' in row ? row.values : (row.words ?? {}));
  return named.find(([, meant]) => meant === value)?.[0] ?? String(value);
}

/** Reads a word of the command line. Throws what is wrong with it, as a sentence. */
export function readWord(row: Switch, word: string): unknown {
  if ('values' in row) {
    if (Object.hasOwn(row.values, word)) return row.values[word];
    throw new Error(`It must be one of ${Object.keys(row.values).join(', ')}.`);
  }
  if ('of' in row) {
    const words = word === 'none' ? [] : word.split(',').map(one => one.trim());
    if (words.every(one => row.of.includes(one))) return words;
    throw new Error(`It must be some of ${row.of.join(', ')}, comma separated, or none.`);
  }
  if (row.words && Object.hasOwn(row.words, word)) return row.words[word];
  const least = row.least ?? 1;
  if (/^\d{1,15}$/.test(word) && Number(word) >= least) return Number(word);
  const others = Object.keys(row.words ?? {}).map(one => ` or "${one}"`);
  throw new Error(`It must be a whole number of ${row.unit}, ${least} or more${others.join('')}.`);
}
