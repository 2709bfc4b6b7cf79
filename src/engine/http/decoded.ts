/** Reads the body of a reply: decodes gzip and br while it arrives, and makes a text of its bytes. */
import { isUtf8 } from 'node:buffer';
import { pipeline, Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip } from 'node:zlib';

export const acceptEncoding = 'gzip, br';

const decoders = { gzip: createGunzip, 'x-gzip': createGunzip, br: createBrotliDecompress };

/** The body of a reply cannot be decoded. */
export class Undecodable extends Error {
  /**
   * A retry would fail in the same way: the body has an encoding that was not requested. Otherwise it was truncated or
   * damaged.
   */
  readonly lasts: boolean;
  constructor(message: string, lasts: boolean, cause?: unknown) {
    super(message, { cause });
    this.lasts = lasts;
  }
}

/** `encoding`: the header Content-Encoding. Throws Undecodable, and what reading the body throws. */
export async function* decodedBody(body: Readable, encoding = ''): AsyncGenerator<Uint8Array> {
  const names = encoding.split(',').map(name => name.trim().toLowerCase());
  const encodings = names.filter(name => name !== '' && name !== 'identity');
  const strange = encodings.find(name => !Object.hasOwn(decoders, name));
  if (strange !== undefined) {
    body.on('error', () => {}).destroy();
    throw new Undecodable(`the body is encoded as ${strange.slice(0, 40)}, and ${acceptEncoding} was asked for`, true);
  }
  if (encodings.length === 0) return yield* body;
  let isEmpty = true;
  const encoded = Readable.from(
    (async function* () {
      for await (const part of body) {
        isEmpty = false;
        yield part;
      }
    })(),
  );
  const chain = encodings.toReversed().map(name => decoders[name as keyof typeof decoders]());
  // The error of each stream reaches the last one, which is read.
  const decoded = chain.reduce<Readable>((from, to) => pipeline(from, to, () => {}), encoded);
  try {
    yield* decoded;
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (!/^(Z_|ERR__ERROR_|ERR_BROTLI)/.test(String(code))) throw error;
    // A reply without a body may name an encoding.
    if (isEmpty) return;
    throw new Undecodable('the compressed body is cut short or damaged', false, error);
  }
}

/** `bytes` are those of the text, unless they begin with a mark. `notUtf8`: bytes that are not UTF-8 were replaced by U+FFFD. */
export async function textOf(
  chunks: AsyncIterable<Uint8Array>,
): Promise<{ text: string; bytes?: Buffer; notUtf8?: true }> {
  const parts: Uint8Array[] = [];
  for await (const part of chunks) parts.push(part);
  const bytes = Buffer.concat(parts);
  const text = new TextDecoder().decode(bytes);
  if (!isUtf8(bytes)) return { text, notUtf8: true };
  return bytes[0] === firstOfMark ? { text } : { text, bytes };
}
/** The first byte of the mark of byte order. No JSON begins with it. */
const firstOfMark = 0xef;
