/**
 * Partial responses: `kind,items(id,volumeInfo/title),totalItems`, with `*` for all fields of a level. Unknown names are
 * ignored, unless names are checked. Unparsable text is refused.
 */

import { isRaw } from '../http/raw-json.ts';
import { invalid } from './errors.ts';

/** Field → selected parts of its value; null selects the whole value. */
export type Mask = Map<string, Mask | null>;

/** Known names of a level; null: names below are not checked. */
export type Known = ReadonlyMap<string, Known | null>;

const names = (line: string, more: readonly (readonly [string, Known])[] = []): Known =>
  new Map<string, Known | null>([...line.split(' ').map(name => [name, null] as const), ...more]);

export const BOOKSHELF = names(
  'kind id selfLink title description access created updated volumesLastUpdated volumeCount',
);
export const BOOKSHELVES = names('kind totalItems', [['items', BOOKSHELF]]);
export const VOLUME = names(
  'kind id etag selfLink volumeInfo saleInfo accessInfo searchInfo userInfo layerInfo recommendedInfo',
);
export const VOLUMES = names('kind totalItems', [['items', VOLUME]]);

/** Longest text in characters: longer than all names together; even the deepest nesting fits the stack. */
const LONGEST = 4096;

/** Parses `fields`. Throws BooksError 400 for invalid text and, with `known`, for unknown names. */
export function parseFields(fields: string, known?: Known): Mask {
  if (fields.length > LONGEST) throw unreadable('of this length');
  const parser = { text: fields, at: 0 };
  const mask = parseList(parser);
  if (parser.at < fields.length) throw unreadable(fields);
  if (known) checkNames(mask, known);
  return mask;
}

function checkNames(mask: Mask, known: Known): void {
  for (const [name, below] of mask) {
    const levels = name === '*' ? [...known.values()] : [known.get(name)];
    if (levels.includes(undefined)) throw unreadable(name);
    for (const level of levels) if (below && level) checkNames(below, level);
  }
}

interface Parser {
  readonly text: string;
  at: number;
}

function parseList(parser: Parser): Mask {
  const mask: Mask = new Map();
  do parsePath(parser, mask);
  while (taken(parser, ','));
  return mask;
}

/** Parses `a`, `a/b/c`, `a(b,c)` or `a/b(c)` into the mask. */
function parsePath(parser: Parser, mask: Mask): void {
  const name = /^\s*([\w-]+|\*)\s*/.exec(parser.text.slice(parser.at));
  if (!name) throw unreadable(parser.text);
  parser.at += name[0].length;
  const below: Mask = new Map();
  if (taken(parser, '/')) parsePath(parser, below);
  else if (taken(parser, '(')) {
    for (const [field, wanted] of parseList(parser)) below.set(field, wanted);
    if (!taken(parser, ')')) throw unreadable(parser.text);
  } else return void mask.set(name[1]!, null);
  mask.set(name[1]!, union(mask.get(name[1]!), below));
}

function taken(parser: Parser, sign: string): boolean {
  if (parser.text[parser.at] !== sign) return false;
  parser.at++;
  return true;
}

/** Merges masks: `items/id,items/etag` selects both. */
function union(one: Mask | null | undefined, other: Mask | null): Mask | null {
  if (one === undefined) return other;
  if (one === null || other === null) return null;
  const both: Mask = new Map(one);
  for (const [field, wanted] of other) both.set(field, union(both.get(field), wanted));
  return both;
}

/** The part of the body that the mask selects. */
export function select(value: unknown, mask: Mask): unknown {
  if (Array.isArray(value)) return value.map(item => select(item, mask));
  if (typeof value !== 'object' || value === null || isRaw(value)) return undefined;
  const chosen = Object.entries(value).flatMap(([field, content]) => {
    const wanted = mask.get(field) ?? mask.get('*');
    if (wanted === undefined && !mask.has(field) && !mask.has('*')) return [];
    const part = wanted ? select(content, wanted) : content;
    return part === undefined ? [] : [[field, part]];
  });
  return Object.fromEntries(chosen);
}

const unreadable = (fields: string) => invalid('fields', `Invalid field selection ${fields}`);
