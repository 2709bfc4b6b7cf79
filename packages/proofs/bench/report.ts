/** What a measurement says: figures with their rounds, on the terminal as they come, and in packages/proofs/bench/RESULTS.md when all are there. */

/** What the median of a figure is held to. */
export interface Asked {
  readonly atLeast?: number;
  readonly atMost?: number;
}

export interface Figure extends Asked {
  /** Complete by itself: "tickets, first load: rows a second". */
  readonly what: string;
  /** Of the values: `rows/s`, `×`, `MB`, `s CPU`. */
  readonly unit: string;
  /** One value for each round. */
  readonly rounds: readonly number[];
  /** Stands in docs/reference/figures.md as well; in bold in packages/proofs/bench/RESULTS.md. */
  readonly headline?: boolean;
}

export interface Report {
  /** A tenth of the size: to see that the bench runs. What it says is not written down. */
  readonly quick: boolean;
  readonly figure: (figure: Figure) => void;
  /** A sentence that the figures need. */
  readonly note: (text: string) => void;
}

/** One file of packages/proofs/bench/sections and one line in packages/proofs/bench/sections/index.ts. */
export interface Section {
  readonly name: string;
  readonly title: string;
  /** What is measured and how: a paragraph, above the figures. */
  readonly about: string;
  readonly run: (report: Report) => Promise<void>;
}

export const medianOf = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
};

export const isMet = ({ rounds, atLeast = -Infinity, atMost = Infinity }: Figure): boolean => {
  const median = medianOf(rounds);
  return median >= atLeast && median <= atMost;
};

const askedOf = ({ atLeast, atMost }: Figure): string =>
  [
    ...(atLeast === undefined ? [] : [`≥ ${plain(atLeast)}`]),
    ...(atMost === undefined ? [] : [`≤ ${plain(atMost)}`]),
  ].join(', ');

/** 12,345 · 123 · 12.3 · 1.23 · 0.012 */
function plain(value: number): string {
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 0.1 || size === 0 ? 2 : 4;
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

const cellsOf = (figure: Figure): string[] => [
  figure.what,
  plain(Math.min(...figure.rounds)),
  plain(medianOf(figure.rounds)),
  plain(Math.max(...figure.rounds)),
  figure.unit,
  askedOf(figure),
  askedOf(figure) === '' ? '' : isMet(figure) ? 'yes' : '**no**',
];

/** For the terminal: a line. */
export const lineOf = (figure: Figure): string => {
  const [what, min, median, max, unit, asked, met] = cellsOf(figure) as [
    string,
    string,
    string,
    string,
    string,
    string,
    string,
  ];
  const tail = asked === '' ? '' : `   asked ${asked}: ${met === 'yes' ? 'yes' : 'NO'}`;
  return `${what.padEnd(76)} ${median.padStart(10)} ${unit.padEnd(8)} (${min} – ${max})${tail}`;
};

const heads = ['figure', 'min', 'median', 'max', 'unit', 'asked', 'met'];

/** With its columns aligned, as the formatter has it. Numbers stand on the right. */
function aligned(rows: readonly (readonly string[])[], numbers: readonly number[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(3, ...rows.map(cells => cells[column]!.length)));
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const [first, ...others] = rows.map(cells =>
    line(cells.map((cell, i) => (numbers.includes(i) ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))),
  );
  const rule = line(widths.map((width, i) => (numbers.includes(i) ? `${'-'.repeat(width - 1)}:` : '-'.repeat(width))));
  return [first, rule, ...others].join('\n');
}

/** For RESULTS.md. */
export const tableOf = (figures: readonly Figure[]): string =>
  aligned(
    [
      heads,
      ...figures.map(figure => {
        const [what, ...cells] = cellsOf(figure);
        return [figure.headline ? `**${what}**` : what!, ...cells];
      }),
    ],
    [1, 2, 3],
  );

/** As GitHub makes it of a heading. */
export const anchorOf = (title: string): string =>
  title
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');

const block = /(<!-- figures: .*-->\n)[\s\S]*?(<!-- \/figures -->)/;

/** The page with the figures in it that are in bold in RESULTS.md, and with no others. */
export function withHeadlines(page: string, results: string): string {
  if (!block.test(page)) throw new Error('docs/reference/figures.md has no place for figures');
  const rows = results.split(/^## /m).flatMap(section => {
    const [title = ''] = section.split('\n');
    return [...section.matchAll(/^\| \*\*(.+?)\*\* +\| (.+) \|$/gm)].map(([, what, rest]) => {
      const [, median, , unit, asked, met] = rest!.split(' | ').map(cell => cell.trim());
      const link = `[${title}](../../packages/proofs/bench/RESULTS.md#${anchorOf(title)})`;
      return [what!, `${median} ${unit}`.trim(), met === '**no**' ? `${asked}: missed` : asked!, link];
    });
  });
  const table = aligned([['what', 'median', 'asked', 'section'], ...rows], [1]);
  return page.replace(block, (_, from, to) => `${from}\n${table}\n\n${to}`);
}
