/** The draft of a source, made of an OpenAPI document: a stream for each list that needs no id, with its records. Pure. */
import { columnNameOf } from '../../record/record.ts';
import { parentColumn } from '../../record/tables.ts';
import { isName } from '../../service/names.ts';
import { broken, type Draft, type DraftRecord, type Line, quoted } from '../draft.ts';
import { namesOnce } from '../names.ts';
import type { Document, Operation, Schema } from './document.ts';
import { linesOf } from './fields.ts';
import { type Ordered, orderedBy, pagedBy, requiredIn, timeOf } from './pages.ts';

/** A GET whose reply has a list of records with ids. */
interface List {
  readonly operation: Operation;
  readonly record: Schema;
  /** Undefined: the body is the list. */
  readonly selector: string | undefined;
  readonly name: string;
  readonly ordered: Ordered | undefined;
}

const parameterIn = /\{[^}]*\}/;
const segments = (path: string) => path.split('/').filter(one => one !== '' && !/^v\d+$/.test(one));

/** The records of a reply, and where they are: the body, or a list a few levels deep. A list of the name of the path is preferred. */
function recordsIn(
  reply: Schema,
  last: string,
  depth = 3,
): { record: Schema; selector: string | undefined } | undefined {
  if (reply.type === 'array') {
    const record = reply.items?.();
    return record && record.properties.size > 0 ? { record, selector: undefined } : undefined;
  }
  if (depth === 0) return undefined;
  const usual = ['data', 'items', 'results', 'records', 'rows', 'values', last];
  const fields = [...reply.properties].sort(([a], [b]) => usual.indexOf(b) - usual.indexOf(a));
  const one = fields.map(([name, schema]) => [name, schema()] as const);
  for (const [name, schema] of one) {
    const found = schema.type === 'array' ? recordsIn(schema, last, depth) : undefined;
    if (found !== undefined) return { ...found, selector: name };
  }
  for (const [name, schema] of one) {
    const found = usual.includes(name) && schema.type === 'object' ? recordsIn(schema, last, depth - 1) : undefined;
    if (found?.selector !== undefined) return { ...found, selector: `${name}.${found.selector}` };
  }
  return undefined;
}

/** A name of a table that is free: `customers`, `admin_customers`, `customers_2`. */
function tableName(path: string, met: Set<string>): string {
  const words = segments(path)
    .filter(one => !parameterIn.test(one))
    .map(one => columnNameOf(one.replace(/\.json$/, '')).replaceAll(/^[^a-z]+|_+$/g, ''));
  const [last = 'records', before = ''] = words.reverse();
  const usual =
    [last, `${before}_${last}`, `${last}_list`].find(name => isName(name) && !met.has(name)) ??
    `records_of_${last}`.slice(0, 36);
  let name = usual;
  for (let n = 2; met.has(name) || !isName(name); n++) name = `${isName(usual) ? usual : 'records'}_${n}`;
  met.add(name);
  return name;
}

const singular = (name: string) => parentColumn({ name }).replace(/^parent_(?=account_id)|_id$/g, '');

export function draftOf(document: Document, name: string): Draft {
  const once = namesOnce();
  const as = once(name);
  const met = new Set<string>();
  const { operations } = document;
  const leftOut: string[] = [];
  const lists: List[] = operations
    .filter(({ path }) => !parameterIn.test(path))
    .flatMap(operation => {
      const found = recordsIn(operation.reply, segments(operation.path).at(-1) ?? '');
      if (found === undefined) return [];
      if (!found.record.properties.has('id')) {
        leftOut.push(`GET ${operation.path} is left out: its records have no id.`);
        return [];
      }
      return [
        { operation, ...found, name: tableName(operation.path, met), ordered: orderedBy(operation, found.record) },
      ];
    });
  const making = { document, once, met, lists, leftOut };
  const streams = lists.map(list => streamOf(list, making));
  const details = detailsIn(making);
  const { options, ofStream } = shared(document, lists);
  return {
    ...{ name, as, label: document.title ?? name, says: `${document.title ?? name}.`.replace(/\.\.$/, '.') },
    asks: [`The base address, for ${name.toUpperCase()}_BASE_URL: ${document.address ?? 'the document does not say'}`],
    records: [...streams, ...details].flatMap(({ records }) => records),
    options,
    asksOfStreams: lists.some(({ ordered }) => ordered === undefined)
      ? [
          'Which list of fullRefresh can be asked for what has changed since a time, in the order of the changes? That one is incremental.',
        ]
      : [],
    streams: [
      ...streams.map(({ line }, i) => line(ofStream(lists[i]!))),
      ...details.map(({ line }) => line({ options: [], asks: [] })),
    ],
    leftOut,
  };
}

interface Making {
  readonly document: Document;
  readonly once: (text: string) => string;
  readonly met: Set<string>;
  readonly lists: readonly List[];
  readonly leftOut: string[];
}

interface More {
  readonly options: readonly string[];
  readonly asks: readonly string[];
}

interface Made {
  readonly records: readonly DraftRecord[];
  /** The line of the stream. `more`: options that differ from those of the service. */
  readonly line: (more: More) => Line;
}

const call = (maker: string, as: string, path: string, options: readonly string[]): string =>
  options.length === 0
    ? `${maker}(${as}, ${quoted(path)}),`
    : broken(`${maker}(${as}, ${quoted(path)}, { `, options, ' }),', 116).join('\n');

function streamOf(list: List, making: Making): Made {
  const { operation, record, ordered, name } = list;
  const { path } = operation;
  const as = making.once(singular(name));
  const records = recordsOf({ name, as, record, always: ordered?.cursor, isWithChildren: true }, making);
  const { get, asks: unsaid } = getOf(list, making.document);
  const updated = timeOf(record, 'updated');
  const required = requiredIn(operation);
  const asks = [
    ...(ordered?.asks ?? []),
    ...(required.length > 0
      ? [
          `The service needs ${required.join(', ')}: params: { ${required.map(one => `${quoted(one)}: '…'`).join(', ')} }.`,
        ]
      : []),
    ...unsaid,
  ];
  return {
    records,
    line(more) {
      const all = [...asks, ...more.asks];
      if (ordered === undefined)
        return {
          asks: all,
          code: call('fullRefresh', as, path, [
            ...(updated === undefined ? [] : [`updatedAt: ${quoted(updated)}`]),
            ...get,
            ...more.options,
          ]),
        };
      const params = Object.entries(ordered.params).map(
        ([key, value]) => `${/^\w+$/.test(key) ? key : quoted(key)}: ${quoted(value)}`,
      );
      const options = [
        `cursor: ${quoted(ordered.cursor)}`,
        `startParam: ${quoted(ordered.startParam)}`,
        ...(params.length > 0 ? [`params: { ${params.join(', ')} }`] : []),
      ];
      return { asks: all, code: call(ordered.kind, as, path, [...options, ...get, ...more.options]) };
    },
  };
}

/** The path with an id behind the list: one record, which deletions are confirmed with. */
function getOf({ operation: { path } }: List, { operations }: Document): { get: string[]; asks: string[] } {
  const [, base = path, end = ''] = /^(.*?)(\.json)?$/.exec(path) ?? [];
  const one = operations.find(other => {
    const behind = other.path.startsWith(`${base}/`) && other.path.endsWith(end) ? other.path.slice(base.length) : '';
    return /^\/\{[^}]*\}$/.test(behind.slice(0, behind.length - end.length));
  });
  if (one === undefined) return { get: [], asks: [] };
  const get = `get: ${quoted(`${base}/:id${end}`)}`;
  if (one.reply.properties.has('id')) return { get: [get], asks: [] };
  const within = [...one.reply.properties].find(([, schema]) => schema().properties.has('id'))?.[0];
  if (within !== undefined) return { get: [get, `getSelector: ${quoted(within)}`], asks: [] };
  return { get: [], asks: [`What does GET ${one.path} answer? With a record that has an id: ${get}`] };
}

interface Recorded {
  readonly name: string;
  readonly as: string;
  readonly record: Schema;
  readonly always?: string | undefined;
  readonly parent?: string;
  readonly isWithChildren: boolean;
}

/** The records within a record come before it. */
function recordsOf({ name, as, record, always, parent, isWithChildren }: Recorded, making: Making): DraftRecord[] {
  const { once, met, lists } = making;
  const within: DraftRecord[] = [];
  const column = parentColumn({ name });
  const { lines, leftOut } = linesOf(record, {
    record: name,
    parent,
    always: new Set(always === undefined ? [] : [always]),
    streamOf(field) {
      const [, base] = /^(\w+?)_?[iI]d$/.exec(field) ?? [];
      return base === undefined ? undefined : lists.find(list => singular(list.name) === columnNameOf(base))?.name;
    },
    children: isWithChildren
      ? (field, inner) => {
          const name = tableName(`/${as}/${field}`, met);
          const child = once(singular(name));
          within.push(...recordsOf({ name, as: child, record: inner, parent: column, isWithChildren: false }, making));
          return child;
        }
      : undefined,
  });
  const isPlain = lines.some(({ code }) => /\btexts?\(.*\.plain\(\)/.test(code));
  const asks = [
    ...(isPlain ? ['By their names the texts with .plain() tell of no person. Do they?'] : []),
    ...(leftOut.length > 0 ? [`No column can hold ${leftOut.join(', ')}: left out, and drift.`] : []),
    ...(always !== undefined && !record.required.has(always)
      ? [`Does each record have ${always}? The document does not promise it.`]
      : []),
  ];
  const words = name.replaceAll('_', ' ');
  return [
    ...within,
    { as, name, says: `${words.charAt(0).toUpperCase()}${words.slice(1)}, one row for each.`, asks, fields: lines },
  ];
}

/** Lists of a record: `/invoices/{id}/comments`. They are details where the list of the record says what has changed. */
function detailsIn(making: Making): Made[] {
  const { document, lists, once, met, leftOut } = making;
  return document.operations.flatMap((operation): Made[] => {
    const [, of, id, rest] = /^(.*)\/(\{[^}]*\})\/([^{}]+)$/.exec(operation.path) ?? [];
    const parent = lists.find(list => list.operation.path === of);
    const found = rest === undefined ? undefined : recordsIn(operation.reply, rest);
    if (parent === undefined || id === undefined || found === undefined) return [];
    if (!found.record.properties.has('id')) return [];
    if (parent.ordered?.kind !== 'incremental') {
      leftOut.push(
        `GET ${operation.path} is left out: it would be details, and the list of ${parent.name} does not say what has changed.`,
      );
      return [];
    }
    const name = tableName(operation.path, met);
    const as = once(singular(name));
    const column = parentColumn(parent);
    const records = recordsOf({ name, as, record: found.record, parent: column, isWithChildren: false }, making);
    const options = [
      `parent: ${quoted(parent.name)}`,
      'ageDays: 7',
      ...(found.selector === undefined ? [] : [`dataSelector: ${quoted(found.selector)}`]),
      `paginator: ${pagedBy(operation).code}`,
    ];
    const asks = [
      `Is a change of these a change of ${parent.name}? If not, an edit shows after ageDays days.`,
      ...pagedBy(operation).asks,
    ];
    return [{ records, line: () => ({ asks, code: call('details', as, operation.path.replace(id, ':id'), options) }) }];
  });
}

/** Options that most lists share are those of the service; the others say their own. */
function shared(document: Document, lists: readonly List[]): { options: Line[]; ofStream: (list: List) => More } {
  const most = (all: readonly string[]): string | undefined =>
    [...Map.groupBy(all, one => one)].toSorted(([, a], [, b]) => b.length - a.length)[0]?.[0];
  const paged = lists.map(({ operation }) => pagedBy(operation));
  const usual = most(paged.map(({ code }) => code)) ?? "{ type: 'single_page' }";
  const asks = paged.find(({ code }) => code === usual)?.asks ?? [];
  const selectors = new Set(lists.map(({ selector }) => selector));
  const [one] = selectors;
  const isOne = selectors.size === 1 && one !== undefined;
  return {
    options: [
      ...limitsOf(document),
      ...keyOf(document),
      { code: `paginator: ${usual},`, asks },
      ...(isOne ? [{ code: `dataSelector: ${quoted(one)},` }] : []),
    ],
    ofStream({ operation, selector }) {
      const { code, asks } = pagedBy(operation);
      const options = [
        ...(isOne || selector === undefined ? [] : [`dataSelector: ${quoted(selector)}`]),
        ...(code === usual ? [] : [`paginator: ${code}`]),
      ];
      return { options, asks: code === usual ? [] : asks };
    },
  };
}

function limitsOf({ operations }: Document): Line[] {
  const headers = operations.flatMap(one => one.headers);
  const remaining = headers.find(one => /remaining/i.test(one));
  const resets = headers.find(one => /reset/i.test(one) && /rate|limit|quota/i.test(one));
  const told =
    remaining === undefined
      ? ''
      : `, { remaining: ${quoted(remaining)}${resets === undefined ? '' : `, resets: ${quoted(resets)}`} }`;
  return [
    {
      code: `limits: [perMinute(60${told})],`,
      asks: [
        'How many requests does the service allow, a second, a minute, an hour or a day? Do headers say what is left?',
      ],
    },
  ];
}

function keyOf({ security }: Document): Line[] {
  const header = security.find(one => one.type === 'apiKey' && one.in === 'header');
  const query = security.find(one => one.type === 'apiKey' && one.in === 'query');
  const isBearer = security.some(
    ({ type, scheme = '' }) => type === 'oauth2' || (type === 'http' && /^bearer$/i.test(scheme)),
  );
  const isBasic = security.some(
    ({ type, scheme = '' }) => type === 'basic' || (type === 'http' && /^basic$/i.test(scheme)),
  );
  if (isBearer) return [];
  if (header?.name !== undefined)
    return [
      {
        code: `keyHeader: ${quoted(header.name)},`,
        ...(/^authorization$/i.test(header.name) && {
          asks: [
            'Is there a word before the key? Then it is part of the key that is set. Without this line it is Bearer KEY.',
          ],
        }),
      },
    ];
  if (isBasic)
    return [
      {
        code: "keyHeader: 'Authorization',",
        asks: ['The key that is set is the whole value: Basic, a space, and USER:PASSWORD in base64.'],
      },
    ];
  if (query !== undefined)
    return [
      {
        code: "// keyHeader: 'X-Api-Key',",
        asks: [
          `The document wants the key as a parameter, ${query.name}. Which header does the service take it in, too?`,
        ],
      },
    ];
  return [
    {
      code: "// keyHeader: 'X-Api-Key',",
      asks: ['Which header carries the key? Without this line it is Authorization: Bearer KEY.'],
    },
  ];
}
