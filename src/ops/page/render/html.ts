/**
 * HTML as text, from rows. Whatever comes from elsewhere (names, sentences of a source, who did it) is escaped in one
 * place, `html`; times, numbers and durations are written in one way, everywhere.
 */
import * as words from '../../../words.ts';

export interface Html {
  readonly html: string;
}

export type Part = Html | string | number | null | false | readonly Part[];

/** A template whose values are escaped, unless they are HTML themselves. Null and false are nothing. */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  return { html: String.raw({ raw: strings }, ...parts.map(escaped)) };
}

const signs: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

export function escaped(part: Part): string {
  if (part === null || part === false) return '';
  if (typeof part === 'object') return 'html' in part ? part.html : part.map(escaped).join('');
  return String(part).replaceAll(/[&<>"']/g, sign => signs[sign]!);
}

/** Text of strangers: its direction is its own, and turns nothing around it. */
export const text = (words: string): Html => html`<bdi>${words}</bdi>`;

/** What stands between backticks, as code. */
export const prose = (words: string): Html[] =>
  words.split('`').map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : html`${part}`));

/** `1,234`. */
export const amount = (n: number): string => words.amount(Math.round(n));

/** `1 ticket`, `1,234 tickets`. */
export const count = (n: number, one: string, many = `${one}s`): string =>
  words.count(Math.round(n), one, many).replace(' ', '\u00a0');

/** Formats a duration with about two digits: `3 s`, `4 min`, `33 h`. */
export function lasting(seconds: number): string {
  const s = Math.max(0, seconds);
  if (s < 90) return `${Math.round(s)}\u00a0s`;
  if (s < 90 * 60) return `${Math.round(s / 60)}\u00a0min`;
  if (s < 48 * 3600) return `${Math.round(s / 3600)}\u00a0h`;
  return `${Math.round(s / 86_400)}\u00a0d`;
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const two = (n: number) => String(n).padStart(2, '0');

/**
 * A time to the minute, or the second, in UTC; with its day where that is not today's. The script of the page writes the
 * same in the zone of whoever looks.
 */
export function time(at: Date, now: Date, { seconds = false } = {}): Html {
  const clock = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${seconds ? `:${two(at.getUTCSeconds())}` : ''}`;
  const isToday = at.toISOString().slice(0, 10) === now.toISOString().slice(0, 10);
  const year = at.getUTCFullYear() === now.getUTCFullYear() ? '' : ` ${at.getUTCFullYear()}`;
  const day = isToday ? '' : `${at.getUTCDate()} ${months[at.getUTCMonth()]}${year}, `;
  return html`<time datetime="${at.toISOString()}"${seconds ? html` data-seconds` : null}>${day}${clock}</time>`;
}
