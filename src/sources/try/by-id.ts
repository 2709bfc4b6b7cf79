/** Questions about requests with an id: one record, one that does not exist, the details of a record, and events behind another one. */
import type { Request } from '../../engine/http/request.ts';
import { isObject } from '../../engine/http/request.ts';
import { valueAt } from '../service/paginator.ts';
import type { Asking } from './asking.ts';
import type { Notes } from './finding.ts';
import { idOf, shapeOf } from './page.ts';
import { tryPages } from './pages.ts';
import type { Places } from './places.ts';
import { read, readIfAny, type Trying } from './trying.ts';

interface One {
  readonly asking: Asking;
  readonly notes: Notes;
  readonly places: Places;
  readonly path: string;
  readonly seen: Map<string, unknown>;
  readonly get: (id: string) => Request<unknown>;
}

/** An id of the same form that seems to name no record. */
function nobody(id: string): string {
  if (/^\d+$/.test(id)) return '9'.repeat(Math.min(18, id.length + 3));
  // Other digits, and letters of the same kind, so that the form is that of an id.
  return id.replaceAll(/[0-9]/g, '0').replaceAll(/[a-f]/g, '0').replaceAll(/[g-z]/g, 'z');
}

/** One record by its id, and what the service says of an id that it does not know. */
export async function tryOne({ asking, notes, places, path, seen, get }: One, id: string): Promise<void> {
  const request = get(id);
  const answer = await asking.get(request);
  const at = places.option(path, 'get');
  if (answer.status !== 200)
    notes.wrong(`one record by its id answers ${shapeOf(answer)}`, at, 'correct the path of get, or take get out');
  else {
    const record = request.within === undefined ? answer.json : valueAt(answer.json, request.within);
    if (idOf(record) === id) seen.set(id, record);
    else {
      const fields = isObject(answer.json) ? Object.entries(answer.json).filter(([, value]) => idOf(value) === id) : [];
      const [meant] = fields.map(([name]) => `getSelector: '${name}'`);
      notes.wrong(
        `one record by its id has ${request.within === undefined ? 'no such id in its body' : `no such id at ${request.within}`}`,
        places.option(path, request.within === undefined ? 'get' : 'getSelector'),
        meant ?? 'name the record in the body as getSelector',
      );
    }
  }
  const other = nobody(id);
  if (other === id) return;
  const unknown = await asking.get(get(other));
  if (unknown.status === 404) notes.seen(`an id that does not exist answers ${shapeOf(unknown)}`);
  else if (unknown.status === 200)
    notes.wrong(
      'an id that does not exist answers 200: a deletion would never be confirmed',
      at,
      'take get out: then absence from the whole list is a deletion',
    );
  else
    notes.wrong(
      `an id that does not exist answers ${shapeOf(unknown)}: only a 404 confirms a deletion`,
      at,
      'take get out, or declare a dialect whose failure takes this answer for Gone',
    );
}

/** Records of the parent whose details are read, until one has some. */
const mostParents = 4;

export async function tryDetails(
  trying: Trying,
  parents: readonly string[],
  requestOf: (id: string) => Trying['request'],
): Promise<void> {
  const { notes } = trying;
  if (parents.length === 0) return notes.open('its parent has no records: nothing is known of it');
  const ask = { page: 1, perPage: perPageOf(trying) };
  for (const id of parents.slice(0, mostParents)) {
    const list = { ...trying, request: requestOf(id) };
    const page = await read(list, ask);
    if (page === undefined) return;
    if (page.records.length === 0) continue;
    await tryPages(list, ask, true);
    return;
  }
  notes.open(`none of ${Math.min(mostParents, parents.length)} records has any: nothing is known of its fields`);
}

export const perPageOf = ({ pages }: Pick<Trying, 'pages'>): number =>
  pages.type === 'single_page' ? 1_000_000 : pages.limit;

/** Events: those behind the first one are asked for. */
export async function tryFeed(trying: Trying, { cursorParam }: { readonly cursorParam: string }): Promise<void> {
  const { notes, places, stream } = trying;
  const ask = { page: 1, perPage: perPageOf(trying) };
  const page = await read(trying, ask);
  if (page === undefined) return;
  if (page.nextFault) {
    const flags = isObject(page.body)
      ? Object.entries(page.body).flatMap(([name, value]) =>
          typeof value === 'boolean' ? [`hasMorePath: '${name}'`] : [],
        )
      : [];
    notes.wrong(
      page.nextFault.message,
      places.option(stream.path, 'hasMorePath'),
      flags.join(', or ') || page.nextFault.remedy,
    );
  }
  if (page.records.length === 0) return notes.open('there is no event: nothing is known of it');
  const [id] = page.ids;
  const behind = await readIfAny(trying, { ...ask, page: 2, cursor: id! });
  if (behind.page === undefined)
    notes.wrong(
      `${cursorParam} is refused with ${behind.answer.status}`,
      places.option(stream.path, 'cursorParam'),
      'correct cursorParam',
    );
  else if (behind.page.ids.includes(id!))
    notes.wrong(
      `the events behind ${id} begin with it: the service does not know ${cursorParam}, or includes it`,
      places.option(stream.path, 'cursorParam'),
      'the parameter that wants the events behind an id',
    );
  else if (page.ids.length > 1 && behind.page.ids[0] !== page.ids[1])
    notes.wrong(
      `the events behind the first one do not begin with the second one: their order is not kept`,
      places.stream(stream.path),
      'params by which the service sorts them, oldest first',
    );
  else notes.seen(`the events behind the first one begin with the ${page.ids.length > 1 ? 'second one' : 'next one'}`);
}
