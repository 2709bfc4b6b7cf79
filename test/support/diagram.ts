/** The diagram of the tables as a picture: Graphviz places them, so that lines cross as little as can be. */
import { instance } from '@viz-js/viz';
import { nameOf, type Relation, type Schema } from '../../src/analytics/catalog.ts';
import { type Diagram, drawn, named } from '../../src/analytics/erd.ts';

/** Heads by schema; told apart by people who see no red or no green as well, and by their names. */
const colours: Readonly<Record<string, string>> = {
  helpdesk: '#0b5394',
  books: '#7a4b00',
  fact: '#0b5394',
  dim: '#4d4d4d',
};

const notes: Readonly<Record<Diagram, string>> = {
  mirror: 'Join on account_id too, wherever both sides have it. Columns that begin with _ are left out.',
  star: 'Every account_key joins analytics.dim_account.',
};

export async function svgOf(schemas: readonly Schema[], diagram: Diagram): Promise<string> {
  const viz = await instance();
  const svg = viz.renderString(dot(schemas, diagram), { format: 'svg', engine: 'dot' });
  // What it says of itself and its version would change with the library alone.
  return `${svg.replace(/<!--[\s\S]*?-->\n?/g, '').trim()}\n`;
}

function dot(schemas: readonly Schema[], diagram: Diagram): string {
  const { relations, edges } = drawn(schemas, diagram);
  const lines = [
    'digraph tables {',
    `  graph [rankdir=LR, nodesep=0.35, ranksep=1.1, pad=0.3, bgcolor=white, fontname="Helvetica", labelloc=t, label=<${notes[diagram]}>];`,
    '  node [shape=plain, fontname="Helvetica", fontsize=12];',
    '  edge [color="#666666", arrowsize=0.7, penwidth=1.2, fontname="Helvetica"];',
    ...relations.map(relation => `  "${nameOf(relation)}" [label=<${box(relation)}>];`),
    // Everything joins the account: lines to it would only hide the others.
    ...edges
      .filter(({ to }) => to.name !== 'dim_account')
      .map(({ from, to, join }) => {
        const last = join.columns.length - 1;
        return `  "${nameOf(from)}":"${join.columns[last]}_":e -> "${nameOf(to)}":"${join.fields[last]}":w [tooltip="${named(join)}"];`;
      }),
    '}',
  ];
  return lines.join('\n');
}

function box(relation: Relation): string {
  const joined = new Set(relation.joins.flatMap(join => named(join).split(', ')));
  const group = relation.schema === 'analytics' ? relation.name.split('_')[0]! : relation.schema;
  const columns = relation.columns.filter(({ name }) => !name.startsWith('_'));
  const rows = columns.map(({ name, type }) => {
    const isKey = relation.key.includes(name);
    const label = isKey ? `<b>${name}</b>` : name;
    const mark = isKey ? 'key' : joined.has(name) ? '→' : ' ';
    return `<tr><td align="left" port="${name}">${label}${slack(name, isKey)}</td><td align="left"><font color="#555555" point-size="10">${type}${slack(type)}</font></td><td align="left" port="${name}_"><font color="#555555" point-size="10">${mark}</font></td></tr>`;
  });
  return `<table border="1" color="#888888" cellborder="0" cellspacing="0" cellpadding="2"><tr><td colspan="3" bgcolor="${colours[group]}"><font color="white" point-size="14"><b>${slack(nameOf(relation))}${nameOf(relation)}${slack(nameOf(relation))}</b></font></td></tr>${rows.join('')}</table>`;
}

/** Graphviz counts with letters as narrow as Helvetica's; where that is missing, others take their place. */
const slack = (text: string, bold = false): string => '&#160;'.repeat(2 + Math.ceil(text.length * (bold ? 0.5 : 0.4)));
