/** What the parameters and the reply of a list tell of its pages and of its order. Pure. */
import { quoted } from '../draft.ts';
import type { Operation, Parameter, Schema } from './document.ts';

const words = {
  limit: /^(?:per_?page|page_?size|limit|max_?results|count|size|top|\$top|rows|take|page\[(?:size|limit)\])$/i,
  page: /^(?:page|page_?(?:number|no|num|index)|page\[number\])$/i,
  offset: /^(?:offset|skip|start|start_?(?:index|at)|\$skip|from|page\[offset\])$/i,
  cursor:
    /^(?:(?:next_?)?cursor|(?:next_?)?page_?token|next_?token|continuation_?token|after|page\[(?:cursor|after)\])$/i,
  behindId: /^(?:starting_?after|since_?id|after_?id)$/i,
  since:
    /^(?:(?:last_?)?(?:updated|modified|changed|edited)_?(?:since|after|from|min|gte?|at_?(?:min|gte?|from|after))|(?:last_?)?(?:updated|modified|changed)(?:_?at|_?on)?\[(?:gte?|after)\]|since|since_?(?:updated|modified|changed)(?:_?at)?|if_?modified_?since|min_?updated_?at)$/i,
  createdSince:
    /^(?:created_?(?:since|after|from|min|gte?|at_?(?:min|gte?|from|after))|created(?:_?at)?\[(?:gte?|after)\])$/i,
  sort: /^(?:sort|sort_?by|order_?by|order|orderBy)$/i,
  direction: /^(?:direction|sort_?(?:dir|direction|order)|order_?(?:dir|direction)|dir)$/i,
  nextCursor:
    /^(?:next_?(?:cursor|page_?token|token|page|page_?cursor)?|cursor|continuation_?token|end_?cursor|after)$/i,
  total: /^(?:total|count|total_?(?:count|items|results|size|records)|num_?found)$/i,
  updated: /^(?:last_?)?(?:updated|modified|changed|edited)(?:_?(?:at|on|time|date|time_?stamp))?$/i,
  created: /^(?:created|inserted)(?:_?(?:at|on|time|date|time_?stamp))?$/i,
} as const;

const find = ({ query }: Pick<Operation, 'query'>, word: keyof typeof words): Parameter | undefined =>
  query.find(({ name }) => words[word].test(name));

export interface Paged {
  /** Code of the paginator. */
  readonly code: string;
  readonly asks: readonly string[];
}

const usualLimit = 100;

/** Paths of values in a reply, by name, outside of its records. */
function pathsOf(reply: Schema, word: keyof typeof words, is: (one: Schema) => boolean, depth = 3): string[] {
  if (depth === 0) return [];
  return [...reply.properties].flatMap(([name, schema]) => {
    const one = schema();
    if (words[word].test(name) && is(one)) return [name];
    return one.type === 'object' ? pathsOf(one, word, is, depth - 1).map(inner => `${name}.${inner}`) : [];
  });
}

export function pagedBy(operation: Operation): Paged {
  const { reply } = operation;
  const [limit, page, offset, cursor, behindId] = (['limit', 'page', 'offset', 'cursor', 'behindId'] as const).map(
    word => find(operation, word),
  );
  const { maximum, byDefault } = limit?.schema ?? {};
  const size = maximum !== undefined && maximum >= 2 && maximum <= 10_000 ? maximum : undefined;
  const most = size ?? Math.max(2, Number(byDefault) || usualLimit);
  const sized = `${limit === undefined ? '' : `limitParam: ${quoted(limit.name)}, `}limit: ${most}`;
  const asks = size === undefined ? ['What is the largest page that the service gives? That is the limit.'] : [];
  const total = pathsOf(reply, 'total', one => one.type === 'integer' || one.type === 'number')[0];
  const counted = total === undefined ? '' : `, totalPath: ${quoted(total)}`;
  const next = pathsOf(
    reply,
    'nextCursor',
    one => one.type === 'string' || one.type === undefined || one.type === 'integer',
  )[0];
  if (cursor !== undefined)
    return {
      code: `{ type: 'cursor', cursorParam: ${quoted(cursor.name)}, cursorPath: ${quoted(next ?? 'next_cursor')}, ${sized} }`,
      asks: [
        ...asks,
        ...(next === undefined ? ['Where in the body is the next cursor? The document does not say.'] : []),
      ],
    };
  if (page !== undefined) {
    const base = page.schema.minimum === 0 || page.schema.byDefault === 0 ? ', basePage: 0' : '';
    return { code: `{ type: 'page_number', pageParam: ${quoted(page.name)}${base}, ${sized}${counted} }`, asks };
  }
  if (offset !== undefined)
    return { code: `{ type: 'offset', offsetParam: ${quoted(offset.name)}, ${sized}${counted} }`, asks };
  const how =
    behindId === undefined
      ? 'The document names no parameter of pages: is the whole list in one reply?'
      : `${behindId.name} wants the id of the last record, which no paginator sends yet: is there another parameter? So only one page would be read.`;
  return { code: "{ type: 'single_page' }", asks: [how] };
}

export interface Ordered {
  readonly kind: 'incremental' | 'created';
  readonly cursor: string;
  readonly startParam: string;
  readonly params: Readonly<Record<string, string>>;
  readonly asks: readonly string[];
}

/** Some documents say of a time only that it is a text. */
const soundsLikeTime = /(?:_at|At|_?[Tt]imestamp)$|^(?:created|updated|modified)(?:_?(?:on|time))?$/;
export const isTime = (name: string, { type, format }: Schema): boolean =>
  type === 'string' && (format === 'date-time' || (format === undefined && soundsLikeTime.test(name)));

/** The time of a record by which a list may be read on. */
export const timeOf = (record: Schema, kind: 'updated' | 'created'): string | undefined =>
  [...record.properties].find(([name, schema]) => words[kind].test(name) && isTime(name, schema()))?.[0];

/** A list that can be asked for what is new since a time; undefined: it is read whole. */
export function orderedBy(operation: Operation, record: Schema): Ordered | undefined {
  const [since, createdSince] = [find(operation, 'since'), find(operation, 'createdSince')];
  const kind = since !== undefined ? 'incremental' : 'created';
  const startParam = (since ?? createdSince)?.name;
  const cursor = timeOf(record, kind === 'incremental' ? 'updated' : 'created');
  if (startParam === undefined || cursor === undefined) return undefined;
  const sort = find(operation, 'sort');
  const direction = operation.query.find(({ name }) => words.direction.test(name));
  const wanted = sort?.schema.values?.find(value =>
    words[kind === 'incremental' ? 'updated' : 'created'].test(value.replace(/^\+/, '')),
  );
  const ascending = direction?.schema.values?.find(value => /^asc/i.test(value));
  const params = {
    ...(sort && wanted !== undefined && { [sort.name]: wanted }),
    ...(direction && ascending !== undefined && wanted !== undefined && { [direction.name]: ascending }),
  };
  const sorts =
    sort === undefined || wanted !== undefined
      ? ''
      : ` The parameter ${sort.name} sorts: params: { '${sort.name}': '…' }.`;
  return {
    ...{ kind, cursor, startParam, params },
    asks: [
      `Is the list then in the order of ${cursor}, oldest first${kind === 'incremental' ? ', and does each change move it' : ''}? Otherwise it is fullRefresh.${sorts}`,
      `Does ${startParam} mean ${cursor}, and does it take a time such as 2026-03-01T12:00:00.000Z? \`shelfdesk source try\` tells.`,
    ],
  };
}

/** Parameters without which the service refuses. */
export const requiredIn = ({ query }: Operation): readonly string[] =>
  query.filter(one => one.isRequired).map(({ name }) => name);
