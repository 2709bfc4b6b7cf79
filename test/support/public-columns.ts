/**
 * The columns that analysts may rely on: `helpdesk.tickets.subject text`, a line for each, in test/unit/public-columns.txt. A
 * column that goes, or changes its type, breaks their queries.
 */
import type { Schema } from '../../src/analytics/catalog.ts';

/** Type of each column, by its whole name. Columns with `_` in front are the worker's own. */
export const columnsIn = (schemas: readonly Schema[]): Map<string, string> =>
  new Map(
    schemas.flatMap(({ relations }) =>
      relations.flatMap(({ schema, name, columns }) =>
        columns
          .filter(column => !column.name.startsWith('_'))
          .map(({ name: column, type }) => [`${schema}.${name}.${column}`, type] as const),
      ),
    ),
  );

export const written = (columns: ReadonlyMap<string, string>): string =>
  [...columns]
    .map(([name, type]) => `${name} ${type}\n`)
    .sort()
    .join('');

export const parsed = (text: string): Map<string, string> =>
  new Map(
    text
      .split('\n')
      .filter(Boolean)
      .map(line => [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)]),
  );

/**
 * Columns that went or changed their type although no major version in the changelog names them. A first version, 0.x,
 * may change them too, under its own heading.
 */
export function broken(
  kept: ReadonlyMap<string, string>,
  now: ReadonlyMap<string, string>,
  changelog: string,
): string[] {
  const majors = changelog.split(/^## /m).filter(section => /^(\d+\.0\.0|0\.\d+\.0)\b/.test(section));
  return [...kept]
    .filter(([name, type]) => now.get(name) !== type)
    .filter(([name]) => !majors.some(section => section.includes(`\`${name}\``)))
    .map(([name, type]) => `${name} ${type} → ${now.get(name) ?? 'gone'}`);
}
