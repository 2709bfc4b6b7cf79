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

/** What is wrong with a format. One that names no second would ask for the same records again and again. */
export function wrongIn(format: string): string | undefined {
  const [unknown] = /%(?![YmdHMSs%])./.exec(format.replaceAll('%%', '')) ?? [];
  if (unknown !== undefined) return `has ${unknown}, which stands for nothing`;
  const isWhole = format.includes('%s') || [...letters].every(letter => format.includes(`%${letter}`));
  return isWhole ? undefined : 'says no second';
}
