/**
 * A service, declared in one file: how it is reached, its limits, how its lists are paged, and its streams. Settings, connection,
 * tables, field rules and forecast follow from that.
 */
import { address, count, credential, moment, type Setting } from '../../app/setting-types.ts';
import type { Limits } from '../../engine/budget/budget.ts';
import { partsOfWholeLists } from '../../engine/forecast/plan-whole-lists.ts';
import { bearerDialect } from '../../engine/http/bearer-dialect.ts';
import { type Dialect, fixedToken } from '../../engine/http/dialect.ts';
import { mostSlackMs } from '../../engine/reading/tie.ts';
import { exitCodes, Fatal } from '../../errors.ts';
import { lakeTablesOf } from '../record/lake.ts';
import { contactsOf } from '../record/personal.ts';
import { type AnyRecord, type Facts, fieldsThatAre } from '../record/record.ts';
import type { Connection, Source, SourceTable, Uses } from '../source.ts';
import { wrongIn } from './datetime-format.ts';
import type {
  DeclaredDetails,
  DeclaredStream,
  DetailsOptions,
  FeedOptions,
  FullRefreshOptions,
  IncrementalOptions,
  Shared,
} from './declared.ts';
import { forecastOf } from './details.ts';
import { isName, longestName, takenSchema } from './names.ts';
import { limitOf, missingIn, wholeReader, wordsOf } from './paginator.ts';
import { streamsOf, tablesOfStream } from './streams.ts';

/** How a service tells of a limit in its headers. */
interface Told {
  /** Header with what is left of the period. */
  readonly remaining?: string;
  /** Header that says when the period ends: in so many seconds, in seconds since 1970, or a date. */
  readonly resets?: string | 'midnight UTC';
}

interface Limit extends Told {
  readonly per: 'second' | 'minute' | 'hour' | 'day';
  readonly requests: number;
}
const limit =
  (per: Limit['per']) =>
  (requests: number, told: Told = {}): Limit => ({ per, requests, ...told });
export const perSecond = (requests: number): Limit => ({ per: 'second', requests });
export const perMinute = limit('minute');
export const perHour = limit('hour');
export const perDay = limit('day');

export interface Service<N extends string> extends Omit<Shared, 'name'> {
  /** Name of the source and of its schema, and in capitals the beginning of its settings. */
  readonly name: N;
  /** Comment of the schema. */
  readonly says: string;
  /** One for each time. Headers tell of the longest one. A 429 with `Retry-After` is believed in any case. */
  readonly limits: readonly Limit[];
  /** Header that carries the key. Default: `Authorization: Bearer KEY`. */
  readonly keyHeader?: string;
  /** The longest time that a change needs to appear in a list, in seconds. Default: 10. */
  readonly lookbackSeconds?: number;
  /** What the service does in a way of its own. */
  readonly dialect?: Partial<Dialect>;
  readonly streams: readonly DeclaredStream[];
}

const lengthMs = { second: 1000, minute: 60_000, hour: 3_600_000, day: 86_400_000 };

/** The configuration of a service within an account: its connection, under its name. */
type Part<N extends string> = { readonly [K in N]?: Connection | undefined };

export function defineService<const N extends string>(service: Service<N>): Source<Part<N>> {
  const { name, label, says, streams: declared } = service;
  refuseWrong(service);
  const prefix = name.toUpperCase();
  const names = {
    address: `${prefix}_BASE_URL`,
    key: `${prefix}_KEY`,
    since: `${prefix}_SINCE`,
    lookback: `${prefix}_LOOKBACK_SECONDS`,
  };
  const streams = streamsOf(service, declared);
  const tables = tablesOf(name, declared);
  const source: Source<Part<N>> = {
    ...{ name, label, unit: 'request', address: names.address, requires: `${names.address} and ${names.key}` },
    settings: {
      [names.address]: {
        schema: address.optional(),
        says: `Base address of ${label}.`,
        secret: true,
      },
      [names.key]: { schema: credential, says: `Key of ${label}.`, secret: true, onlyByReference: true },
      [names.since]: {
        schema: moment.default(0),
        default: 'everything',
        says: `Start of the mirror: records of ${label} that were last changed before are not read, where a list can be asked for changes.`,
      },
      [names.lookback]: {
        schema: count(0).default(lookbackSecondsOf(service)),
        default: String(lookbackSecondsOf(service)),
        says: `Longest time that a change of ${label} needs to appear in its lists.`,
      },
      ...limitSettings(service),
    },
    streams,
    uses: usesOf(tables),
    tables,
    lakeTables: lakeTablesOf(tables),
    schema: { says },
    configure: values => ({ [name]: connectionOf(service, values, names) }) as Part<N>,
    contradictions: () => [],
    connect: config => config[name],
    identityOf: config => {
      const connection: Connection | undefined = config[name];
      return connection?.token && JSON.stringify([connection.baseUrl.href, connection.token.secrets()]);
    },
    forecast: async (planning, question) => {
      const wanted = streams.filter(({ key }) => question.streams.includes(key));
      const lists = wanted.filter(stream => stream.kind === 'list');
      const parts = await partsOfWholeLists(planning, question.kind, lists);
      for (const stream of wanted)
        if (stream.kind === 'detail') parts.push(await forecastOf(planning, question, stream));
      return parts;
    },
  };
  services.set(source, service);
  return source;
}

/** How late a change may be listed, without a setting. */
export const lookbackSecondsOf = ({ lookbackSeconds = 10 }: Pick<Service<string>, 'lookbackSeconds'>): number =>
  lookbackSeconds;

const services = new WeakMap<object, Service<string>>();

/** The declaration of a source; undefined if it is made in another way. */
export const serviceOf = (source: object): Service<string> | undefined => services.get(source);

const limitName = (name: string, { per }: Limit) => `${name.toUpperCase()}_REQUESTS_PER_${per.toUpperCase()}`;

const limitSettings = ({ name, label, limits }: Service<string>): Record<string, Setting> =>
  Object.fromEntries(
    limits.map(one => [
      limitName(name, one),
      {
        schema: count(1).default(one.requests),
        default: String(one.requests),
        says: `Requests that ${label} allows a ${one.per}.`,
      },
    ]),
  );

type Values = Readonly<Record<string, unknown>>;

function connectionOf(
  service: Service<string>,
  values: Values,
  names: Readonly<Record<'address' | 'key' | 'since' | 'lookback', string>>,
): Connection | undefined {
  const baseUrl = values[names.address] as URL | undefined;
  const key = values[names.key] as string | undefined;
  if (baseUrl === undefined || key === undefined) return undefined;
  const longest = longestOf(service.limits);
  const isLong = longest !== undefined && lengthMs[longest.per] > lengthMs.minute;
  return {
    baseUrl,
    dialect: dialectOf(service, names, longest && (values[limitName(service.name, longest)] as number)),
    token: fixedToken(key),
    limits: limitsOf(service, values),
    lookbackMs: (values[names.lookback] as number) * 1000,
    sinceMs: values[names.since] as number,
    ...(isLong && { longestWaitMs: 60_000 }),
  };
}

/** The longest time is the period of the credits; the others limit requests as well. */
function limitsOf({ name, limits }: Service<string>, values: Values): Limits {
  const most = (one: Limit) => values[limitName(name, one)] as number;
  const second = limits.find(({ per }) => per === 'second');
  const requestsPerSecond = second ? most(second) : 10;
  const longest = longestOf(limits);
  if (longest === undefined)
    return { credits: requestsPerSecond * 60, periodMs: lengthMs.minute, requestsPerSecond, reserve: 0 };
  const periodMs = lengthMs[longest.per];
  const further = limits
    .filter(one => one !== second && one !== longest)
    .map(one => ({ ms: lengthMs[one.per], requests: most(one) }));
  return {
    ...{ credits: most(longest), periodMs, requestsPerSecond, reserve: 0, evenly: periodMs <= lengthMs.minute },
    ...(longest.per === 'day' && longest.resets === 'midnight UTC' && { aligned: true as const }),
    ...(further.length > 0 && { further }),
  };
}

/** Of those longer than a second. */
const longestOf = (limits: readonly Limit[]): Limit | undefined =>
  limits.filter(({ per }) => per !== 'second').toSorted((a, b) => lengthMs[b.per] - lengthMs[a.per])[0];

function dialectOf(
  { limits, keyHeader, dialect }: Service<string>,
  { address, key }: { readonly address: string; readonly key: string },
  credits: number | undefined,
): Dialect {
  const told = limits.find(({ remaining }) => remaining !== undefined);
  return {
    ...bearerDialect({ address, token: key }),
    ...(keyHeader !== undefined && { authorization: (token: string) => ({ [keyHeader.toLowerCase()]: token }) }),
    ...(told && { rate: header => rateOf(told, header, credits) }),
    ...dialect,
  };
}

/** No period is so long: a larger number is a time. */
const longestPeriod = 1e9;

function secondsUntil(value: string | undefined, nowSeconds: number): number {
  if (value === undefined) return Number.NaN;
  if (!/^\d+(\.\d+)?$/.test(value)) return Date.parse(value) / 1000 - nowSeconds;
  return Number(value) < longestPeriod ? Number(value) : Number(value) - nowSeconds;
}

function rateOf(
  { remaining, resets }: Told,
  header: (name: string) => string | undefined,
  limit: number | undefined,
): ReturnType<Dialect['rate']> {
  const left = Number(header(remaining!.toLowerCase()) ?? Number.NaN);
  if (!Number.isFinite(left)) return {};
  const second = Math.floor(Date.parse(header('date') ?? '') / 1000);
  const resetSeconds =
    resets === 'midnight UTC' ? 86_400 - (second % 86_400) : secondsUntil(header(resets?.toLowerCase() ?? ''), second);
  return {
    remaining: left,
    ...(limit !== undefined && { limit }),
    ...(Number.isFinite(resetSeconds) && { resetSeconds }),
  };
}

const tablesOf = (name: string, streams: readonly DeclaredStream[]) =>
  streams.flatMap(stream => tablesOfStream(name, stream, streams));

/** A record of a service is recognised as that of an erased person by its addresses alone. */
const usesOf = (tables: readonly SourceTable[]): Uses => {
  const contacts = tables.flatMap(({ record }) =>
    contactsOf(record).map(({ field }) => ({ name: record.name, field: field.split('.')[0]! })),
  );
  const fields = [...new Set(contacts.map(({ field }) => field))];
  return Object.fromEntries(
    fields.map(field => [
      `erasure of people by their ${field}`,
      Object.fromEntries(contacts.filter(one => one.field === field).map(({ name }) => [name, [field]])),
    ]),
  );
};

function refuseWrong(service: Service<string>): void {
  const { name, limits, paginator, streams } = service;
  const refuse = (what: string, remedy: string) => new Fatal(`source ${name}: ${what}`, remedy, exitCodes.usage);
  refuseUnknown(service, Object.keys(inService), 'a service', refuse);
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
    else refuseUnknown(pages, wordsOf(pages), `the paginator ${pages.type}`, refuse);
  for (const one of limits) refuseUnknown(one, ['per', 'requests', 'remaining', 'resets'], 'a limit', refuse);
  for (const stream of streams) refusePaths(stream, refuse);
  for (const stream of streams) if (stream.kind === 'details') refuseDetails(stream, streams, refuse);
  const records = tablesOf(name, streams).map(({ record, parent = 'id' }) => ({ record, parent }));
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

function refuseUnknown(given: object, known: readonly string[], of: string, refuse: Refuse): void {
  const unknown = Object.keys(given).find(name => !known.includes(name));
  if (unknown !== undefined) throw refuse(`${unknown} is no option of ${of}`, `Take one of ${known.join(', ')}.`);
}

/** What the compiler refuses too: nobody may have compiled the file. */
function refuseOptions({ kind, record, options }: DeclaredStream, refuse: Refuse): void {
  refuseUnknown(options, Object.keys(inStream), record.name, refuse);
  const needed = kind === 'feed' ? 'cursorParam' : 'startParam';
  if (kind !== 'full refresh' && kind !== 'details' && !Object.hasOwn(options, needed))
    throw refuse(`${record.name} has no ${needed}`, `Name the parameter as ${needed}.`);
  const fields: Readonly<Record<string, Facts | undefined>> = record.fields;
  const { deletes, cursor, get, datetimeFormat, startSlackSeconds = 0 } = options as Partial<Options>;
  refuseUnknown(deletes ?? {}, ['id', 'at', 'type', 'of'], `deletes of ${record.name}`, refuse);
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
