/** Formats numbers and counted nouns for people. */

/** `1,234`. Safe integers skip Intl, which takes 25 ms to initialize. */
export const amount = (n: number): string =>
  Number.isSafeInteger(n) ? String(n).replace(/\B(?=(\d{3})+$)/g, ',') : n.toLocaleString('en-US');

/** `1 credit`, `2 credits`, `1,234 credits`. */
export const count = (n: number, one: string, many = `${one}s`): string => `${amount(n)} ${n === 1 ? one : many}`;

export const upperFirst = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
