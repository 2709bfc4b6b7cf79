/**
 * The one connection of a simulation, without the event loop: a statement is written, and its reply is read, by two blocking calls.
 * The simulation does nothing else meanwhile anyway, and most of the time of a short statement goes into streams and wake-ups. The
 * handshake, and the forms of values, are those of node-postgres.
 */
import { existsSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { serialize } from 'pg-protocol';
import { Parser } from 'pg-protocol/dist/parser.js';

export interface Asked {
  readonly text: string;
  readonly values?: unknown[] | undefined;
  /** Under this name the statement is prepared once. */
  readonly name?: string;
  readonly rowMode?: 'array';
}

interface Column {
  readonly name: string;
  readonly parse: (text: string) => unknown;
}

interface Result {
  command: string;
  rowCount: number | null;
  rows: unknown[];
}

const [parseComplete, bindComplete, noData, commandComplete, dataRow, rowDescription, ready] = [...'12nCDTZ'].map(
  letter => letter.charCodeAt(0),
) as [number, number, number, number, number, number, number];
const [emptyQuery, failure, parameters] = [...'IEt'].map(letter => letter.charCodeAt(0)) as [number, number, number];
const execute = Buffer.concat([serialize.execute(), serialize.sync()]);

export class Wire {
  readonly #client: pg.Client;
  readonly #fd: number;
  #input = Buffer.allocUnsafe(1 << 20);
  /** Of each prepared statement. */
  readonly #columns = new Map<string, readonly Column[]>();

  private constructor(client: pg.Client, fd: number) {
    this.#client = client;
    this.#fd = fd;
  }

  static async open(url: string, options: string): Promise<Wire> {
    const connectionString = await socketOf(url);
    const client = await connected({ connectionString, application_name: 'shelfdesk: simulation', options });
    client.on('error', () => {});
    const { stream } = (client as unknown as { connection: { stream: Stream } }).connection;
    stream.removeAllListeners('data');
    stream.pause();
    stream._handle.readStop();
    stream._handle.setBlocking(true);
    return new Wire(client, stream._handle.fd);
  }

  /** The server ends with its connections: nothing is said to it. */
  close(): void {
    const { stream } = (this.#client as unknown as { connection: { stream: Stream } }).connection;
    this.#write(serialize.end());
    stream.destroy();
  }

  async query(asked: string | Asked): Promise<pg.QueryResult> {
    const { text, values, name, rowMode } = typeof asked === 'string' ? ({ text: asked } as Asked) : asked;
    const isArray = rowMode === 'array';
    if (values === undefined) return this.#read(serialize.query(text), undefined, isArray);
    let columns = name === undefined ? undefined : this.#columns.get(name);
    if (columns === undefined) {
      columns = this.#prepare(name ?? '', text);
      if (name !== undefined) this.#columns.set(name, columns);
    }
    const bind = serialize.bind({ statement: name ?? '', values, valueMapper: prepareValue });
    return this.#read(Buffer.concat([bind, execute]), columns, isArray);
  }

  #prepare(name: string, text: string): readonly Column[] {
    const { parse, describe, sync } = serialize;
    const { columns } = this.#ask(
      Buffer.concat([parse({ name, text }), describe({ type: 'S', name }), sync()]),
      undefined,
      false,
    );
    return columns ?? [];
  }

  #read(message: Buffer, columns: readonly Column[] | undefined, isArray: boolean): pg.QueryResult {
    const { results } = this.#ask(message, columns, isArray);
    return (results.length === 1 ? results[0] : results) as unknown as pg.QueryResult;
  }

  #write(message: Buffer): void {
    for (let at = 0; at < message.length; ) at += writeSync(this.#fd, message, at);
  }

  /** Until the server is ready for the next statement. */
  #ask(message: Buffer, known: readonly Column[] | undefined, isArray: boolean) {
    this.#write(message);
    const results: Result[] = [];
    let columns = known;
    let rows: unknown[] = [];
    let error: Error | undefined;
    for (let from = 0, to = 0; ; ) {
      to += this.#more(to);
      const input = this.#input;
      while (to - from >= 5 && to - from > input.readUInt32BE(from + 1)) {
        const end = from + 1 + input.readUInt32BE(from + 1);
        const at = from + 5;
        const kind = input[from]!;
        if (kind === dataRow) rows.push(rowOf(input, at, columns!, isArray));
        else if (kind === rowDescription) columns = columnsOf(input, at);
        else if (kind === commandComplete) {
          const tag = input.toString('latin1', at, end - 1).split(' ');
          const count = Number(tag.at(-1));
          results.push({ command: tag[0]!, rowCount: Number.isNaN(count) ? null : count, rows });
          rows = [];
          columns = known;
        } else if (kind === emptyQuery) results.push({ command: '', rowCount: null, rows: [] });
        else if (kind === failure) error = errorOf(Buffer.from(input.subarray(from, end)));
        else if (kind === ready) {
          if (error !== undefined) throw error;
          return { results, columns };
        } else if (kind !== parseComplete && kind !== bindComplete && kind !== noData && kind !== parameters)
          checkIgnored(kind);
        from = end;
      }
    }
  }

  #more(to: number): number {
    if (this.#input.length - to < 1 << 16) this.#input = Buffer.concat([this.#input], this.#input.length * 2);
    const count = readSync(this.#fd, this.#input, to, this.#input.length - to, null);
    if (count === 0) throw new Error('PostgreSQL has closed the connection of the simulation');
    return count;
  }
}

interface Stream {
  removeAllListeners(event: string): void;
  pause(): void;
  destroy(): void;
  _handle: { fd: number; readStop(): void; setBlocking(on: boolean): void };
}

const { prepareValue } = (await import('pg/lib/utils.js' as string)).default as {
  prepareValue: (v: unknown) => unknown;
};

async function connected(config: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client(config);
  await client.connect();
  return client;
}

/** Its socket costs less than its port. Where the path is too long for a socket, the port will do. */
async function socketOf(url: string): Promise<string> {
  const client = await connected({ connectionString: url });
  const { rows } = await client.query<{ data: string }>(`select current_setting('data_directory') as data`);
  await client.end();
  const folder = rows[0]!.data;
  const address = new URL(url);
  const socket = join(folder, `.s.PGSQL.${address.port}`);
  // What the address says of the host goes before all else that is given.
  if (existsSync(socket) && socket.length < 100) address.searchParams.set('host', folder);
  return address.href;
}

function columnsOf(input: Buffer, at: number): Column[] {
  const columns: Column[] = [];
  let from = at + 2;
  for (let n = input.readUInt16BE(at); n > 0; n--) {
    const end = input.indexOf(0, from);
    const oid = input.readUInt32BE(end + 7);
    columns.push({
      name: input.toString('utf8', from, end),
      parse: pg.types.getTypeParser(oid, 'text') as Column['parse'],
    });
    from = end + 19;
  }
  return columns;
}

function rowOf(input: Buffer, at: number, columns: readonly Column[], isArray: boolean): unknown {
  const cells: unknown[] = [];
  const row: Record<string, unknown> = {};
  let from = at + 2;
  for (const { name, parse } of columns) {
    const length = input.readInt32BE(from);
    from += 4;
    const value = length < 0 ? null : parse(input.toString('utf8', from, from + length));
    if (length > 0) from += length;
    if (isArray) cells.push(value);
    else row[name] = value;
  }
  return isArray ? cells : row;
}

function errorOf(message: Buffer): Error {
  let error: unknown;
  new Parser().parse(message, told => {
    error = told;
  });
  return error as Error;
}

/** Notices, settings that were changed, and notifications say nothing here. */
function checkIgnored(kind: number): void {
  const letter = String.fromCharCode(kind);
  if (!'NSA'.includes(letter)) throw new Error(`a message of PostgreSQL that wire.ts does not know: ${letter}`);
}
