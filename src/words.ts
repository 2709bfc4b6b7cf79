/** Numbers as people read them, and what is counted: one noun for one, another one for more. */

/** `1,234`. What formats any number takes as long to wake up as a command that says one has to live: 25 ms. */
export const amount = (n: number): string =>
  Number.isSafeInteger(n) ? String(n).replace(/\B(?=(\d{3})+$)/g, ',') : n.toLocaleString('en-US');

/** `1 credit`, `2 credits`, `1,234 credits`. */
export const count = (n: number, one: string, many = `${one}s`): string => `${amount(n)} ${n === 1 ? one : many}`;
