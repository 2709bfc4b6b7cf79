/**
 * Everything on which the specification of the book catalog is silent, and every number that somebody may want
 * otherwise: one row for each (see ../switches.ts).
 */
import type { Switch } from '../switches.ts';

const UNLIMITED = { unlimited: Number.POSITIVE_INFINITY };

export const BOOKS_SWITCHES = [
  // --- limits (the specification shows none) ----------------------------------------------------------------------------
  {
    name: 'requestsPerDay',
    flag: '--books-per-day',
    unit: 'requests',
    default: 1000,
    limit: true,
    says: 'requests that the catalog allows a day',
  },
  {
    name: 'requestsPerSecond',
    flag: '--books-per-second',
    unit: 'requests',
    default: 5,
    limit: true,
    says: 'requests that it allows in any second',
  },
  {
    name: 'daySeconds',
    flag: '--books-day',
    unit: 'seconds',
    default: 86_400,
    limit: true,
    says: 'how long its day is; the first one begins with the server',
  },
  {
    name: 'tokenSeconds',
    flag: '--books-token-lives',
    unit: 'seconds',
    default: 3600,
    limit: true,
    says: 'how long an access token lives that was given for the refresh token',
  },
  // --- silence -----------------------------------------------------------------------------------------------------------
  {
    name: 'totalItems',
    flag: '--books-total-items',
    values: { wanders: 'wanders', true: 'true', missing: 'missing' },
    default: 'wanders',
    says: 'what totalItems of volumes says: something near the truth, the truth, or nothing',
  },
  {
    name: 'shelfDates',
    flag: '--books-shelf-dates',
    values: { shown: true, missing: false },
    default: 'shown',
    says: 'whether lists of shelves show volumesLastUpdated',
  },
  {
    name: 'moveShows',
    flag: '--books-move',
    values: { shows: true, silent: false },
    default: 'shows',
    says: 'whether a move within a shelf changes volumesLastUpdated',
  },
  {
    name: 'countryNeeded',
    flag: '--books-country',
    values: { optional: false, needed: true },
    default: 'optional',
    says: 'whether volumes are refused (403 unknownLocation) to who does not say `country`',
  },
  {
    name: 'keyNeeded',
    flag: '--books-keyless',
    values: { answered: false, refused: true },
    default: 'answered',
    says: 'what a public read without key and token gets: its answer, for only mylibrary is said to need a caller, or 403',
  },
  {
    name: 'unknownUser',
    flag: '--books-unknown-user',
    values: { 400: 400, 404: 404 },
    default: '400',
    says: 'the status for a user that does not exist',
  },
  {
    name: 'posts',
    flag: '--books-posts',
    values: { 200: 200, 204: 204 },
    default: '200',
    says: 'what an operation that changes answers: 200 with {}, as the types of the public client have it, or 204',
  },
  {
    name: 'tooFast',
    flag: '--books-too-fast',
    values: { 403: 403, 429: 429 },
    default: '429',
    says: 'the status for who asks too often in a second',
  },
  {
    name: 'retryAfter',
    flag: '--books-retry-after',
    values: { absent: false, sent: true },
    default: 'absent',
    says: 'whether a refusal for a limit says Retry-After',
  },
  {
    name: 'searchDepth',
    flag: '--books-search-depth',
    unit: 'volumes',
    default: 1000,
    least: 0,
    words: UNLIMITED,
    says: 'how many volumes of a search can be paged through, whatever totalItems says',
  },
  {
    name: 'fieldsChecked',
    flag: '--books-fields',
    values: { lenient: false, strict: true },
    default: 'lenient',
    says: 'what a name in `fields` gets that no reply has: silence, or 400',
  },
  {
    name: 'parametersChecked',
    flag: '--books-parameters',
    values: { lenient: false, strict: true },
    default: 'lenient',
    says: 'what a parameter gets that the operation does not know: silence, or 400',
  },
  {
    name: 'userInfo',
    flag: '--books-user-info',
    values: { none: 'none', steady: 'steady', varies: 'varies' },
    default: 'none',
    says: 'whether volumes on shelves of my library have userInfo, and whether it differs from reply to reply',
  },
  {
    name: 'fixedShelvesLocked',
    flag: '--books-fixed-shelves',
    values: { open: false, locked: true },
    default: 'open',
    says: 'whether Purchased, Reviewed, Recently viewed, My eBooks and Books for you refuse changes (403)',
  },
  {
    name: 'addedAgain',
    flag: '--books-added-again',
    values: { stays: 'stays', moves: 'moves' },
    default: 'stays',
    says: 'where a volume goes that is added to a shelf that has it: nowhere, or to the front',
  },
  {
    name: 'absentVolume',
    flag: '--books-absent-volume',
    values: { 404: 404, done: 'done' },
    default: '404',
    says: 'what removing or moving a volume answers that is not on the shelf: 404, or as if it had been done',
  },
] as const satisfies readonly Switch[];
