/**
 * Tries a source: a handful of requests to the real service, of which nothing is stored. Each stream is asked the questions of its kind;
 * what comes is compared with the declaration, and each difference names the line to change.
 */
import type { Clock } from '../../clock.ts';
import type { Place } from '../../engine/http/causes.ts';
import type { Fetch } from '../../engine/http/fetch.ts';
import type { Request } from '../../engine/http/request.ts';
import type { Ask } from '../../engine/reading/reading.ts';
import type { Service } from '../service/service.ts';
import type { Connection, Source, Stream } from '../source.ts';
import { Asking, CannotTry } from './asking.ts';
import { perPageOf, tryDetails, tryFeed, tryOne } from './by-id.ts';
import { judgeFields } from './fields.ts';
import { type Finding, notesOf } from './finding.ts';
import { noteOrder, trySince } from './order.ts';
import { tryPages } from './pages.ts';
import { placesIn } from './places.ts';
import { noteClock, noteKey, noteRate, noteRefusals } from './service.ts';
import type { Trying } from './trying.ts';

export interface Tried {
  readonly requests: number;
  readonly findings: readonly Finding[];
  /** Why it ended before all questions were asked. */
  readonly ended: CannotTry | undefined;
}

interface TryDeps {
  readonly source: Pick<Source, 'streams'>;
  readonly service: Service<string>;
  readonly connection: Connection;
  /** The declaration: its file as people name it, and its text. */
  readonly file: { readonly name: string | undefined; readonly text: string };
  readonly place: Place;
  readonly fetch: Fetch;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onWait: (seconds: number, why: string) => void;
}

export async function trySource(deps: TryDeps): Promise<Tried> {
  const { source, service, file } = deps;
  const findings: Finding[] = [];
  const places = placesIn(file.name, file.text);
  const asking = new Asking(deps);
  const of = { notes: notesOf(findings, undefined), places, service };
  const parents = new Map<string, string[]>();
  let ended: CannotTry | undefined;
  try {
    await tryService(of, asking, source);
    for (const [i, stream] of service.streams.entries()) {
      asking.beginStream();
      const seen = new Map<string, unknown>();
      const pages = stream.options.paginator ?? service.paginator;
      const notes = notesOf(findings, stream.record.name);
      const made = source.streams[i]!;
      const trying = {
        asking,
        notes,
        places,
        stream,
        pages,
        seen,
        request: () => {
          throw new Error('no list');
        },
      };
      try {
        await tryStream(trying, made, deps.connection, parents);
      } finally {
        judgeFields(stream.record, [...seen.values()], { notes, places, idTypes: deps.connection.dialect.idTypes });
      }
      parents.set(
        stream.record.name,
        [...seen.keys()].filter(id => !id.startsWith('no id ')),
      );
    }
  } catch (error) {
    if (!(error instanceof CannotTry)) throw error;
    ended = error;
  }
  noteRate(of, asking.headers);
  noteRefusals(of, asking.refusals);
  return { requests: asking.requests, findings, ended };
}

const firstAsk: Ask = { page: 1, perPage: 2 };

/** The first list, with the key and without it. */
async function tryService(
  of: Parameters<typeof noteClock>[0],
  asking: Asking,
  { streams }: Pick<Source, 'streams'>,
): Promise<void> {
  const list = streams.find(one => one.kind === 'list');
  if (list?.kind !== 'list') return;
  const request = list.request('default', { ...firstAsk, since: 0 });
  const answer = await asking.get(request);
  noteClock(of, answer);
  noteKey(of, await asking.get(request, { withKey: false }));
}

async function tryStream(
  trying: Trying,
  made: Stream,
  { sinceMs = 0 }: Connection,
  parents: ReadonlyMap<string, readonly string[]>,
): Promise<void> {
  const { stream } = trying;
  if (stream.kind === 'details') {
    if (made.kind !== 'detail' || made.list === undefined) return;
    const { list } = made;
    return tryDetails(trying, parents.get(stream.options.parent) ?? [], id => ask => list.request(id, ask));
  }
  if (made.kind !== 'list') return;
  const list = { ...trying, request: (ask: Ask): Request<unknown> => made.request('default', ask) };
  if (stream.kind === 'feed') return tryFeed(list, stream.options);
  const isWhole = stream.kind === 'full refresh';
  const ask: Ask = { page: 1, perPage: perPageOf(trying), ...(!isWhole && { since: Math.max(0, sinceMs - 1000) }) };
  const first = await tryPages(list, ask, isWhole);
  if (first === undefined || first.records.length === 0) return;
  if (stream.kind !== 'full refresh') {
    noteOrder(list, String(stream.options.cursor), first);
    await trySince(list, stream.options, ask, first);
  }
  const id = first.ids.find(one => one !== '');
  if (made.get && id !== undefined) await tryOne({ ...list, path: stream.path, get: made.get.bind(made) }, id);
}
