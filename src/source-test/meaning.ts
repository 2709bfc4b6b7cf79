/**
 * What a declaration means to a service that is true to it. Where the declaration names a thing, the name counts: a field `created_at`
 * is the time of creation, whatever it is declared as; `sort: '-updated_at'` is the latest first. So a mistake shows that a server
 * which only repeats the declaration would hide.
 */
import type { Facts } from '../sources/record/record.ts';
import type { DeclaredList, DeclaredStream } from '../sources/service/declared.ts';
import type { Paginator } from '../sources/service/paginator.ts';
import type { Service } from '../sources/service/service.ts';

/** What a time of a record tells: it moves with each change, or never. */
type TimeMeaning = 'changed' | 'created';

/** The order of a list. `changed` and `created` are times of the world, whatever field shows them. */
export interface Order {
  readonly by: TimeMeaning | 'id' | { readonly field: string };
  readonly descending: boolean;
}

export interface Meaning {
  readonly stream: DeclaredStream;
  readonly name: string;
  /** Times of the record: those that are neither stay what they are. */
  readonly times: ReadonlyMap<string, TimeMeaning>;
  readonly order: Order;
  /** What the parameter of the start compares; undefined: the service does not know the parameter. */
  readonly since: TimeMeaning | undefined;
  /** Only records with these values are listed. */
  readonly only: readonly (readonly [field: string, value: string])[];
  readonly pages: Paginator;
  /** What a cursor is: the place of a record, a number of records, or the time of the last one. */
  readonly cursor: 'place' | 'offset' | 'time';
  readonly selector: string | undefined;
  /** The stream whose records stand where the selector points, if it names another one. */
  readonly instead: string | undefined;
  /** What was understood otherwise than it is declared, in words. */
  readonly notes: readonly string[];
}

const aboutCreation = /creat|insert|(^|_)(added|opened|born|registered|signed_?up|joined)/i;
const aboutChange = /updat|modif|chang|edit|touch/i;
const sortNames = /^(sort|order|ordering|order_?by|sort_?by)$/i;
const directionNames = /^(direction|dir|(sort|order)_?(dir|direction|order)|sortorder)$/i;
const offsetNames = /offset|skip|^start$|^page$|page_?(no|num|number|index)|next_?page$/i;
const timeNames = /since|after_?(time|date)|updat|modif|creat|time|date/i;

const meaningOfName = (name: string): TimeMeaning | undefined => {
  if (aboutChange.test(name)) return 'changed';
  return aboutCreation.test(name) ? 'created' : undefined;
};

const isTime = ({ type, is }: Facts) => is === 'column' && type === 'timestamptz';

function timesOf(stream: DeclaredStream): Map<string, TimeMeaning> {
  const fields = Object.entries(stream.record.fields as Record<string, Facts>).filter(([, facts]) => isTime(facts));
  const cursor = stream.kind === 'incremental' || stream.kind === 'created' ? String(stream.options.cursor) : '';
  const usual = stream.kind === 'created' ? 'created' : 'changed';
  const ofEvent = stream.kind === 'feed' ? [stream.options.at, stream.options.deletes?.at] : [];
  const told = fields.flatMap(([name]) => {
    const told = ofEvent.includes(name) ? 'created' : meaningOfName(name);
    const meaning = told ?? (name === cursor ? usual : undefined);
    return meaning === undefined ? [] : [[name, meaning] as const];
  });
  const times = new Map(told);
  if (stream.kind === 'full refresh' && stream.options.updatedAt !== undefined) {
    const name = String(stream.options.updatedAt);
    if (!times.has(name)) times.set(name, 'changed');
  }
  return times;
}

function orderOf(stream: DeclaredStream, times: ReadonlyMap<string, TimeMeaning>): Order {
  const params = Object.entries(stream.options.params ?? {});
  const usual = usualOrder(stream, times);
  const sort = params.find(([name]) => sortNames.test(name))?.[1];
  const direction = params.find(([name]) => directionNames.test(name))?.[1];
  const words = `${sort ?? ''} ${direction ?? ''}`;
  const descending = /(^|[\s,:])-|\bdesc(ending)?\b|\bnewest\b|\blatest\b/i.test(words);
  if (sort === undefined) return { ...usual, descending };
  const field = sort.replace(/^[-+]/, '').split(/[\s,:]/)[0]!;
  if (/^(asc|desc)/i.test(field)) return { ...usual, descending };
  const isField = Object.hasOwn(stream.record.fields as object, field);
  const by = field === 'id' ? 'id' : (times.get(field) ?? (isField ? { field } : meaningOfName(field)));
  return { by: by ?? usual.by, descending };
}

/** A list is in the order in which it has to be, if nothing says otherwise. */
function usualOrder(stream: DeclaredStream, times: ReadonlyMap<string, TimeMeaning>): Order {
  if (stream.kind !== 'incremental' && stream.kind !== 'created') return { by: 'id', descending: false };
  return { by: times.get(String(stream.options.cursor)) ?? 'changed', descending: false };
}

function onlyOf({ record, options }: DeclaredStream): [string, string][] {
  const fields = record.fields as Readonly<Record<string, Facts>>;
  return Object.entries(options.params ?? {}).filter(
    ([name, value]) => fields[name]?.values?.includes(value) || (fields[name]?.type === 'boolean' && value !== ''),
  );
}

const startParam = (stream: DeclaredStream): string | undefined =>
  stream.kind === 'incremental' || stream.kind === 'created' ? stream.options.startParam : undefined;

function cursorOf(pages: Paginator, starts: string | undefined): Meaning['cursor'] {
  if (pages.type !== 'cursor') return 'place';
  if (pages.cursorParam === starts || timeNames.test(pages.cursorParam)) return 'time';
  const last = pages.cursorPath.split('.').at(-1)!;
  return offsetNames.test(pages.cursorParam) || (offsetNames.test(last) && !/cursor|token/i.test(last))
    ? 'offset'
    : 'place';
}

/** The stream that a selector names by its last word, if that is another one. */
function insteadOf(stream: DeclaredStream, all: readonly DeclaredStream[]): string | undefined {
  const { dataSelector } = stream.options;
  const word = dataSelector?.split('.').at(-1);
  const lastOf = ({ path }: DeclaredStream) => path.split('/').at(-1);
  if (word === undefined || word === stream.record.name || word === lastOf(stream)) return undefined;
  return all.find(one => one !== stream && one.kind !== 'details' && [one.record.name, lastOf(one)].includes(word))
    ?.record.name;
}

/** Types of events that a feed of deletions does not name. */
function unburied({ kind, record, options }: DeclaredStream): readonly string[] {
  const deletes = kind === 'feed' ? options.deletes : undefined;
  if (deletes === undefined || !('type' in deletes)) return [];
  const { values = [] } = (record.fields as Readonly<Record<string, Facts>>)[deletes.type]!;
  return values.filter(word => !Object.hasOwn(deletes.of, word));
}

function meaningOf(stream: DeclaredStream, { paginator, dataSelector, streams }: Service<string>): Meaning {
  const times = timesOf(stream);
  const { name } = stream.record;
  const pages = stream.options.paginator ?? paginator;
  const starts = startParam(stream);
  const cursorField =
    starts === undefined ? '' : String((stream as DeclaredList & { kind: 'incremental' }).options.cursor);
  const since = starts === undefined ? undefined : (meaningOfName(starts) ?? times.get(cursorField) ?? 'changed');
  const order = orderOf(stream, times);
  const cursor = cursorOf(pages, starts);
  const only = onlyOf(stream);
  const instead = insteadOf(stream, streams);
  const wanted = stream.kind === 'created' ? 'created' : 'changed';
  const notes = [
    ...(starts !== undefined && times.get(cursorField) !== wanted
      ? [
          `the cursor ${cursorField} is the time of ${times.get(cursorField) === 'created' ? 'creation' : 'the last change'}`,
        ]
      : []),
    ...(starts !== undefined && since !== times.get(cursorField)
      ? [`${starts} compares the time of ${since === 'created' ? 'creation' : 'the last change'}`]
      : []),
    ...(order.descending ? ['the list shows the latest first'] : []),
    ...(cursor === 'offset' ? ['the cursor is a number of records'] : []),
    ...(cursor === 'time' ? ['the cursor is the time of the last record'] : []),
    ...only.map(([field, value]) => `the list shows records whose ${field} is ${value} only`),
    ...unburied(stream).map(word => `an event of the type ${word} deletes nothing`),
    ...(instead === undefined ? [] : [`${stream.options.dataSelector} holds records of ${instead}`]),
  ];
  const selector = stream.options.dataSelector ?? dataSelector;
  return { stream, name, times, order, since, only, pages, cursor, selector, instead, notes };
}

export const meaningsOf = (service: Service<string>): Meaning[] =>
  service.streams.map(stream => meaningOf(stream, service));
