/** One stream while it is tried: what its questions share. */
import type { Request } from '../../engine/http/request.ts';
import type { Ask } from '../../engine/reading/reading.ts';
import type { DeclaredStream } from '../service/declared.ts';
import type { Paginator } from '../service/paginator.ts';
import { type Answer, type Asking, CannotTry } from './asking.ts';
import type { Notes } from './finding.ts';
import { listsIn, type Page, pageOf, shapeOf } from './page.ts';
import type { Places } from './places.ts';

export interface Trying {
  readonly asking: Asking;
  readonly notes: Notes;
  readonly places: Places;
  readonly stream: DeclaredStream;
  readonly pages: Paginator;
  /** The request of a page. */
  readonly request: (ask: Ask) => Request<unknown>;
  /** Records that were seen, to judge their fields. */
  readonly seen: Map<string, unknown>;
}

/** A page that came; undefined if none did, and then the reason is noted. */
export async function read(trying: Trying, ask: Ask): Promise<Page | undefined> {
  const request = trying.request(ask);
  const answer = await trying.asking.get(request);
  const page = answer.status === 200 ? pageOf(request, answer) : undefined;
  if (page === undefined) return noteNoPage(trying, request, answer);
  page.records.forEach((record, i) => void trying.seen.set(page.ids[i] || `no id ${trying.seen.size}`, record));
  return page;
}

/** The same, where a refusal is an answer too. */
export async function readIfAny({ asking, request }: Trying, ask: Ask): Promise<{ page?: Page; answer: Answer }> {
  const asked = request(ask);
  const answer = await asking.get(asked);
  const page = answer.status === 200 ? pageOf(asked, answer) : undefined;
  return { answer, ...(page && { page }) };
}

function noteNoPage({ notes, places, stream }: Trying, request: Request<unknown>, answer: Answer): undefined {
  const { status, json } = answer;
  const what = `GET ${request.path} answers ${shapeOf(answer)}`;
  const { path } = stream;
  if (status === 401)
    throw new CannotTry(`${what}: the service refuses the key`, 'Check the key, and keyHeader of the declaration.');
  if (status === 403) notes.untried(`${what}: the key may not read it`);
  else if (status >= 300 && status < 400)
    notes.wrong(
      `${what}: it leads elsewhere, and no redirect is followed`,
      places.stream(path),
      'correct the path, or the base address',
    );
  else if (status === 404)
    notes.wrong(`${what}: there is no such list`, places.stream(path), 'correct the path, or the base address');
  else if (status === 400 || status === 422)
    notes.wrong(
      `${what}: it refuses a parameter (${[...Object.keys(request.query)].join(', ')})`,
      places.stream(path),
      'correct startParam, params, and the parameters of the paginator',
    );
  else if (status !== 200) notes.untried(what);
  else if (json === undefined)
    notes.wrong(`${what}: no JSON`, places.stream(path), 'correct the path, or the base address');
  else {
    const there = listsIn(json).map(at => (at === '' ? 'none: the body is the list' : `dataSelector: '${at}'`));
    notes.wrong(
      `GET ${request.path} has no list ${request.within === undefined ? 'as its body' : `at ${request.within}`}`,
      places.option(path, 'dataSelector'),
      there.join(', or ') || 'name the list of the body as dataSelector',
    );
  }
  return undefined;
}
