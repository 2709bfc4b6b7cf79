/**
 * Reads `.env` as Node does, and refuses what Node leaves out or cuts in silence: a setting that is lost would send the work into another
 * database. Errors name the line and the name, never a value.
 */
import { lstatSync } from 'node:fs';
import { UsageError } from '../../errors.ts';
import { readText } from './read-text.ts';

const blank = /[ \t]*(?:#[^\n]*)?(?:\n|$)/y;
const start = /[ \t]*(?:export[ \t]+)?([A-Za-z_0-9][\w.-]*)[ \t]*=[ \t]*/y;
const plain = /[^\n#]*/y;
const typographic = /^[\u2018-\u201f\u00ab\u00bb]/;

/** The settings of the file by name; none without a file. `isKnown` tells a name of a setting. Throws UsageError. */
export function readEnvFile(path: string, isKnown: (name: string) => boolean): Record<string, string> {
  // A missing file is allowed. A link to a missing file is an error.
  if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return {};
  return parseEnvText(readText(path), path, isKnown);
}

// @internal Tests compare thousands of texts with Node, without a file for each.
export function parseEnvText(text: string, path: string, isKnown: (name: string) => boolean): Record<string, string> {
  const lines = new Map<string, number>();
  const values: Record<string, string> = {};
  let at = 0;
  const lineOf = (place: number) => text.slice(0, place).split('\n').length;
  const here = () => `line ${lineOf(at)} of ${path}`;
  const taken = (form: RegExp): RegExpExecArray | null => {
    form.lastIndex = at;
    const found = form.exec(text);
    if (found) at = form.lastIndex;
    return found;
  };
  while (at < text.length) {
    if (taken(blank)) continue;
    const place = here();
    const name = taken(start)?.[1];
    if (name === undefined)
      throw new UsageError(
        `${place} is not NAME=value`,
        'Correct the line, or begin it with # to make it a comment. A value of several lines needs quotes.',
      );
    if (lines.has(name))
      throw new UsageError(
        `${place} sets ${name} again: line ${lines.get(name)} sets it too`,
        'Keep one of the two lines.',
      );
    lines.set(name, lineOf(at));
    values[name] = valueAt(name, place);
  }
  return values;

  function valueAt(name: string, place: string): string {
    const quote = /["'`]/.exec(text[at] ?? '')?.[0];
    if (quote === undefined) return plainAt(name, place);
    const end = text.indexOf(quote, at + 1);
    if (end < 0)
      throw new UsageError(
        `${place} opens a quote for ${name} that nothing closes`,
        `Add ${quote} at the end of the value.`,
      );
    const value = text.slice(at + 1, end);
    const swallowed = value
      .split('\n')
      .slice(1)
      .map(line => /^\s*(?:export\s+)?([\w.-]+)\s*=/.exec(line)?.[1])
      .find(other => other !== undefined && isKnown(other));
    at = end + 1;
    if (swallowed !== undefined || !taken(blank))
      throw new UsageError(
        `${place} opens a quote for ${name} that ends ${swallowed === undefined ? 'before the value does' : `after ${swallowed}`}`,
        `Put the value into quotes that are not part of it: ' or " or \`.`,
      );
    return quote === '"' ? value.replaceAll('\\n', '\n') : value;
  }

  function plainAt(name: string, place: string): string {
    const before = at > 0 ? text[at - 1]! : '';
    const value = taken(plain)![0];
    if (text[at] === '#' && !/[ \t]$/.test(before + value))
      throw new UsageError(
        `${place} has a # in the value of ${name}, which begins a comment there`,
        'Put the value into quotes. Before a comment, put a blank.',
      );
    if (typographic.test(value))
      throw new UsageError(
        `${place} opens the value of ${name} with a typographic quote, which is no quote here`,
        `Use ' or " instead.`,
      );
    taken(blank);
    return value.trim();
  }
}
