/** Renders the data dictionary as Markdown: one table per relation, from the comments. */
import { nameOf, type Relation, type Schema } from './catalog.ts';

const opening = `# Every table and every column

What each schema, table, view, column and function means: the comments of a warehouse, as they are in the database itself.
\`npx shelfdesk schema dictionary\` prints this page; \`select * from analytics.data_dictionary\` answers with the same, and shows
readers what they may read. \`npx shelfdesk schema erd\` draws how the tables hang together, as Mermaid, and \`--of star\` the star for BI
tools. This page is generated: who wants to change it changes a comment in schema/.`;

export function dictionary(schemas: readonly Schema[]): string {
  return `${[opening, contents(schemas), ...schemas.map(chapter)].join('\n\n')}\n`;
}

function contents(schemas: readonly Schema[]): string {
  return schemas
    .map(({ name, relations }) => {
      const links = relations.map(relation => `[${relation.name}](#${anchor(relation)})`);
      return `- **[${name}](#schema-${name})**: ${links.join(' · ')}`;
    })
    .join('\n');
}

/** Anchor of a heading, by GitHub's rules. */
const anchor = (relation: Relation): string => nameOf(relation).replaceAll('.', '');

function chapter({ name, comment, relations, routines }: Schema): string {
  const parts = [`## Schema ${name}`, comment, ...relations.map(section)];
  if (routines.length > 0) {
    parts.push(
      `### Functions of ${name}`,
      grid(
        ['function', 'gives', 'meaning'],
        routines.map(one => [code(one.name), code(one.gives), text(one.comment)]),
      ),
    );
  }
  return parts.join('\n\n');
}

function section(relation: Relation): string {
  const { kind, comment, columns, key } = relation;
  const grain = key.length > 0 ? ` Key: ${key.map(code).join(', ')}.` : '';
  const rows = columns.map(column => [
    code(column.name),
    code(column.type),
    column.nullable === undefined ? '' : column.nullable ? 'yes' : 'no',
    text(column.comment),
  ]);
  return [
    `### ${nameOf(relation)}`,
    `${comment === '' ? '' : `${text(comment)} `}(A ${kind}.)${grain}`,
    grid(['column', 'type', 'may be null', 'meaning'], rows),
  ].join('\n\n');
}

function grid(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

const code = (word: string): string => `\`${word.replaceAll('|', '\\|')}\``;

/** Escapes Markdown characters; formats commands as code. */
const text = (words: string): string =>
  words
    .replaceAll(/\s*\n\s*/g, ' ')
    .replaceAll(/[|<*]/g, sign => `\\${sign}`)
    .replaceAll(/(?<![\w`])_(?=\w)/g, '\\_')
    .replaceAll(
      /\bjoins ([a-z]\w*)\.([a-z]\w*)\./gi,
      (_, schema, name) => `joins [${schema}.${name}](#${schema}${name}).`,
    )
    .replaceAll(/(?<!`)npx shelfdesk [a-z]+(?: [a-z]+){0,2}(?=[.,;:)])/g, command => `\`${command}\``);
