/** The book catalog as a source. */

import type { OpenSource } from '../../engine/context.ts';
import { detailJobs, pendingOf } from '../../engine/details/detail-jobs.ts';
import { fixedToken, type Token } from '../../engine/http/dialect.ts';
import { refreshedToken } from '../../engine/http/token.ts';
import { isLeftToOthers } from '../../engine/load/list-jobs.ts';
import { UsageError } from '../../errors.ts';
import type { Source } from '../source.ts';
import { booksDialect } from './dialect.ts';
import { myLibrary } from './endpoints.ts';
import { lakeTables } from './lake.ts';
import { type BooksSettings, sourceName } from './open.ts';
import { tables } from './records.ts';
import { type BooksConfig, type BooksPart, booksSettings, configOf } from './settings.ts';
import { shelves } from './shelves/shelves.ts';
import { volumes } from './volumes/volumes.ts';

/** The longest wait for quota. Beyond it the run is deferred and resumes when the quota resets. */
const longestWaitMs = 60_000;

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
      listsOf: source => (source as OpenSource & BooksSettings).owners,
      jobs: {
        sync: {
          read: async (ctx, claim) => (await import('./shelves/shelf-loop.ts')).readShelves(ctx, claim),
          isDone: isLeftToOthers,
        },
        verify: { read: async (ctx, claim) => (await import('./verify/verify.ts')).verifyShelves(ctx, claim) },
      },
    },
    { ...volumes, relations: ['dim_volume'], pending: pendingOf(volumes), jobs: detailJobs(volumes) },
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
    const { baseUrl, apiKey, country, users, library, shelfAgeMs, volumeAgeMs } = access;
    const token = tokenOf(access);
    const owners = library ? [...users, myLibrary] : users;
    return {
      ...{ baseUrl, token, longestWaitMs, lookbackMs: 0 },
      dialect: booksDialect({ apiKey, country, hasToken: token !== undefined }),
      limits: { ...access.limits, evenly: false },
      audit: { perHour: access.auditVolumesPerHour },
      own: { owners, shelfAgeMs, volumeAgeMs } satisfies BooksSettings,
    };
  },
  forecast: async (planning, question) => (await import('./forecast.ts')).partsOfBooks(planning, question),
  checks: async () => ({ area: 'catalog', checks: (await import('./doctor.ts')).catalogChecks }),
  lakeTables,
};

function tokenOf({ accessToken, refresh }: BooksConfig): Token | undefined {
  if (refresh !== undefined) return refreshedToken(refresh);
  return accessToken === undefined ? undefined : fixedToken(accessToken);
}
