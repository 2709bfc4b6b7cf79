/** What is wrong with a declaration, and is refused when it is made: the compiler says some of it too, where it is asked. */
import { mostSlackMs } from '../../engine/reading/tie.ts';
import { exitCodes, Fatal } from '../../errors.ts';
import { type AnyRecord, type Facts, fieldsThatAre } from '../record/record.ts';
import { wrongIn } from './datetime-format.ts';
import type {
  DeclaredDetails,
  DeclaredStream,
  DetailsOptions,
  FeedOptions,
  FullRefreshOptions,
  IncrementalOptions,
} from './declared.ts';
import { longestOf } from './limits.ts';
import { isName, longestName, takenSchema } from './names.ts';
import { limitOf, missingIn, wholeReader } from './paginator.ts';
import type { Service } from './service.ts';
import { tablesOfService } from './streams.ts';

/** Throws Fatal for the first mistake. */
export function refuseWrong(service: Service<string>): void {
  const { name, limits, paginator, streams } = service;
  const refuse = (what: string, remedy: string) => new Fatal(`source ${name}: ${what}`, remedy, exitCodes.usage);
  refuseUnknown(service, inService, 'a service', refuse);
  if (!Array.isArray(limits) || limits.some(({ requests }) => !(requests > 0)))
    throw refuse('it has no limits, or one that allows nothing', 'Name what the service allows: [perMinute(60)].');
  if (!Array.isArray(streams) || streams.length === 0)
    throw refuse('it has no streams', 'Declare its lists as streams.');
  if (takenSchema.test(name)) throw refuse('a schema of this name is there already', 'Give the source another name.');
  if (new Set(limits.map(({ per }) => per)).size < limits.length)
    throw refuse('it has two limits of the same time', 'Declare the tighter one.');
  if (limits.some(one => one.remaining !== undefined && one !== longestOf(limits)))
    throw refuse('remaining tells of a limit that is not the longest', 'Name the headers of the longest limit.');
  for (const pages of [paginator, ...streams.flatMap(({ options }) => options.paginator ?? [])])
    if (wholeReader(pages) === undefined)
      throw refuse(`${pages.type} is no type of a paginator`, 'Take offset, page_number, cursor or single_page.');
    else if (missingIn(pages) !== undefined)
      throw refuse(`the paginator ${pages.type} has no ${missingIn(pages)}`, 'Name it as the service does.');
    else if (!(limitOf(pages) >= 2))
      throw refuse('the limit of a page is less than 2', 'Name the number of records of a page.');
  for (const stream of streams) refusePaths(stream, refuse);
  for (const stream of streams) if (stream.kind === 'details') refuseDetails(stream, streams, refuse);
  const records = tablesOfService(name, streams).map(({ record, parent = 'id' }) => ({ record, parent }));
  const wrong = [name, ...records.map(({ record }) => record.name)].find(one => !isName(one));
  if (wrong !== undefined)
    throw refuse(
      `${wrong} is no name of SQL`,
      `Take small letters, digits and underscores, at most ${longestName}, and no word that SQL reserves.`,
    );
  const twice = records.find(({ record }, i) => records.findIndex(one => one.record.name === record.name) < i);
  if (twice !== undefined)
    throw refuse(
      `two records have the name ${twice.record.name}`,
      'Each record has a table of its name: give it another one.',
    );
  const names = records.map(({ record }) => record.name);
  for (const { record, parent } of records) refuseFields(record, { parent, names }, refuse);
  for (const stream of streams) refuseOptions(stream, refuse);
  const [deep] = records.flatMap(({ record, parent }) => (parent === 'id' ? [] : fieldsThatAre(record, 'children')));
  if (deep !== undefined)
    throw refuse(
      `${deep[0]} lies within a record that lies within another one, and would have no table`,
      'Leave it out: it stays in _payload of the record around it.',
    );
}

type Refuse = (what: string, remedy: string) => Fatal;

/** A path follows the address as it is: without a slash it would name another host. */
function refusePaths({ kind, record, path, options }: DeclaredStream, refuse: Refuse): void {
  const { get = path } = options as Partial<Options>;
  for (const one of new Set([path, get])) {
    const isOfOne = kind === 'details' || one !== path;
    if (!one.startsWith('/'))
      throw refuse(`the path ${one} of ${record.name} has no slash before it`, `Write /${one}.`);
    const [, left] = /\/(:\w+)/.exec(isOfOne ? one.replace(':id', '') : one) ?? [];
    if (left !== undefined)
      throw refuse(
        `the path ${one} of ${record.name} has ${left}, for which nothing stands`,
        'Write :id, once, in the path of one record, or of the details of one; the path of a list has none.',
      );
  }
}

/** Only a list of changes says of which records the details are to be read. */
function refuseDetails(
  { record, path, options }: DeclaredDetails,
  all: readonly DeclaredStream[],
  refuse: Refuse,
): void {
  const parent = all.find(one => one.record.name === options.parent);
  if (parent?.kind !== 'incremental')
    throw refuse(
      `${record.name} has the parent ${options.parent}, ${parent ? 'whose list does not say what has changed' : 'and there is no stream of this name'}`,
      'Name a stream that is declared as incremental(…): its cursor says when the details are to be read.',
    );
  if (!path.includes(':id'))
    throw refuse(`the path ${path} of ${record.name} has no :id`, 'Write :id where the id of the parent stands.');
}

type Options = IncrementalOptions<AnyRecord> & FeedOptions<AnyRecord> & FullRefreshOptions<AnyRecord> & DetailsOptions;
const inService: Record<keyof Service<string>, true> = {
  ...{ name: true, label: true, says: true, limits: true, keyHeader: true, lookbackSeconds: true, dialect: true },
  ...{ paginator: true, dataSelector: true, streams: true },
};
const inStream: Record<keyof Options, true> = {
  ...{ dataSelector: true, params: true, paginator: true, schedule: true, target: true, get: true, getSelector: true },
  ...{
    deletionsUnknown: true,
    updatedAt: true,
    cursor: true,
    startParam: true,
    datetimeFormat: true,
    startSlackSeconds: true,
  },
  ...{ cursorParam: true, hasMorePath: true, deletes: true, parent: true, ageDays: true },
};

function refuseUnknown(given: object, known: object, of: string, refuse: Refuse): void {
  const unknown = Object.keys(given).find(name => !Object.hasOwn(known, name));
  if (unknown !== undefined)
    throw refuse(`${unknown} is no option of ${of}`, `Take one of ${Object.keys(known).join(', ')}.`);
}

/** What the compiler refuses too: nobody may have compiled the file. */
function refuseOptions({ kind, record, options }: DeclaredStream, refuse: Refuse): void {
  refuseUnknown(options, inStream, record.name, refuse);
  const needed = kind === 'feed' ? 'cursorParam' : 'startParam';
  if (kind !== 'full refresh' && kind !== 'details' && !Object.hasOwn(options, needed))
    throw refuse(`${record.name} has no ${needed}`, `Name the parameter as ${needed}.`);
  const fields: Readonly<Record<string, Facts | undefined>> = record.fields;
  const { deletes, cursor, get, datetimeFormat, startSlackSeconds = 0 } = options as Partial<Options>;
  const wrong = datetimeFormat === undefined ? undefined : wrongIn(datetimeFormat);
  if (wrong !== undefined)
    throw refuse(
      `datetimeFormat of ${record.name} ${wrong}`,
      'Write the time with %Y %m %d %H %M %S, or as seconds since 1970 with %s.',
    );
  if (!Number.isInteger(startSlackSeconds) || startSlackSeconds < 0 || startSlackSeconds * 1000 > mostSlackMs)
    throw refuse(
      `startSlackSeconds of ${record.name} is not a whole number up to ${mostSlackMs / 1000}`,
      'A list that begins earlier is coarser than a second: more slack would lose records. Declare fullRefresh.',
    );
  const named = deletes === undefined ? [] : [deletes.id, deletes.at, ...('type' in deletes ? [deletes.type] : [])];
  const unknown = named.find(name => fields[name]?.is !== 'column');
  if (unknown !== undefined)
    throw refuse(`${record.name} has no field ${unknown}`, 'Correct deletes: it names fields of the event.');
  const time = kind === 'incremental' || kind === 'created' ? String(cursor) : deletes?.at;
  if (time !== undefined && !(fields[time]?.type === 'timestamptz' && fields[time].required))
    throw refuse(
      `${time} is no time that all ${record.name} have`,
      'Name a field that is declared as time(…).always().',
    );
  if (get !== undefined && !get.includes(':id'))
    throw refuse(`the path ${get} of ${record.name} has no :id`, 'Write :id where the id of the record stands.');
}

/** A field that says nothing of people, or a word that means nothing. */
const unsaidIn = (fields: Readonly<Record<string, Facts>>): string | undefined =>
  Object.entries(fields).flatMap(([name, { is, tells, fields = {} }]) =>
    is === undefined || !['name', 'contact', 'text', undefined].includes(tells) ? name : (unsaidIn(fields) ?? []),
  )[0];

/** `parent`: the column of the record that it is part of. `names`: of all records. */
function refuseFields(
  record: AnyRecord,
  { parent, names }: { readonly parent: string; readonly names: readonly string[] },
  refuse: Refuse,
): void {
  if (!Object.values(record.fields as Record<string, Facts>).some(({ isId }) => isId))
    throw refuse(`${record.name} has no id`, 'Declare the field that names a record as id().');
  const unsaid = unsaidIn(record.fields);
  if (unsaid !== undefined)
    throw refuse(
      `the field ${unsaid} of ${record.name} does not say what it tells of people`,
      "Say .personal('name' | 'contact' | 'text') or .plain().",
    );
  const met = new Map<string, string>();
  for (const [field, { column, isId, of: to }] of fieldsThatAre(record, 'column')) {
    const of = `the field ${field} of ${record.name}`;
    if (to !== undefined && !names.includes(to))
      throw refuse(`${of} refers to ${to}, and there is no such stream`, `Name one of ${names.join(', ')}.`);
    if (/['"\\]/.test(field)) throw refuse(`${of} has a quotation mark`, 'Leave it out: it stays in _payload.');
    const isOurs = ['account_id', parent].includes(column) || column.startsWith('_');
    if (!isId && (isOurs || !isName(column)))
      throw refuse(
        `${of} would have the column ${column}, which ${isOurs ? 'the mirror has itself' : 'is no name of SQL'}`,
        `Give it another column, as in { column: '${record.name}_${column.replace(/\W|^_+/g, '')}' }, or leave it out.`,
      );
    const other = met.get(column);
    if (other !== undefined)
      throw refuse(`${of} and the field ${other} would have one column, ${column}`, 'Give one of them another column.');
    met.set(column, field);
  }
}
