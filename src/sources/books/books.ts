/** The book catalog as a source. */

import { detailJobs, pendingOf } from '../../engine/details/detail-jobs.ts';
import { fixedToken, type Token } from '../../engine/http/dialect.ts';
import { refreshedToken } from '../../engine/http/token.ts';
import { isLeftToOthers } from '../../engine/load/list-jobs.ts';
import { UsageError } from '../../errors.ts';
import type { Source, StreamJobs } from '../source.ts';
import { booksDialect } from './dialect.ts';
import { myLibrary } from './endpoints.ts';
import { lakeTables } from './lake.ts';
import { type BooksSettings, sourceName } from './open.ts';
import { tables } from './records.ts';
import { type BooksConfig, type BooksPart, booksOf, booksSettings } from './settings.ts';
import { shelves } from './shelves/shelves.ts';
import type { Catalog } from './verify/compare.ts';
import { volumes } from './volumes/volumes.ts';

/** The longest wait for quota. Beyond it the run is deferred and resumes when the quota resets. */
const longestWaitMs = 60_000;

const ownOf = (source: unknown) => source as BooksSettings;

function makeBooks(catalog: Catalog): Source<BooksPart> {
  const verify: StreamJobs['verify'] = {
    read: async (ctx, claim) => (await import('./verify/verify.ts')).verifyBooks(ctx, claim, catalog),
  };
  const audit: StreamJobs['audit'] = {
    read: async (ctx, claim) => (await import('./verify/audit.ts')).auditBooks(ctx, claim, catalog),
  };
  return {
    name: sourceName,
    label: 'the book catalog',
    unit: 'request',
    settings: booksSettings,
    address: 'BOOKS_BASE_URL',
    requires: 'BOOKS_BASE_URL, and BOOKS_USERS or a token',
    configure: (values, { whereTo }) => ({ books: booksOf(values, whereTo) }),
    contradictions: (values, { whereTo }) => {
      try {
        booksOf(values, whereTo);
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
        ...catalog.shelves,
        relations: ['shelf_volumes', 'shelf_volume_history', 'shelf_events', 'dim_shelf', 'fact_shelf_volumes'],
        beneath: ['books.shelf_volumes', 'books.shelf_volume_history'],
        sampled: true,
        listsOf: source => ownOf(source).owners,
        jobs: {
          sync: {
            read: async (ctx, claim) =>
              (await import('./shelves/shelf-loop.ts')).readShelves(ctx, claim, catalog.shelves),
            isDone: isLeftToOthers,
          },
          verify,
          audit,
        },
      },
      {
        ...catalog.volumes,
        relations: ['dim_volume'],
        sampled: true,
        pending: pendingOf(catalog.volumes),
        jobs: { ...detailJobs(catalog.volumes), verify, audit },
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
      const { apiKey, country, users, library, shelfAgeMs, volumeAgeMs, auditVolumesPerHour } = access;
      const token = tokenOf(access);
      const own: BooksSettings = {
        owners: library ? [...users, myLibrary] : users,
        ...{ shelfAgeMs, volumeAgeMs, auditVolumesPerHour },
      };
      return {
        baseUrl: access.baseUrl,
        dialect: booksDialect({
          ...(apiKey !== undefined && { apiKey }),
          ...(country !== undefined && { country }),
          hasToken: token !== undefined,
        }),
        token,
        limits: { ...access.limits, evenly: false },
        lookbackMs: 0,
        longestWaitMs,
        own,
      };
    },
    async forecast(planning, question) {
      const { streams: names } = question;
      const { partsOfBooks } = await import('./forecast.ts');
      const isSync = question.kind === 'sync';
      const again = question.kind === 'backfill' && question.range.again;
      return partsOfBooks(planning, catalog, { names, isSync, again });
    },
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
}

export const books = makeBooks({ shelves, volumes });

function tokenOf({ accessToken, refresh }: BooksConfig): Token | undefined {
  if (refresh !== undefined) return refreshedToken(refresh);
  return accessToken === undefined ? undefined : fixedToken(accessToken);
}
