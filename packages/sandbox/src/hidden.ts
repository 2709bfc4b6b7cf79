/** Whether lists leave this record out: the same one of so many, in every list and order. */
export function isHidden(id: string | number, every: number): boolean {
  if (every === 0) return false;
  let hash = 0;
  for (const character of String(id)) hash = (Math.imul(hash, 31) + character.charCodeAt(0)) >>> 0;
  return hash % every === 0;
}
