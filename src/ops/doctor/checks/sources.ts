/** Checks of sources without checks of their own: reachability and credentials. */
import { ShelfdeskError, Spent } from '../../../errors.ts';
import { sources } from '../../../sources/index.ts';
import { count } from '../../../words.ts';
import { type Check, fail, ok, warn } from './check.ts';

export const sourceChecks: readonly Check[] = sources
  .filter(source => source.schemaFiles !== undefined)
  .map(source => ({
    name: source.label,
    area: 'sources',
    of: 'account',
    looks: 'that the address answers, and takes the credentials (401, 403); one request',
    needs: ['tables', 'sources of the account'],
    async run(context) {
      const open = (await context.ctx()).sources.get(source.name);
      if (open === undefined) return { state: 'skipped', says: `${source.label} is not configured` };
      const stream = source.streams.find(({ kind }) => kind === 'list');
      if (stream?.kind !== 'list') return { state: 'skipped', says: 'it has no list to ask for' };
      const request = stream.request(stream.lists[0].name, { page: 1, perPage: stream.paging.perPage });
      try {
        const { arrived } = await open.send(request, { lane: 'interactive', signal: context.signal, tries: 1 });
        return ok(`it answers, and shows ${count(arrived, 'record')} of ${stream.name}`);
      } catch (error) {
        if (error instanceof Spent) return warn(error.message, 'Wait: the next run resumes when the quota resets.');
        if (!(error instanceof ShelfdeskError)) throw error;
        const { address } = source;
        return fail(
          error.message,
          error.name === 'Retry' ? `Check ${address}, and that this machine reaches it.` : error.remedy,
        );
      }
    },
  }));
