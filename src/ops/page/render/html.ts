/**
 * Builds HTML strings. The template function `html` escapes all foreign text (names, sentences of a source) in one
 * place. Times, numbers and durations have one format everywhere.
 */
import * as words from '../../../words.ts';

export interface Html {
  readonly html: string;
}

export type Part = Html | string | number | null | false | readonly Part[];

/** Template that escapes its values, unless they are HTML. Null and false render as nothing. */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  return { html: String.raw({ raw: strings }, ...parts.map(escaped)) };
}

const signs: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

// @internal Tests look for foreign text as the page writes it.
export function escaped(part: Part): string {
  if (part === null || part === false) return '';
  if (typeof part === 'object') return 'html' in part ? part.html : part.map(escaped).join('');
  return String(part).replaceAll(/[&<>"']/g, sign => signs[sign]!);
}

/** Foreign text with its own writing direction, isolated from its surroundings. */
export const text = (words: string): Html => html`<bdi>${words}</bdi>`;

/** A cell that names its column, for phones: there each row is a card. */
export const cell = (head: string, value: Part, kind?: 'n'): Html =>
  html`<td data-head="${head}"${kind === undefined ? null : html` class="${kind}"`}>${value}</td>`;

/** The cells of a row. */
export const cells = (heads: readonly string[], values: readonly Part[], isFigure: IsFigure): Html[] =>
  values.map((value, i) => cell(heads[i]!, value, isFigure(i) ? 'n' : undefined));

/** Whether a column has figures, by its place. */
type IsFigure = (place: number) => boolean;

/** A table that scrolls by itself, below the headline with the id `NAME-h`. `last`: a further head. */
export const table = (
  name: string,
  heads: readonly string[],
  rows: Part,
  { kind, isFigure = () => false, last = null }: { kind?: string; isFigure?: IsFigure; last?: Part } = {},
): Html => html`<div class="wide" role="region" aria-labelledby="${name}-h" tabindex="0"><table${kind === undefined ? null : html` class="${kind}"`}><thead><tr>${heads.map((head, i) => html`<th scope="col"${isFigure(i) ? html` class="n"` : null}>${head}</th>`)}${last}</tr></thead>
<tbody>${rows}</tbody></table></div>`;

/** Text between backticks becomes code. */
export const prose = (words: string): Html[] =>
  words.split('`').map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : html`${part}`));

/** `1,234`. */
export const amount = (n: number): string => words.amount(Math.round(n));

/** `1 ticket`, `1,234 tickets`. */
export const count = (n: number, one: string, many = `${one}s`): string =>
  words.count(Math.round(n), one, many).replace(' ', '\u00a0');

/** `3 s`, `4 min`, `33 h`. */
export const lasting = (seconds: number): string => words.duration(seconds).replace(' ', '\u00a0');

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const two = (n: number) => String(n).padStart(2, '0');

/**
 * A time to the minute or second in UTC; with its date if that is not today. The page's script shows the same in the
 * visitor's time zone.
 */
export function time(at: Date, now: Date, { seconds = false } = {}): Html {
  const clock = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${seconds ? `:${two(at.getUTCSeconds())}` : ''}`;
  const isToday = at.toISOString().slice(0, 10) === now.toISOString().slice(0, 10);
  const year = at.getUTCFullYear() === now.getUTCFullYear() ? '' : ` ${at.getUTCFullYear()}`;
  const day = isToday ? '' : `${at.getUTCDate()} ${months[at.getUTCMonth()]}${year}, `;
  return html`<time datetime="${at.toISOString()}"${seconds ? html` data-seconds` : null}>${day}${clock}</time>`;
}
