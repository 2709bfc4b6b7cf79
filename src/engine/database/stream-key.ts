/** Keys of streams. A short name is unique within its source; a key is unique among all sources. */
import { sql } from './sql.ts';

/** `source.stream`, as `helpdesk.tickets`. Neither part contains a dot. */
export type StreamKey = `${string}.${string}`;

export const streamKey = (source: string, stream: string): StreamKey => `${source}.${stream}`;

/** `tickets` of `helpdesk.tickets`. */
export const shortOfKey = (key: string): string => key.slice(key.indexOf('.') + 1);

let shared: ReadonlySet<string> = new Set();

/** Says which streams this process has. The list of the sources does it once. */
export function tellApart(keys: readonly StreamKey[]): void {
  const names = keys.map(shortOfKey);
  shared = new Set(names.filter((name, i) => names.indexOf(name) < i));
}

/** What people read, and write in commands: the short name, or the key if two sources share the name. As sync.name_of. */
export const nameOfKey = (key: string): string => (shared.has(shortOfKey(key)) ? key : shortOfKey(key));

/** `helpdesk` of `helpdesk.tickets`. */
export const sourceOfKey = (key: string): string => key.slice(0, key.indexOf('.'));

/** The values of the columns source and stream of an insert. */
export const ofStream = (key: string) => sql`${sourceOfKey(key)}, ${shortOfKey(key)}`;

/** SQL: the same, from an expression that is a key. */
export const sourceAndStream = (key: string): string => `split_part(${key}, '.', 1), split_part(${key}, '.', 2)`;
