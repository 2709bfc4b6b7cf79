/** Renders the progress lines at the bottom of the terminal. Pure: builds frames and the escape sequences that redraw them. */

export interface Line {
  readonly mark: string;
  readonly name: string;
  /** 0 to 1; undefined if the total is unknown. */
  readonly share?: number | undefined;
  readonly hasBar: boolean;
  readonly text: string;
  readonly tone: Tone;
}

export type Tone = 'done' | 'wrong' | 'busy' | 'quiet';
export type Paint = (tone: Tone, text: string) => string;

const widest = 24;
const narrowest = 8;
/** Narrowest terminal with room for a bar. */
const forBar = 56;
const nameWidth = 10;

/** Renders the lines, none wider than the terminal. The last column stays free because some terminals wrap there. */
export function frameOf(lines: readonly Line[], columns: number, paint: Paint): string[] {
  const barWidth = columns < forBar ? 0 : Math.min(widest, Math.max(narrowest, Math.floor(columns / 5)));
  return lines.map(({ mark, name, share, hasBar, text, tone }) => {
    const label = ` ${name.padEnd(nameWidth)} `;
    const figure = share === undefined ? '' : `${String(percentOf(share)).padStart(3)} % `;
    const [full, rest] = hasBar ? barOf(share ?? 0, barWidth) : ['', ''];
    const bar = hasBar && barWidth > 0 ? `${paint('done', full)}${paint('quiet', rest)} ` : '';
    const taken = mark.length + label.length + (bar === '' ? 0 : barWidth + 1);
    const words = cut(`${figure}${text}`, columns - 1 - taken);
    const head = cut(label, columns - 1 - mark.length);
    return `${paint(tone, mark)}${head}${taken >= columns ? '' : bar}${tone === 'quiet' ? paint('quiet', words) : words}`.trimEnd();
  });
}

/** Rounds down, so that 100 % means complete. */
export const percentOf = (share: number): number => (share >= 1 ? 100 : Math.min(99, Math.floor(share * 100)));

const eighths = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

function barOf(share: number, width: number): [full: string, rest: string] {
  const parts = Math.round(Math.min(1, Math.max(0, share)) * width * 8);
  const full = '█'.repeat(Math.floor(parts / 8)) + eighths[parts % 8]!;
  return [full, '░'.repeat(width - full.length)];
}

const cut = (text: string, columns: number): string =>
  text.length <= columns ? text : columns <= 0 ? '' : `${text.slice(0, columns - 1)}…`;

const esc = String.fromCharCode(27);
const isColour = new RegExp(`${esc}\\[[\\d;]*m`, 'g');

/** Rows that the lines fill at this width. The terminal may have become narrower since they were drawn. */
// @internal Tests need no terminal for it.
export const heightOf = (lines: readonly string[], columns: number): number =>
  lines.reduce((rows, line) => rows + Math.max(1, Math.ceil(line.replaceAll(isColour, '').length / columns)), 0);

/**
 * Replaces the frame `before` by `lines` in one write, which avoids flicker. The lines `above` are printed once and scroll up
 * with the other output.
 */
export function redraw(
  before: readonly string[],
  lines: readonly string[],
  columns: number,
  above: readonly string[] = [],
): string {
  const rows = heightOf(before, columns);
  const up = rows > 0 ? `${esc}[${rows}A\r` : '';
  return `${up}${[...above, ...lines].map(line => `${line}${esc}[K\n`).join('')}${esc}[J`;
}

export const cursor = { hide: `${esc}[?25l`, show: `${esc}[?25h` };
