/** Settings of the book catalog, and the configuration that they make. */
import { z } from 'zod';
import {
  address,
  amount,
  baseUrl,
  choice,
  credential,
  type Setting,
  secret,
  usually,
  type ValuesOf,
} from '../../app/setting-types.ts';
import type { Limits } from '../../engine/budget/budget.ts';
import { UsageError } from '../../errors.ts';
import { myLibrary } from './endpoints.ts';
import type { BooksSettings } from './open.ts';

/** Unique ids of users. BOOKS_LIBRARY decides about the shelves of the authenticated user. */
const users = z
  .string()
  .transform(value => [...new Set(value.split(/[\s,]+/).filter(id => id !== ''))])
  .refine(ids => !ids.includes(myLibrary), {
    error: `must not name ${myLibrary}: that is read by itself, as soon as there is a token (BOOKS_LIBRARY)`,
  })
  .refine(ids => ids.every(id => id.length <= 500 && !/^\.\.?$/.test(id)), { error: 'must be ids of users' });

export const booksSettings = {
  BOOKS_BASE_URL: {
    schema: baseUrl('/books/v1').optional(),
    end: '/books/v1',
    says: 'Base address of the book catalog; ends in `/books/v1`. HTTPS, with the same exceptions.',
    secret: true,
  },
  BOOKS_USERS: {
    schema: users.default([]),
    says: 'Ids of the users whose public shelves are mirrored, separated by commas or spaces.',
  },
  BOOKS_API_KEY: secret('API key for public data of the catalog.'),
  BOOKS_ACCESS_TOKEN: secret(
    'Long-lived access token of the user whose own library is mirrored. Without one, set the next three.',
  ),
  BOOKS_CLIENT_ID: {
    schema: credential,
    says: 'Id of the OAuth client that obtains tokens for that user.',
  },
  BOOKS_CLIENT_SECRET: secret('Secret of that OAuth client.'),
  BOOKS_REFRESH_TOKEN: secret("The user's refresh token for that OAuth client."),
  BOOKS_TOKEN_URL: {
    ...usually('https://oauth2.googleapis.com/token', address),
    says: 'Token endpoint of that OAuth client.',
    secret: true,
  },
  BOOKS_LIBRARY: {
    ...usually('true', choice('true', 'false')),
    says: "Whether the user's own library is mirrored if a token is set: true or false.",
  },
  BOOKS_COUNTRY: {
    schema: z
      .string()
      .regex(/^[A-Za-z]{2}$/, { error: 'must be a country of two letters' })
      .transform(value => value.toUpperCase())
      .optional(),
    says: 'Country of prices and sales information, such as DE.',
  },
  BOOKS_REQUESTS_PER_DAY: amount(1, 1000, 'Request quota for any 24 hours.'),
  BOOKS_REQUESTS_PER_SECOND: amount(1, 5, 'Requests per second.'),
  BOOKS_SHELF_AGE_HOURS: amount(1, 168, 'Age in hours after which a shelf is re-read even if it shows no change.'),
  BOOKS_VOLUME_AGE_DAYS: amount(1, 30, 'Age in days after which a volume is fetched in full again.'),
  BOOKS_AUDIT_VOLUMES_PER_HOUR: amount(
    0,
    5,
    'Random volumes per hour that `start` re-reads and compares while requests are idle, plus one shelf per five volumes; 0: none.',
  ),
} as const satisfies Record<string, Setting>;

export interface BooksConfig extends Omit<BooksSettings, 'owners'> {
  baseUrl: URL;
  apiKey?: string | undefined;
  accessToken?: string | undefined;
  /** Instead of a token: credentials to obtain one. */
  refresh?: { clientId: string; clientSecret: string; refreshToken: string; tokenUrl: URL } | undefined;
  users: string[];
  /** Random volumes that an audit compares in an hour; 0: no audit. */
  auditVolumesPerHour: number;
  /** True if the authenticated user's shelves are mirrored: BOOKS_LIBRARY is set, and a token exists. */
  library: boolean;
  country?: string | undefined;
  /** One credit is one request; the period is a day. */
  limits: Limits;
}

/** Part of the catalog in the configuration of an account. */
export interface BooksPart {
  /** Undefined if the catalog is not configured. */
  books: BooksConfig | undefined;
}

const dayMs = 24 * 3_600_000;
const hourMs = 3_600_000;

/** Configuration of the catalog; undefined if nothing of it is set. Throws for contradictory settings. */
export function configOf(value: ValuesOf<typeof booksSettings>, where: string): BooksConfig | undefined {
  const baseUrl = value.BOOKS_BASE_URL;
  const triple = ['BOOKS_CLIENT_ID', 'BOOKS_CLIENT_SECRET', 'BOOKS_REFRESH_TOKEN'] as const;
  if (baseUrl === undefined) {
    const needing = ['BOOKS_API_KEY', 'BOOKS_ACCESS_TOKEN', ...triple].find(
      name => value[name as keyof typeof value] !== undefined,
    );
    const lonely = value.BOOKS_USERS.length > 0 ? 'BOOKS_USERS' : needing;
    if (lonely === undefined) return undefined;
    throw new UsageError(`${lonely} is set, but BOOKS_BASE_URL is not`, `Set BOOKS_BASE_URL as well, ${where}.`);
  }
  const missing = triple.filter(name => value[name] === undefined);
  if (missing.length > 0 && missing.length < triple.length) {
    const given = triple.find(name => value[name] !== undefined);
    throw new UsageError(
      `${given} is set, but ${missing.join(' and ')} ${missing.length > 1 ? 'are' : 'is'} not`,
      `Set all three (${triple.join(', ')}) or none, ${where}.`,
    );
  }
  const accessToken = value.BOOKS_ACCESS_TOKEN;
  if (accessToken !== undefined && missing.length === 0) {
    throw new UsageError(
      'BOOKS_ACCESS_TOKEN and BOOKS_REFRESH_TOKEN are both set',
      `Set one of them, ${where}: a token that lasts, or what gets tokens.`,
    );
  }
  const library = value.BOOKS_LIBRARY === 'true' && (accessToken !== undefined || missing.length === 0);
  if (!library && value.BOOKS_USERS.length === 0) {
    throw new UsageError(
      'BOOKS_BASE_URL is set, but there is nothing to mirror: no users, and no library of your own',
      `Set BOOKS_USERS, or BOOKS_ACCESS_TOKEN or the three of a refresh token with BOOKS_LIBRARY=true, ${where}.`,
    );
  }
  const refresh = {
    clientId: value.BOOKS_CLIENT_ID!,
    clientSecret: value.BOOKS_CLIENT_SECRET!,
    refreshToken: value.BOOKS_REFRESH_TOKEN!,
    tokenUrl: value.BOOKS_TOKEN_URL,
  };
  return {
    baseUrl,
    apiKey: value.BOOKS_API_KEY,
    accessToken,
    refresh: missing.length === 0 ? refresh : undefined,
    users: value.BOOKS_USERS,
    library,
    country: value.BOOKS_COUNTRY,
    limits: {
      credits: value.BOOKS_REQUESTS_PER_DAY,
      periodMs: dayMs,
      requestsPerSecond: value.BOOKS_REQUESTS_PER_SECOND,
      reserve: 0,
    },
    shelfAgeMs: value.BOOKS_SHELF_AGE_HOURS * hourMs,
    volumeAgeMs: value.BOOKS_VOLUME_AGE_DAYS * dayMs,
    auditVolumesPerHour: value.BOOKS_AUDIT_VOLUMES_PER_HOUR,
  };
}
