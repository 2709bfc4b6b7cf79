/** The questions of docs/queries with their answers, as a page. */
import type pg from 'pg';
import type { Query } from '../../src/analytics/questions.ts';
import { type Cell, cellText, table } from '../../src/cli/output/terminal.ts';

const opening = `# Questions, and what the warehouse answers

Each is a file of [docs/queries](../queries) with its SQL: \`npx shelfdesk query list\` names them, \`npx shelfdesk query run <name>\`
asks one, and any other tool runs the SQL as it stands. They read \`analytics\`, \`safe\` and \`books\` only, so every reader may ask them. What the columns
mean, [tables.md](tables.md) says.

The answers here are those of a made-up shop: the sandbox with seed 8, read three times a day from 1 March to 1 June 2026 at midday.
They are generated, and a test holds all but one; \`npm run docs\` writes them anew.

![How much work is left undone at the end of each day?](backlog.svg)
![How long do customers wait for a first response?](first-response.svg)
![When do customers write?](arrivals.svg)
![What do the credits go into?](credits.svg)`;

const widest = 110;

/** A day is told as a day, and not as the midnight of whoever looks. */
const asText: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number) => (text: string) => (numbers.has(oid) ? Number(text) : text)) as never,
};
const numbers = new Set([20, 21, 23, 700, 701, 1700]);

/** How often the mirror looks again is a matter of moments: what that costs is shown as it was once, and held by no test. */
export const examples: readonly string[] = ['credits'];
const example = 'The answer is an example: the number of re-reads depends on the moment.';

/** `shown`: the page as it is, whose examples stay. */
export async function answered(db: Pick<pg.Pool, 'query'>, queries: readonly Query[], shown = ''): Promise<string> {
  const parts = [
    opening,
    queries.map(({ name, question }) => `- [${question}](#${anchor(question)}) \`${name}\``).join('\n'),
  ];
  for (const { name, question, notes, sql } of queries) {
    const { fields, rows } = await db.query<Cell[]>({ text: sql, rowMode: 'array', types: asText });
    const answer = table(
      fields.map(field => field.name),
      rows.map(row => row.map(cell => (cell === null || typeof cell === 'number' ? cell : cellText(cell)))),
      widest,
    );
    const kept = examples.includes(name) ? shownOf(shown, question) : undefined;
    parts.push(
      `## ${question}`,
      [...notes, ...(examples.includes(name) ? [example] : []), `[${name}.sql](../queries/${name}.sql)`].join(' '),
      `\`\`\`text\n${kept ?? answer}\n\`\`\``,
    );
  }
  return `${parts.join('\n\n')}\n`;
}

const shownOf = (page: string, question: string): string | undefined =>
  /^```text\n([\s\S]*?)\n```$/m.exec(page.split(`\n## ${question}\n`)[1] ?? '')?.[1];

/** As GitHub makes it of a heading. */
const anchor = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
