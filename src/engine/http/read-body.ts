/**
 * Reads the body of a reply up to a cap. One endless body would take all the memory there is, and a page of large records takes
 * several times its size while it is parsed and stored. So reading ends as soon as the cap is passed, and what the body began
 * with may still name its record.
 */
import { parseJson } from '../exact-json.ts';

/** A body beyond the cap. It was not read to its end. */
export interface TooLarge {
  /** Number of bytes read, or announced by the header. */
  readonly bytes: number;
  readonly capBytes: number;
  /** The first characters of the body. */
  readonly head: string;
}

/** Enough to find the id of a record. */
const headBytes = 16_384;

class PastCap extends Error {}

/**
 * Reads `chunks` with `read`. `announced`: the size in the header; above the cap, only the first chunk is read.
 * Rethrows errors of the read. Always closes `chunks`, which aborts the request.
 */
export async function withinCap<R>(
  chunks: AsyncIterable<Uint8Array>,
  { capBytes, announced = 0 }: { capBytes: number; announced?: number | undefined },
  read: (chunks: AsyncIterable<Uint8Array>) => Promise<R>,
): Promise<R | { readonly text: string; readonly tooLarge: TooLarge }> {
  let bytes = 0;
  const head: Uint8Array[] = [];
  async function* counted(): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      if (bytes < headBytes) head.push(chunk.subarray(0, headBytes - bytes));
      bytes += chunk.length;
      if (bytes > capBytes || announced > capBytes) throw new PastCap();
      yield chunk;
    }
  }
  try {
    return await read(counted());
  } catch (error) {
    if (!(error instanceof PastCap)) throw error;
    const begun = new TextDecoder().decode(Buffer.concat(head));
    return { text: '', tooLarge: { bytes: Math.max(bytes, announced), capBytes, head: begun } };
  }
}

/**
 * The id of the first record in the beginning of a body; undefined if it does not show one. A record is the body itself (`single`),
 * or the first object of its first list.
 */
export function firstId(head: string, shape: 'single' | 'list' | 'items'): string | undefined {
  const begin = shape === 'single' ? 0 : head.indexOf('[') + 1;
  const record = /^\s*\{/.exec(head.slice(begin));
  if (record === null || (shape !== 'single' && begin === 0)) return undefined;
  const tokens = /"((?:[^"\\]|\\.)*)"|[{}[\]:,]|-?\d[\d.eE+-]*/g;
  tokens.lastIndex = begin + record[0].length;
  let depth = 1;
  let name: string | undefined;
  let isValue = false;
  for (let token = tokens.exec(head); token !== null && depth > 0; token = tokens.exec(head)) {
    const [all, text] = token;
    if (depth === 1 && isValue && name === 'id' && (text !== undefined || /^\d/.test(all))) {
      // A number that the head cuts off is another one.
      const isWhole = text !== undefined || tokens.lastIndex < head.length;
      return isWhole ? idIn(all) : undefined;
    }
    if (all === '{' || all === '[') depth++;
    else if (all === '}' || all === ']') depth--;
    else if (depth === 1 && all === ':') isValue = true;
    else if (depth === 1 && all === ',') isValue = false;
    else if (depth === 1 && !isValue) name = text;
  }
  return undefined;
}

function idIn(json: string): string | undefined {
  try {
    return String(parseJson(json)) || undefined;
  } catch {
    return undefined;
  }
}
