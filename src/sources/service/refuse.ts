/** What is wrong with a declaration, and is refused when it is made: the compiler says some of it too, where it is asked. */
import type { Dialect } from '../../engine/http/dialect.ts';
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
import { type Limit, lengthMs, longestOf } from './limits.ts';
import { isName, longestName, takenSchema } from './names.ts';
import { missingIn, type Paginator, wholeReader, wordsOf } from './paginator.ts';
import type { Service } from './service.ts';
import { tablesOfService } from './streams.ts';

/** Throws Fatal for the first mistake. */
export function refuseWrong(service: Service<string>): void {
  const { name, limits, paginator, streams, keyHeader, dialect = {} } = service;
  const refuse = (what: string, remedy: string) => new Fatal(`source ${name}: ${what}`, remedy, exitCodes.usage);
  refuseUnknown(service, Object.keys(inService), 'a service', refuse);
  refuseUnknown(dialect, Object.keys(inDialect), 'a dialect', refuse);
  const unsaid = (['label', 'says'] as const).find(word => typeof service[word] !== 'string' || service[word] === '');
  const { lookbackSeconds = 0 } = service;
  const rules: Rule[] = [
    [unsaid !== undefined, `it has no ${unsaid}`, 'Give it one: people read it in place of its name.'],
    [
      !Array.isArray(limits) || limits.some(({ requests }) => !(Number.isInteger(requests) && requests > 0)),
      'it has no limits, or one that allows nothing',
      'Name what the service allows: [perMinute(60)].',
    ],
    [!Array.isArray(streams) || streams.length === 0, 'it has no streams', 'Declare its lists as streams.'],
    [takenSchema.test(name), 'a schema of this name is there already', 'Give the source another name.'],
    [!(Number.isFinite(lookbackSeconds) && lookbackSeconds >= 0), 'lookbackSeconds is no time', 'Give it a number.'],
    [
      paginator === undefined,
      'it has no paginator',
      "Declare how its lists are paged: { type: 'single_page' } where they are not.",
    ],
    [
      keyHeader !== undefined && dialect.authorization !== undefined,
      'keyHeader and dialect.authorization both say how the key is sent',
      'Leave one of them out.',
    ],
    [isNoHeader(keyHeader), `${keyHeader} is no name of a header`, 'Name the header that carries the key.'],
  ];
  refuseIf(rules, refuse);
  const bare = streams.find(({ kind, options }) => options === undefined && kind !== 'full refresh');
  if (bare !== undefined)
    throw refuse(
      `${bare.record.name} has no options`,
      'Write them behind its path, as the reference of declarations has them.',
    );
  refuseLimits(limits, refuse);
  for (const pages of [paginator, ...streams.flatMap(({ options }) => options.paginator ?? [])])
    refusePages(pages, refuse);
  for (const stream of streams) refusePaths(stream, refuse);
  for (const stream of streams) refuseOptions(stream, refuse);
  for (const stream of streams) refusePaging(stream, service, refuse);
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
  const [deep] = records.flatMap(({ record, parent }) => (parent === 'id' ? [] : fieldsThatAre(record, 'children')));
  if (deep !== undefined)
    throw refuse(
      `${deep[0]} lies within a record that lies within another one, and would have no table`,
      'Leave it out: it stays in _payload of the record around it.',
    );
}

type Refuse = (what: string, remedy: string) => Fatal;
type Rule = readonly [isWrong: boolean, what: string, remedy: string];

function refuseIf(rules: readonly Rule[], refuse: Refuse): void {
  for (const [isWrong, what, remedy] of rules) if (isWrong) throw refuse(what, remedy);
}

function refusePages(pages: Paginator, refuse: Refuse): void {
  const { type } = pages;
  const { limit = 2, basePage = 0 } = pages as { limit?: number; basePage?: number };
  if (wholeReader(pages) === undefined)
    throw refuse(`${type} is no type of a paginator`, 'Take offset, page_number, cursor or single_page.');
  const missing = missingIn(pages);
  refuseUnknown(pages, wordsOf(pages), `the paginator ${type}`, refuse);
  const rules: Rule[] = [
    [missing !== undefined, `the paginator ${type} has no ${missing}`, 'Name it as the service does.'],
    [!(limit >= 2), 'the limit of a page is less than 2', 'Name the number of records of a page.'],
    [
      !(Number.isInteger(limit) && Number.isInteger(basePage)),
      `the paginator ${type} has a number that is none`,
      'Write limit and basePage without quotation marks.',
    ],
  ];
  refuseIf(rules, refuse);
}

const isNoHeader = (name: string | undefined): boolean => name !== undefined && !/^[\w.-]+$/.test(name);

/** A word of a limit that nobody reads would be kept by nobody. */
function refuseLimits(limits: readonly Limit[], refuse: Refuse): void {
  if (new Set(limits.map(({ per }) => per)).size < limits.length)
    throw refuse('it has two limits of the same time', 'Declare the tighter one.');
  for (const one of limits) {
    const { per, remaining, resets } = one;
    refuseUnknown(one, Object.keys(inLimit), 'a limit', refuse);
    if (!Object.hasOwn(lengthMs, per))
      throw refuse(`a limit is per ${per}`, `Take one of ${Object.keys(lengthMs).join(', ')}.`);
    if (remaining !== undefined && remaining.toLowerCase() === resets?.toLowerCase())
      throw refuse(`remaining and resets are both ${remaining}`, 'Name each header as the replies have it.');
    const [word] = Object.entries({ remaining, resets }).find(([, header]) => header !== undefined) ?? [];
    if (word !== undefined && one !== longestOf(limits))
      throw refuse(`${word} tells of a limit that is not the longest`, 'Name the headers of the longest limit.');
    const isMidnight = resets === 'midnight UTC';
    if (isMidnight && per !== 'day')
      throw refuse(`a limit of a ${per} ends at midnight UTC`, 'Name the header that says when it ends.');
    if (resets !== undefined && !isMidnight && remaining === undefined)
      throw refuse(`resets is ${resets}, and there is no remaining: it would not be read`, 'Name both headers.');
    const wrong = [remaining, isMidnight ? undefined : resets].find(isNoHeader);
    if (wrong !== undefined) throw refuse(`${wrong} is no name of a header`, 'Name it as the replies have it.');
  }
}

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
const inDialect: Record<keyof Dialect, true> = {
  ...{ idTypes: true, needsToken: true, authorization: true, query: true, secrets: true, rate: true },
  ...{ refusal: true, failure: true, words: true },
};
const inLimit: Record<keyof Limit, true> = { per: true, requests: true, remaining: true, resets: true };

const ofDetails = ['dataSelector', 'params', 'paginator', 'target'] as const;
const ofStream = [...ofDetails, 'schedule'] as const;
const ofList = [...ofStream, 'get', 'getSelector', 'deletionsUnknown'] as const;
const ofTimed = [...ofList, 'cursor', 'startParam', 'datetimeFormat', 'startSlackSeconds'] as const;
const inStream: Record<DeclaredStream['kind'], readonly (keyof Options)[]> = {
  'full refresh': [...ofList, 'updatedAt'],
  incremental: ofTimed,
  created: ofTimed,
  feed: [...ofStream, 'cursorParam', 'hasMorePath', 'at', 'deletes'],
  details: [...ofDetails, 'parent', 'ageDays'],
};

function refuseUnknown(given: object, known: readonly string[], of: string, refuse: Refuse): void {
  const unknown = Object.keys(given).find(name => !known.includes(name));
  if (unknown !== undefined) throw refuse(`${unknown} is no option of ${of}`, `Take one of ${known.join(', ')}.`);
}

/** What the compiler refuses too: nobody may have compiled the file. */
function refuseOptions({ kind, record: { name, fields }, options }: DeclaredStream, refuse: Refuse): void {
  refuseUnknown(
    options,
    inStream[kind],
    `${name}, which is ${kind === 'details' ? kind : `a list of ${kind}`}`,
    refuse,
  );
  const needed = kind === 'feed' ? 'cursorParam' : 'startParam';
  const isTimed = kind === 'incremental' || kind === 'created';
  const { deletes, get, getSelector, schedule, target, ageDays = 1 } = options as Partial<Options>;
  const factsOf: FactsOf = field => (fields as Readonly<Record<string, Facts | undefined>>)[String(field)];
  const rules: Rule[] = [
    [
      (isTimed || kind === 'feed') && !(options as Partial<Options>)[needed],
      `${name} has no ${needed}`,
      `Name the parameter as ${needed}.`,
    ],
    [
      get !== undefined && !get.includes(':id'),
      `the path ${get} of ${name} has no :id`,
      'Write :id where the id of the record stands.',
    ],
    [
      getSelector !== undefined && get === undefined,
      `${name} has a getSelector, and no get`,
      'Name the path of one record as get.',
    ],
    [
      !['fresh', 'nightly', undefined].includes(schedule),
      `${schedule} is no schedule of ${name}`,
      'Take fresh or nightly.',
    ],
    [
      target !== undefined && !/^[1-9]\d{0,5}[smhd]$/.test(target),
      `the target ${target} of ${name} is no duration`,
      'Write it as in 5m or 26h.',
    ],
    [
      !(Number.isFinite(ageDays) && ageDays > 0),
      `ageDays of ${name} is no number of days`,
      'Write it as in ageDays: 7.',
    ],
  ];
  refuseIf(rules, refuse);
  refuseTimes(name, kind, options as Partial<Options>, factsOf, refuse);
  refuseDeletes(name, deletes, factsOf, refuse);
}

type FactsOf = (field: unknown) => Facts | undefined;

function refuseTimes(
  name: string,
  kind: DeclaredStream['kind'],
  { deletes, cursor, at, datetimeFormat, updatedAt, startSlackSeconds = 0 }: Partial<Options>,
  factsOf: FactsOf,
  refuse: Refuse,
): void {
  const isAlways = (field: unknown) => factsOf(field)?.type === 'timestamptz' && factsOf(field)?.required === true;
  const format = datetimeFormat === undefined ? undefined : wrongIn(datetimeFormat);
  const times = [
    ...(kind === 'incremental' || kind === 'created' ? [String(cursor)] : []),
    ...[at, deletes?.at].filter(field => field !== undefined),
  ];
  const time = times.find(field => !isAlways(field));
  const rules: Rule[] = [
    [
      format !== undefined,
      `datetimeFormat of ${name} ${format}`,
      'Write the time with %Y %m %d %H %M %S, or as seconds since 1970 with %s.',
    ],
    [
      !Number.isInteger(startSlackSeconds) || startSlackSeconds < 0 || startSlackSeconds * 1000 > mostSlackMs,
      `startSlackSeconds of ${name} is not a whole number up to ${mostSlackMs / 1000}`,
      'A list that begins earlier is coarser than a second: more slack would lose records. Declare fullRefresh.',
    ],
    [
      time !== undefined,
      `${time} is no time that all ${name} have`,
      'Name a field that is declared as time(…).always().',
    ],
    [
      kind === 'feed' && times.length === 0,
      `the events of ${name} have no time: one that is listed late would be lost`,
      'Name the time of an event as at, a field that is declared as time(…).always().',
    ],
    [
      updatedAt !== undefined && factsOf(updatedAt)?.type !== 'timestamptz',
      `${updatedAt} is no time of ${name}`,
      'Name a field that is declared as time(…).',
    ],
  ];
  refuseIf(rules, refuse);
}

function refuseDeletes(name: string, deletes: Partial<Options>['deletes'], factsOf: FactsOf, refuse: Refuse): void {
  if (deletes === undefined) return;
  refuseUnknown(deletes, ['id', 'at', 'type', 'of'], `deletes of ${name}`, refuse);
  const type = 'type' in deletes ? deletes.type : undefined;
  const words = typeof deletes.of === 'object' ? Object.keys(deletes.of) : [];
  const values = factsOf(type)?.values;
  const strange = values && words.find(word => !values.includes(word));
  const named = [deletes.id, deletes.at, ...(type === undefined ? [] : [type])];
  const unknown = named.find(field => factsOf(field)?.is !== 'column');
  const rules: Rule[] = [
    [unknown !== undefined, `${name} has no field ${unknown}`, 'Correct deletes: it names fields of the event.'],
    [
      (type === undefined) !== (typeof deletes.of !== 'object'),
      `deletes of ${name} has ${type === undefined ? 'several streams, and no type that chooses one' : 'a type, and one stream'}`,
      "Write { type: 'field', of: { word: 'stream' } }, or { of: 'stream' }.",
    ],
    [
      factsOf(deletes.id)?.values !== undefined,
      `${deletes.id} of ${name} is one of a few words, and no id`,
      'Name the field that has the id of the deleted record as id of deletes.',
    ],
    [strange !== undefined, `${strange} is no value of ${type} of ${name}`, `Take one of ${values?.join(', ')}.`],
  ];
  refuseIf(rules, refuse);
}

/** A request has one value for each parameter, and a reply has one thing at each path. */
function refusePaging({ kind, record, path, options }: DeclaredStream, service: Service<string>, refuse: Refuse): void {
  const { cursorParam, startParam, hasMorePath, params = {} } = options as Partial<Options>;
  const { dataSelector = service.dataSelector, paginator: pages = service.paginator } = options;
  const { limitParam, totalPath, cursorPath, ...words } = pages as unknown as Readonly<Record<string, string>>;
  const own = { offsetParam: words.offsetParam, pageParam: words.pageParam, cursorParam: words.cursorParam };
  const paging = { limitParam, ...(kind === 'feed' ? { cursorParam } : { ...own, startParam }) };
  const twice = (all: object) =>
    Object.entries(all).flatMap(([word, name], i, others) => {
      const [other] = others.slice(0, i).find(([, one]) => one === name) ?? [];
      return name !== undefined && other !== undefined ? [[other, word, name]] : [];
    })[0];
  const [one, other, name] = twice(paging) ?? twice({ dataSelector, totalPath, cursorPath, hasMorePath }) ?? [];
  if (name !== undefined)
    throw refuse(`${one} and ${other} of ${record.name} are both ${name}`, 'Name each as the service does.');
  const inPath = [...new URLSearchParams(path.split('?')[1] ?? '').keys()];
  // Their value of `params` goes with the first request, and each later one has its own: `cursor=*`, `after=0`.
  const mayBegin = ['startParam', 'cursorParam'];
  const fixed = Object.entries(paging).find(
    ([word, param]) =>
      param !== undefined && (inPath.includes(param) || (!mayBegin.includes(word) && Object.hasOwn(params, param))),
  );
  if (fixed !== undefined)
    throw refuse(
      `${fixed[1]} is ${fixed[0]} of ${record.name}, and has a value in ${inPath.includes(fixed[1]!) ? 'its path' : 'params'} as well`,
      'Leave the value out: each request has its own.',
    );
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
  const ids = Object.entries(record.fields as Record<string, Facts>).flatMap(([name, { isId }]) => (isId ? name : []));
  if (ids.join() !== 'id')
    throw refuse(
      ids.length === 0 ? `${record.name} has no id` : `the id of ${record.name} is ${ids.join(' and ')}`,
      'Declare the field id, and no other one, as id(): it names a record.',
    );
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
