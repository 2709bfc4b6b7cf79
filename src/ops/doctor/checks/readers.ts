/** Checks of the readers: each has the rights that it was given, and no others. */
import { publicMayCreate, readersOf, stoppedDumpers, unfilteredViews } from '../../../privacy/readers.ts';
import { count } from '../../../words.ts';
import type { Check } from '../doctor-context.ts';
import { ok, warn } from './check.ts';

export const readerChecks: readonly Check[] = [
  {
    name: 'readers',
    looks: 'logins of readers, which must not create tables, and rights of backup roles',
    needs: ['tables'],
    async run({ warehouse }) {
      const { pg } = await warehouse();
      const readers = await readersOf(pg);
      const found = readers
        .filter(({ state }) => state !== 'let in')
        .map(({ reader, state }) =>
          warn(
            state === 'gone'
              ? `the role of reader ${reader} is gone from the server`
              : `reader ${reader} may not log in, or has lost its rights`,
            `\`npx shelfdesk warehouse reader revoke ${reader}\`; then, if it is to read, \`npx shelfdesk warehouse reader create ${reader}\`.`,
          ),
        );
      for (const name of await stoppedDumpers(pg))
        found.push(
          warn(
            `role ${name} may read everything, but row-level security stops its pg_dump`,
            `If it makes backups, as a superuser: \`alter role ${name} bypassrls\`.`,
          ),
        );
      const unfiltered = readers.some(({ pii }) => pii) ? await unfilteredViews(pg) : [];
      if (unfiltered.length > 0)
        found.push(
          warn(
            `readers with --pii cannot read ${unfiltered.join(', ')}`,
            'Others were given these, and see every account in them. As their owner: `alter view … set (security_invoker = true)` for each, then `npx shelfdesk migrate`.',
          ),
        );
      if (readers.length > 0 && (await publicMayCreate(pg)))
        found.push(
          warn(
            'everybody who may log in can make tables in schema public of this database, readers as well',
            'As its owner: `revoke create on schema public from public`.',
          ),
        );
      if (found.length > 0) return found;
      return ok(readers.length === 0 ? 'nobody was let in' : `${count(readers.length, 'reader')} let in`);
    },
  },
];
