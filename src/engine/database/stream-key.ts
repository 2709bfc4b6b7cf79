/** Keys of streams. A short name is unique within its source; a key is unique among all sources. */

/** `source.stream`, as `helpdesk.tickets`. Neither part contains a dot. */
export type StreamKey = `${string}.${string}`;

export const streamKey = (source: string, stream: string): StreamKey => `${source}.${stream}`;

/** The short name, which people read. */
export const nameOfKey = (key: string): string => key.slice(key.indexOf('.') + 1);

/** `helpdesk` of `helpdesk.tickets`. */
export const sourceOfKey = (key: string): string => key.slice(0, key.indexOf('.'));

/** SQL: the values of the columns source and stream of an insert, from an expression that is a key. */
export const sourceAndStream = (key: string): string => `split_part(${key}, '.', 1), split_part(${key}, '.', 2)`;
