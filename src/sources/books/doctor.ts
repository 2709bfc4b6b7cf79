/** Checks of the book catalog: reachability, credentials, quota, and country. */
import type pg from 'pg';
import { limitsTold } from '../../engine/budget/limits-told.ts';
import { query } from '../../engine/database/sql.ts';
import { ShelfdeskError } from '../../errors.ts';
import { answered, fail, ok, type SourceCheck, skipped, warn } from '../../ops/doctor/checks/check.ts';
import { count } from '../../words.ts';
import { getVolume, listShelves, myLibrary } from './endpoints.ts';
import { booksOf } from './open.ts';
import type { BooksPart } from './settings.ts';

const dayMs = 24 * 3_600_000;
const none = 'the book catalog is not configured';
/** Share of the daily requests from which the check warns. */
const nearlySpent = 0.9;

export const catalogChecks: readonly SourceCheck<BooksPart>[] = [
  {
    name: 'catalog',
    looks: 'reachability of the catalog, and its key or token (401, 403); one request',
    needs: ['tables', 'sources of the account'],
    async run(context) {
      if (context.config.books === undefined) return skipped(none);
      const books = booksOf(await context.ctx());
      const [owner] = books.owners;
      const reply = books.send(listShelves(owner!), { lane: 'interactive', signal: context.signal, tries: 1 });
      const whose = owner === myLibrary ? 'the library' : `user ${owner}`;
      return answered(reply, ({ arrived }) =>
        ok(`it answers, and shows ${count(arrived, 'shelf', 'shelves')} of ${whose}`),
      );
    },
  },
  {
    name: 'quota of the catalog',
    looks: 'requests of the last 24 hours against BOOKS_REQUESTS_PER_DAY',
    needs: ['catalog'],
    async run({ config, account, warehouse, server, clock }) {
      const nowMs = clock.now() + (await server()).aheadMs;
      const told = await limitsTold((await warehouse()).pg, account, 'books', new Date(nowMs - dayMs));
      const { credits } = config.books!.limits;
      const used = told?.used ?? 0;
      const says = `${used} of ${count(credits, 'request')} of a day`;
      if (told !== undefined && told.frozen_until.getTime() > nowMs)
        return warn(
          `${says}; it answers nothing before ${told.frozen_until.toISOString().slice(0, 16)}Z`,
          'Wait: a worker resumes then. For more ask the catalog for a larger quota, and set BOOKS_REQUESTS_PER_DAY.',
        );
      if (used >= credits * nearlySpent)
        return warn(
          says,
          'Ask the catalog for a larger quota and set BOOKS_REQUESTS_PER_DAY, or raise BOOKS_VOLUME_AGE_DAYS.',
        );
      return ok(says);
    },
  },
  {
    name: 'country of the catalog',
    looks: 'whether the catalog requires BOOKS_COUNTRY; one request if it is not set',
    needs: ['catalog'],
    async run(context) {
      const { books } = context.config;
      if (books?.country !== undefined) return ok(books.country);
      const id = await someVolume((await context.warehouse()).pg, context.account);
      if (id === undefined)
        return skipped('BOOKS_COUNTRY is not set; a volume would tell whether it is needed, and none is here');
      try {
        const source = booksOf(await context.ctx());
        await source.send(getVolume(id), { lane: 'interactive', signal: context.signal, tries: 1 });
        return ok('BOOKS_COUNTRY is not set, and not asked for; prices are those of the country where this machine is');
      } catch (error) {
        if (!(error instanceof ShelfdeskError)) throw error;
        if (error.remedy.includes('BOOKS_COUNTRY')) return fail(error.message, error.remedy);
        return skipped(`BOOKS_COUNTRY is not set; whether it is needed the catalog did not tell: ${error.message}`);
      }
    },
  },
];

/** Any stored volume. */
const someVolume = (db: pg.Pool, account: string): Promise<string | undefined> =>
  query(db).value<string>`
    select id from books.volumes where account_id = ${account} and _deleted_at is null order by id limit 1`;
