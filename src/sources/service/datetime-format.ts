/** How a service writes the time since which it is asked for changes. The letters are those of `strftime`. */

const letters = 'YmdHMS';

/** The time as text, in UTC. Less than a second is cut off, so that nothing is left out. */
export function writtenAs(format: string, ms: number): string {
  const parts = new Date(ms).toISOString().split(/\D/);
  const values: Readonly<Record<string, string>> = {
    ...Object.fromEntries([...letters].map((letter, i) => [letter, parts[i]!])),
    s: String(Math.floor(ms / 1000)),
    '%': '%',
  };
  return format.replaceAll(/%(.)/g, (all, letter: string) => values[letter] ?? all);
}

/** The time that `writtenAs` wrote, in ms; NaN if the text has another form. */
export function readAs(format: string, text: string): number {
  const found: string[] = [];
  const pattern = format.replaceAll(/%(.)|[^%]+/g, (all, letter?: string) => {
    if (letter === undefined) return all.replaceAll(/[.*+?()[\]{}|\\^$]/g, '\\$&');
    if (letter === '%') return '%';
    found.push(letter);
    return letter === 'Y' ? '(\\d{4})' : letter === 's' ? '(-?\\d+)' : '(\\d\\d)';
  });
  const values = new RegExp(`^${pattern}$`).exec(text)?.slice(1) ?? [];
  const of = (letter: string) => values[found.indexOf(letter)];
  if (found.includes('s')) return Number(of('s') ?? Number.NaN) * 1000;
  const [Y, m, d, H, M, S] = [...letters].map(of);
  return Date.parse(`${Y}-${m}-${d}T${H}:${M}:${S}Z`);
}

/** What is wrong with a format. One that names no second would ask for the same records again and again. */
export function wrongIn(format: string): string | undefined {
  const [unknown] = /%(?![YmdHMSs%])./.exec(format.replaceAll('%%', '')) ?? [];
  if (unknown !== undefined) return `has ${unknown}, which stands for nothing`;
  const named = format.replaceAll('%%', '');
  const isWhole = named.includes('%s') || [...letters].every(letter => named.includes(`%${letter}`));
  return isWhole ? undefined : 'says no second';
}
