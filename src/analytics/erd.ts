/** Renders tables and joins as a Mermaid diagram, which GitHub and many editors display. */
import { isOfStar, type Join, nameOf, type Relation, type Schema } from './catalog.ts';

/** The mirrors, or the star for BI tools. One diagram of both would be unreadable. */
export const diagrams = {
  mirror: (_relation: Relation, { isMirror }: Schema) => isMirror,
  star: (relation: Relation) => isOfStar(relation),
} as const;

export type Diagram = keyof typeof diagrams;

export function mermaid(schemas: readonly Schema[], diagram: Diagram): string {
  const relations = schemas.flatMap(schema => schema.relations.filter(relation => diagrams[diagram](relation, schema)));
  const edges = relations.flatMap(from =>
    from.joins.flatMap(join => {
      const to = relations.find(relation => nameOf(relation) === join.to);
      return to ? [{ from, to, join }] : [];
    }),
  );
  const lines = [
    '%% Generated: `npx shelfdesk schema erd` prints it.',
    'erDiagram',
    ...relations.flatMap(entity),
    // The referenced row may be missing, because rows arrive in any order.
    ...edges.map(({ from, to, join }) => `  ${id(to)} |o--o{ ${id(from)} : "${named(join)}"`),
  ];
  return `${lines.join('\n')}\n`;
}

const id = (relation: Relation): string => nameOf(relation).replace('.', '_');

const named = (join: Join): string => join.columns.filter(column => column !== 'account_id').join(', ');

function entity(relation: Relation): string[] {
  const rows = relation.columns.map(column => {
    const marks = [
      ...(relation.key.includes(column.name) ? ['PK'] : []),
      ...(relation.joins.some(join => named(join).split(', ').includes(column.name)) ? ['FK'] : []),
    ];
    return `    ${column.type.replaceAll(' ', '_')} ${column.name}${marks.length > 0 ? ` ${marks.join(', ')}` : ''}`;
  });
  return [`  ${id(relation)}["${nameOf(relation)}"] {`, ...rows, '  }'];
}
