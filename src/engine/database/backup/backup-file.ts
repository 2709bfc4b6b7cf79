/**
 * A backup as bytes: gzip of a line of JSON, the rows of each table, and a last line of JSON. The rows are those of COPY, and the
 * line `\.` ends a table; no row looks like it. So a person can read a backup with `zcat`.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { ShelfdeskError } from '../../../errors.ts';
import { parseJson } from '../../exact-json.ts';

export const endOfTable = Buffer.from('\\.\n');
const betweenTables = Buffer.from('\n\\.\n');
const newline = 0x0a;
/** The longest header: a line without an end is no backup. */
const mostHeader = 16 * 1024 * 1024;

const header = z.object({
  format: z.literal('shelfdesk backup 1'),
  shelfdesk: z.string(),
  madeAt: z.string(),
  search: z.boolean(),
  migrations: z.array(z.object({ name: z.string(), checksum: z.string() })),
  sourceFiles: z.array(z.object({ source: z.string(), name: z.string(), checksum: z.string() })),
  sequences: z.array(z.object({ name: z.string(), value: z.string() })),
  tables: z.array(z.object({ name: z.string(), columns: z.array(z.string()) })),
});
export type BackupHeader = z.infer<typeof header>;

const trailer = z.object({
  rows: z.record(z.string(), z.number()),
  /** Of all bytes before this line, in hexadecimal. */
  sha256: z.string(),
});
export type BackupTrailer = z.infer<typeof trailer>;

export interface BackupReader {
  /** The header of the file. Must be read first. */
  header(): Promise<BackupHeader>;
  /** The rows of the next table. To be read to their end. */
  rows(): AsyncGenerator<Buffer>;
  /** Must be called last. Throws unless the file is whole, ends here, and has this many rows in each table. */
  check(rows: ReadonlyMap<string, number>): Promise<void>;
}

/** `bytes`: decompressed. */
export function readBackup(bytes: AsyncIterable<Buffer>): BackupReader {
  const source = bytes[Symbol.asyncIterator]();
  const hash = createHash('sha256');
  /** Bytes that are not consumed yet. They begin at the start of a line. */
  let rest: Buffer = Buffer.alloc(0);

  /** False at the end. */
  async function more(): Promise<boolean> {
    const { done, value } = await source.next().catch(error => {
      const { syscall, message } = error as NodeJS.ErrnoException;
      if (syscall !== undefined) throw error; // The disk, not the file.
      throw message === 'incorrect header check' ? noBackup() : notWhole(error);
    });
    if (done) return false;
    rest = rest.length === 0 ? value : Buffer.concat([rest, value]);
    return true;
  }
  function take(length: number): Buffer {
    const taken = rest.subarray(0, length);
    rest = rest.subarray(length);
    hash.update(taken);
    return taken;
  }
  async function line(): Promise<string> {
    while (!rest.includes(newline)) if (rest.length > mostHeader || !(await more())) throw notWhole();
    return take(rest.indexOf(newline) + 1).toString();
  }

  return {
    async header() {
      const parsed = header.safeParse(parse(await line()));
      if (!parsed.success) throw noBackup();
      return parsed.data;
    },
    async *rows() {
      for (;;) {
        if (rest.subarray(0, endOfTable.length).equals(endOfTable)) {
          take(endOfTable.length);
          return;
        }
        const end = rest.indexOf(betweenTables);
        const whole = end >= 0 ? end + 1 : rest.lastIndexOf(newline) + 1;
        // Keeps a tail that may be the beginning of the end mark of the table.
        if (whole > 0) yield take(whole);
        else if (!(await more())) throw notWhole();
      }
    },
    async check(rows) {
      const sha256 = hash.copy().digest('hex');
      const parsed = trailer.safeParse(parse(await line()));
      const counted = JSON.stringify(Object.fromEntries(rows));
      if (!parsed.success || parsed.data.sha256 !== sha256 || JSON.stringify(parsed.data.rows) !== counted)
        throw notWhole();
      if (rest.length > 0 || (await more())) throw notWhole();
    },
  };
}

function parse(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

const nothingChanged = 'Nothing has been restored. Use another backup.';
const noBackup = () => new ShelfdeskError('the file is no backup of Shelfdesk', nothingChanged);
const notWhole = (cause?: unknown) =>
  new ShelfdeskError('the backup is damaged: it was cut or changed', nothingChanged, { cause });
