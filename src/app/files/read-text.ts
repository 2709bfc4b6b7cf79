/** Reads the files that people write. A file that another program would read otherwise is refused, with the line and the reason. */
import { readFileSync } from 'node:fs';
import { UsageError } from '../../errors.ts';

const remedy = 'Save the file as UTF-8 text.';

/**
 * Text of a UTF-8 file, without a byte order mark, and with `\n` at the ends of lines. `what` stands in front of the path in an
 * error, such as `SHELFDESK_CONFIG names`. Throws UsageError; no error quotes the file.
 */
export function readText(path: string, what?: string): string {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EISDIR')
      throw new UsageError(
        `${what === undefined ? '' : `${what} `}${path}${what === undefined ? '' : ', which'} is a folder, not a file`,
        'Remove the folder, or rename it. Docker makes such a folder where the file to be mounted is missing.',
      );
    throw new UsageError(
      `${what === undefined ? '' : `${what} `}${path}${what === undefined ? '' : ', which'} cannot be read${code ? ` (${code})` : ''}`,
      'Name an existing file that the user of Shelfdesk can read.',
    );
  }
  const [first, second] = bytes;
  if ((first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff))
    throw new UsageError(`${path} is UTF-16, not UTF-8`, remedy);
  const zero = bytes.indexOf(0);
  if (zero >= 0)
    throw new UsageError(`line ${lineAt(bytes, zero)} of ${path} has a NUL byte: it is no UTF-8 text`, remedy);
  try {
    // TextDecoder removes a byte order mark.
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes).replaceAll(/\r\n?/g, '\n');
  } catch {
    throw new UsageError(`line ${lineAt(bytes, firstWrong(bytes))} of ${path} is no UTF-8 text`, remedy);
  }
}

const lineAt = (bytes: Buffer, at: number): number =>
  bytes
    .subarray(0, at)
    .toString('latin1')
    .split(/\r\n?|\n/).length;

/**
 * The place of the first byte that is not UTF-8. Lines are decoded one by one, because a line end is one byte in UTF-8.
 */
function firstWrong(bytes: Buffer): number {
  let start = 0;
  for (let end = bytes.indexOf(10); ; end = bytes.indexOf(10, start)) {
    const line = bytes.subarray(start, end < 0 ? undefined : end);
    if (!Buffer.from(line.toString('utf8')).equals(line) || end < 0) return start;
    start = end + 1;
  }
}
