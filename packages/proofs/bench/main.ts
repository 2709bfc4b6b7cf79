/**
 * All measurements, side by side in one run: `npm run bench`, or some of them: `npm run bench -- load credits`. Starts what it
 * needs, prints min, median and max of the rounds, writes its sections of packages/proofs/bench/RESULTS.md and the headlines of docs/reference/figures.md, and
 * ends with 1 where a figure is not what was asked for. `--quick` takes a tenth of the sizes and writes nothing.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type Figure, isMet, lineOf, type Section, tableOf, withHeadlines } from './report.ts';
import { sections } from './sections/index.ts';

const results = fileURLToPath(new URL('RESULTS.md', import.meta.url));
const headlines = fileURLToPath(new URL('../../../docs/reference/figures.md', import.meta.url));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: 'boolean', default: false } },
});
const unknown = positionals.filter(name => !sections.some(section => section.name === name));
if (unknown.length > 0) {
  console.error(
    `There is no section ${unknown.join(', ')}. There are: ${sections.map(({ name }) => name).join(', ')}.`,
  );
  process.exit(2);
}

let missed = 0;
for (const section of sections) {
  if (positionals.length > 0 && !positionals.includes(section.name)) continue;
  console.log(`\n${section.title}`);
  const started = performance.now();
  const figures: Figure[] = [];
  const notes: string[] = [];
  await section.run({
    quick: values.quick,
    figure: figure => {
      figures.push(figure);
      console.log(`  ${lineOf(figure)}`);
    },
    note: text => {
      notes.push(text);
      console.log(`  ${text}`);
    },
  });
  missed += figures.filter(figure => !isMet(figure)).length;
  const minutes = ((performance.now() - started) / 60_000).toFixed(1);
  console.log(`  (${minutes} minutes)`);
  if (!values.quick)
    write(
      section,
      `${section.about}\n\n${when()}, ${minutes} minutes.\n\n${tableOf(figures)}${notes.map(text => `\n\n${text}`).join('')}`,
    );
}
console.log(missed === 0 ? '\nEvery figure is what was asked for.' : `\n${missed} figures are not what was asked for.`);
process.exitCode = missed === 0 ? 0 : 1;

function when(): string {
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
  const [first] = cpus();
  const machine = `${cpus().length} cores (${first?.model.trim() ?? 'unknown'}), ${Math.round(totalmem() / 2 ** 30)} GB, Node ${process.versions.node}`;
  return `${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC, commit ${commit}, ${machine}`;
}

/** The other sections stay as they are: each says when it was measured. */
function write({ name, title }: Section, text: string): void {
  const parts = new Map<string, string>();
  if (existsSync(results)) {
    for (const part of readFileSync(results, 'utf8')
      .split(/^(?=## )/m)
      .slice(1))
      parts.set(/^## (.*)$/m.exec(part)![1]!, part);
  }
  parts.set(title, `## ${title}\n\n\`npm run bench -- ${name}\` · ${text}`);
  const all = sections.flatMap(section => parts.get(section.title)?.trim() ?? []);
  const page = `# Measured\n\nBy \`npm run bench\`, which writes this page. The median is held to what is asked; each section says when, where and by which command it was measured.\n\n${all.join('\n\n')}\n`;
  writeFileSync(results, page);
  writeFileSync(headlines, withHeadlines(readFileSync(headlines, 'utf8'), page));
}
