/** Formats numbers, durations, counted nouns and choices for people. */

/** `1,234`. Safe integers skip Intl, which takes 25 ms to initialize. */
export const amount = (n: number): string =>
  Number.isSafeInteger(n) ? String(n).replace(/\B(?=(\d{3})+$)/g, ',') : n.toLocaleString('en-US');

/** `1 credit`, `2 credits`, `1,234 credits`. */
export const count = (n: number, one: string, many = `${one}s`): string => `${amount(n)} ${n === 1 ? one : many}`;

/** A duration with about two digits: `3 s`, `4 min`, `33 h`. */
export function duration(seconds: number): string {
  const s = Math.max(0, seconds);
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 90 * 60) return `${Math.round(s / 60)} min`;
  if (s < 48 * 3600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86_400)} d`;
}

export const upperFirst = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** `Did you mean tickets? Choose from: users, tickets.` The question is asked only if one of them is nearly what was written. */
export function choiceOf(word: string, among: readonly string[], choose = 'Choose from'): string {
  const near = nearest(word, among);
  return `${near === undefined ? '' : `Did you mean ${near}? `}${choose}: ${among.join(', ')}.`;
}

/** The most similar of these words. `most`: the most typos that may explain the difference; by default one or two. */
export function nearest(
  word: string,
  among: readonly string[],
  most = Math.min(2, Math.floor(word.length / 2)),
): string | undefined {
  const [best] = among
    .map(one => ({ one, typos: typosBetween(word.toLowerCase(), one.toLowerCase()) }))
    .filter(({ typos }) => typos <= most)
    .sort((a, b) => a.typos - b.typos);
  return best?.one;
}

/** Letters to insert, remove, replace or swap with their neighbour. */
function typosBetween(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = rows[i - 1]![j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwapped ? rows[i - 2]![j - 2]! + 1 : Infinity;
      row.push(Math.min(replaced, swapped, rows[i - 1]![j]! + 1, row[j - 1]! + 1));
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}
