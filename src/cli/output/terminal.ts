/** Terminal output. Results go to stdout and everything else to stderr, so that stdout can be piped. */

import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { stripVTControlCharacters, styleText } from 'node:util';
import { exitCodes, Interrupted, machineRefusal, UsageError } from '../../errors.ts';
import { count } from '../../words.ts';
import { cursor } from './frame.ts';

/**
 * Output that cannot be written does not end the work of a command. A reader such as `head` may exit early (EPIPE). Any other
 * reason, such as a full disk, is said once on stderr, and the process exits with 1.
 */
export function failPlainly(): void {
  process.stderr.on('error', () => {});
  let isSaid = false;
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE' || isSaid) return;
    isSaid = true;
    const { message, remedy } = machineRefusal(error) ?? { message: error.message, remedy: '' };
    say(`${style('red', 'error:', process.stderr)} the output cannot be written: ${message}`);
    say(remedy);
    process.on('exit', code => {
      if (code === exitCodes.ok) process.exitCode = exitCodes.failed;
    });
  });
}

/** Prints a line for people, to stderr. At a terminal it is broken between words, with the indent that it begins with. */
export function say(line = ''): void {
  const [indent = ''] = /^ */.exec(line)!;
  const lines = brokenAt(process.stderr, line, indent);
  if (below === undefined) process.stderr.write(`${lines.join('\n')}\n`);
  else below(lines);
}

/** For progress: says a line unless it was the last one. */
export function sayOnce(): (line: string) => void {
  let last = '';
  return line => {
    if (line !== last) say(line);
    last = line;
  };
}

let below: ((above: readonly string[]) => void) | undefined;

/** Progress lines stay at the bottom of the terminal: `write` prints other lines above them. Undefined: they are gone. */
export function keepBelow(write: typeof below): void {
  below = write;
}

/** Prints a text that is a result, to stdout. At a terminal it is broken between words; further lines begin with `rest`. */
export function printLines(text: string, first: string, rest: string = first): void {
  print(brokenAt(process.stdout, first + text, rest).join('\n'));
}

/** Lines within the width of a terminal; elsewhere one line, for programs that look for words. */
function brokenAt(stream: NodeJS.WriteStream, text: string, indent: string): string[] {
  if (!stream.isTTY) return [text];
  const columns = (stream.columns || 80) - 1;
  return text.split('\n').flatMap(line => {
    if (stripVTControlCharacters(line).length <= columns) return [line];
    const [head = ''] = /^ */.exec(line)!;
    const [first = '', ...more] = wrapped(line.trim(), columns - Math.max(head.length, indent.length));
    return [head + first, ...more.map(one => indent + one)];
  });
}

/** Replaces the line of the cursor at a terminal, on stderr. An empty one clears it. */
export function rewriteLine(text: string): void {
  process.stderr.write(`\r\x1b[K${text}`);
}

/** Prints a result, to stdout. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

/** Prints a list: one JSON document, or a table with a row for each. `none` is said of an empty one. */
export function printList<T>(
  all: readonly T[],
  { json = false }: { json?: boolean },
  { columns, row, none }: { columns: readonly string[]; row: (one: T) => readonly Cell[]; none?: string },
): void {
  if (json) printJson(all);
  else if (all.length > 0 || none === undefined) print(table(columns, all.map(row)));
  if (all.length === 0 && none !== undefined) say(none);
}

/** Asks a question at the terminal. Undefined without a terminal. `hidden`: the answer is not shown. */
export async function askToType(
  question: string,
  signal: AbortSignal,
  { hidden = false } = {},
): Promise<string | undefined> {
  if (process.stdin.isTTY !== true || process.stderr.isTTY !== true) return undefined;
  let isMuted = false;
  const output = new Writable({
    write(chunk, _encoding, done) {
      if (!isMuted) process.stderr.write(chunk);
      done();
    },
  });
  const terminal = createInterface({ input: process.stdin, output, terminal: true });
  try {
    const answer = terminal.question(question, { signal });
    isMuted = hidden;
    return (await answer).trim();
  } catch (error) {
    // Ctrl-C at the question.
    throw (error as Error).name === 'AbortError' ? new Interrupted() : error;
  } finally {
    if (isMuted) say();
    terminal.close();
  }
}

/** Asks for the name of what is meant, before an act such as `a removal`. Throws UsageError unless it is typed. */
export async function askToConfirm(
  name: string,
  { says, act, remedy = 'Add --yes to skip the confirmation.' }: { says: string; act: string; remedy?: string },
  signal: AbortSignal,
): Promise<void> {
  const typed = await askToType(`${says} Type ${name} to confirm: `, signal);
  if (typed === name) return;
  throw new UsageError(
    typed === undefined
      ? `${act} needs a confirmation, but there is no terminal`
      : 'nothing was done: what was typed differs',
    remedy,
  );
}

/** Colours text if the stream is a terminal; Node honours NO_COLOR. */
export function style(format: Parameters<typeof styleText>[0], text: string, stream: NodeJS.WriteStream): string {
  return styleText(format, text, { stream });
}

export type Cell = string | number | boolean | bigint | Date | null | undefined | object;

/** The space for a table. A terminal wraps longer lines, and keeps only the last rows. */
export interface Room {
  readonly columns: number;
  readonly rows: number;
}

/** At a terminal its width and `mostRows`; elsewhere everything is written. */
const roomOf = (stream: NodeJS.WriteStream): Room =>
  // A terminal that does not know its size says 0.
  stream.isTTY ? { columns: stream.columns || 80, rows: mostRows } : { columns: Infinity, rows: Infinity };

const mostRows = 200;
/** Least width of a column of text when columns are narrowed. */
const leastColumn = 8;
const between = 2;

/**
 * Formats a table: numbers right-aligned, times in UTC, null as an empty cell. The last line names rows and columns
 * that do not fit.
 */
export function table(
  columns: readonly string[],
  rows: readonly (readonly Cell[])[],
  widest = 60,
  room: Room = roomOf(process.stdout),
): string {
  const texts = rows.slice(0, room.rows).map(row => row.map(cell => shorten(cellText(cell), widest)));
  // No spread: a call with an argument for each of 110,000 rows overflows the stack.
  const whole = columns.map((column, i) =>
    texts.reduce((widest, row) => Math.max(widest, width(row[i] ?? '')), width(column)),
  );
  const right = columns.map(
    (_, i) => rows.length > 0 && rows.every(row => row[i] == null || typeof row[i] === 'number'),
  );
  const isWhole = columns.map((_, i) => right[i]! || rows.some(row => row[i] instanceof Date));
  const widths = fitted(whole, isWhole, room.columns);
  const line = (cells: readonly string[]) =>
    widths
      .map((columns, i) => pad(cut(cells[i] ?? '', columns), columns, right[i]!))
      .join(' '.repeat(between))
      .trimEnd();
  return [
    line(columns),
    widths.map(n => '─'.repeat(n)).join(' '.repeat(between)),
    ...texts.map(line),
    ...leftOut(rows.length - texts.length, columns.slice(widths.length), room.columns),
  ].join('\n');
}

/** The columns of a table: what each row has below each heading. */
export type Columns<T> = Readonly<Record<string, (one: T) => Cell>>;

/** A table with a row for each. */
export const tableOf = <T>(all: readonly T[], columns: Columns<T>, widest?: number): string =>
  table(
    Object.keys(columns),
    all.map(one => Object.values(columns).map(of => of(one))),
    widest,
  );

/** Widths within `room`: the widest texts are cut, but no number and no time; and where that is too little, the last columns are left out. */
function fitted(whole: readonly number[], isWhole: readonly boolean[], room: number): number[] {
  const atMost = (most: number, columns: number) =>
    whole.slice(0, columns).map((n, i) => (isWhole[i] ? n : Math.min(n, most)));
  const sum = (widths: readonly number[]) => widths.reduce((all, n) => all + n + between, -between);
  let columns = whole.length;
  while (columns > 1 && sum(atMost(leastColumn, columns)) > room) columns--;
  let most = whole.reduce((a, b) => Math.max(a, b), leastColumn);
  while (most > leastColumn && sum(atMost(most, columns)) > room) most--;
  return atMost(most, columns);
}

function leftOut(rows: number, columns: readonly string[], room: number): string[] {
  const lacking = [
    ...(rows > 0 ? [count(rows, 'more row')] : []),
    ...(columns.length > 0 ? [`${columns.length === 1 ? 'column' : 'columns'} ${columns.join(', ')}`] : []),
  ];
  if (lacking.length === 0) return [];
  const text = `… ${lacking.join(', and ')} not shown. All of it: the same command with \`| less -S\` behind it.`;
  return wrapped(text, Math.min(room, 80) - 1);
}

/** Breaks a text into lines no wider than `columns`. A longer word has a line of its own. */
export function wrapped(text: string, columns: number): string[] {
  const lines = [''];
  // A command in backticks is copied in one piece.
  for (const word of text.match(/`[^`]*`\S*|\S+/g) ?? []) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (lines.at(-1) !== '' && stripVTControlCharacters(longer).length > columns) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

function cut(text: string, columns: number): string {
  if (width(text) <= columns) return text;
  let kept = '';
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    if (width(kept + segment) >= columns) break;
    kept += segment;
  }
  return `${kept}…`;
}

/** Prints rows as CSV, as `psql --csv` does. Null is an empty field, and an empty text is quoted, so that they differ. */
export function printCsv(rows: readonly (readonly Cell[])[]): void {
  for (const row of rows) print(row.map(field).join(','));
}

function field(cell: Cell): string {
  if (cell === null || cell === undefined) return '';
  const text = cellText(cell);
  return text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function cellText(cell: Cell): string {
  if (cell === null || cell === undefined) return '';
  if (cell instanceof Date) return cell.toISOString().replace('.000Z', 'Z');
  return typeof cell === 'object' ? JSON.stringify(cell) : String(cell);
}

/** Makes one short line: control characters would move the cursor, long texts would widen the column. */
function shorten(text: string, widest: number): string {
  const line = text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ');
  if (line.length <= widest) return line;
  const letters = [...new Intl.Segmenter().segment(line)].map(part => part.segment);
  return letters.length > widest ? `${letters.slice(0, widest - 1).join('')}…` : line;
}

/** Width in terminal columns: East Asian letters and emoji take two. */
function width(text: string): number {
  if (/^[ -~]*$/.test(text)) return text.length;
  let columns = 0;
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    columns +=
      /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60]|\p{Extended_Pictographic}/u.test(
        segment,
      )
        ? 2
        : 1;
  }
  return columns;
}

function pad(text: string, columns: number, right: boolean): string {
  const space = ' '.repeat(columns - width(text));
  return right ? space + text : text + space;
}

/** Shows the cursor, which progress has hidden, because a second signal ends the process immediately. */
export function showCursor(): void {
  if (process.stderr.isTTY) process.stderr.write(cursor.show);
}
