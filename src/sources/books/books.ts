/** The book catalog as a source. */

import { detailJobs, pendingOf } from '../../engine/details/detail-jobs.ts';
import { fixedToken, type Token } from '../../engine/http/dialect.ts';
import { refreshedToken } from '../../engine/http/token.ts';
import { isLeftToOthers } from '../../engine/load/list-jobs.ts';
import { UsageError } from '../../errors.ts';
import type { Source } from '../source.ts';
import { booksDialect } from './dialect.ts';
import { myLibrary } from './endpoints.ts';
import { lakeTables } from './lake.ts';
import { type BooksSettings, booksOf, sourceName } from './open.ts';
import { tables } from './records.ts';
import { type BooksConfig, type BooksPart, booksSettings, configOf } from './settings.ts';
import { shelves } from './shelves/shelves.ts';
import { volumes } from './volumes/volumes.ts';

/** The longest wait for quota. Beyond it the run is deferred and resumes when the quota resets. */
const longestWaitMs = 60_000;

const ownOf = (source: unknown) => source as BooksSettings;

/** Volumes that an audit compares for each shelf. A shelf costs one request, plus one for each page of its volumes. */
const volumesToShelf = 5;

const shelfVerify = () => import('./verify/verify.ts');
const volumeVerify = () => import('../../engine/verify/verify-by-id.ts');

export const books: Source<BooksPart> = {
  name: sourceName,
  label: 'the book catalog',
  unit: 'request',
  settings: booksSettings,
  address: 'BOOKS_BASE_URL',
  requires: 'BOOKS_BASE_URL, and BOOKS_USERS or a token',
  configure: (values, { whereTo }) => ({ books: configOf(values, whereTo) }),
  contradictions: (values, { whereTo }) => {
    try {
      configOf(values, whereTo);
      return [];
    } catch (error) {
      if (error instanceof UsageError) return [error];
      throw error;
    }
  },
  identityOf: ({ books: access }) => {
    const secret = access?.accessToken ?? access?.refresh?.refreshToken;
    return secret === undefined ? undefined : JSON.stringify([access!.baseUrl.href, secret]);
  },
  tables,
  uses: { 'question shelves': { shelves: ['title'], volumes: ['volumeInfo', 'saleInfo'] } },
  streams: [
    {
      ...shelves,
      relations: ['shelf_volumes', 'shelf_volume_history', 'shelf_events', 'dim_shelf', 'fact_shelf_volumes'],
      beneath: ['books.shelf_volumes', 'books.shelf_volume_history'],
      sampled: true,
      listsOf: source => ownOf(source).owners,
      jobs: {
        sync: {
          read: async (ctx, claim) => (await import('./shelves/shelf-loop.ts')).readShelves(ctx, claim),
          isDone: isLeftToOthers,
        },
        verify: { read: async (ctx, claim) => (await shelfVerify()).verifyShelves(ctx, claim) },
        audit: {
          async read(ctx, claim) {
            const sample = Math.ceil(booksOf(ctx).auditVolumesPerHour / volumesToShelf);
            return (await shelfVerify()).verifyShelves(ctx, claim, { sample, repair: true });
          },
        },
      },
    },
    {
      ...volumes,
      relations: ['dim_volume'],
      sampled: true,
      pending: pendingOf(volumes),
      jobs: {
        ...detailJobs(volumes),
        verify: { read: async (ctx, claim) => (await volumeVerify()).verifyById(ctx, claim, volumes) },
        audit: {
          async read(ctx, claim) {
            const { auditVolumesPerHour: sample } = booksOf(ctx);
            return (await volumeVerify()).verifyById(ctx, claim, volumes, { sample, repair: true });
          },
        },
      },
    },
  ],
  settingsFrom({ address, lists }) {
    const owners = lists.get(shelves.name) ?? [];
    const users = owners.filter(owner => owner !== myLibrary);
    if (owners.length === 0) return {};
    return {
      BOOKS_BASE_URL: address.href,
      BOOKS_USERS: users.join(),
      // Nothing is sent with this token.
      ...(users.length < owners.length && { BOOKS_ACCESS_TOKEN: 'unknown', BOOKS_LIBRARY: 'true' }),
    };
  },
  connect({ books: access }) {
    if (access === undefined) return undefined;
    const { baseUrl, apiKey, country, users, library, shelfAgeMs, volumeAgeMs, auditVolumesPerHour } = access;
    const token = tokenOf(access);
    const owners = library ? [...users, myLibrary] : users;
    return {
      ...{ baseUrl, token, longestWaitMs, lookbackMs: 0 },
      dialect: booksDialect({ apiKey, country, hasToken: token !== undefined }),
      limits: { ...access.limits, evenly: false },
      own: { owners, shelfAgeMs, volumeAgeMs, auditVolumesPerHour } satisfies BooksSettings,
    };
  },
  forecast: async (planning, question) => (await import('./forecast.ts')).partsOfBooks(planning, question),
  checks: async () => ({ area: 'catalog', checks: (await import('./doctor.ts')).catalogChecks }),
  lakeTables,
  audit: {
    streams: [shelves.key, volumes.key],
    beside: [],
    isWanted: source => ownOf(source).auditVolumesPerHour > 0,
    isThere: 'select from books.volumes v where v.account_id = $1 and v._checked_at is not null',
    othersWant: 'select from sync.waiting_volumes w where w.account_id = $1 and not w.rejected',
  },
};

function tokenOf({ accessToken, refresh }: BooksConfig): Token | undefined {
  if (refresh !== undefined) return refreshedToken(refresh);
  return accessToken === undefined ? undefined : fixedToken(accessToken);
}
