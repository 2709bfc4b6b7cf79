/** Checks of every source: what its streams cannot tell; and whether it answers, if it declares no checks of its own. */
import { cannotOf } from '../../../sources/cannot.ts';
import { sources } from '../../../sources/index.ts';
import { count } from '../../../words.ts';
import type { Check } from '../doctor-context.ts';
import { shortPages } from '../doctor-state.ts';
import { answered, ok, skipped, warn } from './check.ts';

const asked = sources.filter(source => source.checks === undefined);

function perPageOf({ streams }: (typeof sources)[number], name: string): number {
  const stream = streams.find(one => one.name === name);
  if (stream?.kind === 'list') return stream.paging.perPage;
  return stream && 'perPage' in stream ? stream.perPage : 0;
}

export const sourceChecks: readonly Check[] = [
  ...sources.map(
    (source): Check => ({
      name: `streams of ${source.label}`,
      of: 'account',
      looks: 'limits of the mirror, such as unknown deletions',
      needs: ['settings'],
      run: ({ config }) => {
        if (source.connect(config) === undefined) return skipped(`${source.label} is not configured`);
        const cannot = source.streams.flatMap(cannotOf);
        return ok(
          cannot.length === 0 ? 'deletions of all streams are found, and all rows can be compared' : cannot.join(' '),
        );
      },
    }),
  ),
  ...sources.map(
    (source): Check => ({
      name: `pages of ${source.label}`,
      of: 'account',
      looks: 'pages with fewer records than were asked for, though others follow, as runs have met them',
      needs: ['tables'],
      async run(context) {
        if (source.connect(context.config) === undefined) return skipped(`${source.label} is not configured`);
        const known = await shortPages((await context.warehouse()).pg, context.account, source.name);
        // A list may count its ends because the pages of another list vary.
        const short = known.filter(({ stream, size, varies }) => varies || size < perPageOf(source, stream));
        if (short.length === 0) return ok('pages are as long as they are asked to be, as far as runs have seen');
        const lists = short.map(({ stream, list, size, varies }) => {
          const of = list === 'default' ? stream : `${stream} (${list})`;
          return `${of}: ${varies ? `pages of different sizes, up to ${size}` : `${count(size, 'record')} a page`}`;
        });
        return warn(
          `it answers fewer records than it is asked for, though others follow (${lists.join('; ')})`,
          'Nothing is lost: lists are read to their proven end. It costs requests; ask the support of the source for its page size, and whether it leaves out records.',
        );
      },
    }),
  ),
  ...asked.map(
    (source): Check => ({
      name: source.label,
      of: 'account',
      looks: 'reachability of the source, and its credentials (401, 403); one request',
      needs: ['tables', 'sources of the account'],
      async run(context) {
        const open = (await context.ctx()).sources.get(source.name);
        if (open === undefined) return skipped(`${source.label} is not configured`);
        const stream = source.streams.find(({ kind }) => kind === 'list');
        if (stream?.kind !== 'list') return skipped('it has no list to ask for');
        const request = stream.request(stream.lists[0].name, { page: 1, perPage: stream.paging.perPage });
        const reply = open.send(request, { lane: 'interactive', signal: context.signal, tries: 1 });
        return answered(reply, ({ arrived }) =>
          ok(`it answers, and shows ${count(arrived, 'record')} of ${stream.name}`),
        );
      },
    }),
  ),
];
