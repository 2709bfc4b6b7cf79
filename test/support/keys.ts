/** Keys of streams, from the short names that only one source has. */
import type { StreamKey } from '../../src/engine/database/stream-key.ts';
import { findStream } from '../../src/sources/index.ts';

export function keyOf(name: string): StreamKey {
  const stream = findStream(name);
  if (stream) return stream.key;
  throw new Error(`there is no stream ${name}, or more than one`);
}

export const keysOf = (names: readonly string[]): StreamKey[] => names.map(keyOf);
