/** A source whose texts are all canaries: a proxy before the sandbox that rewrites each reply, and what looks for them. */
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import type pg from 'pg';

export const canary = 'ZZCANARY';

/** Values that no rule can leave out: what a record needs, and what says of which shape it is. */
const needed = /(^|_)id$|^(created_at|updated_at|updated|volumesLastUpdated|kind)$/;

export interface Spoiler {
  /** How many canaries there are so far. */
  readonly count: number;
  /** The JSON text of a reply with a canary in each text, and odd fields in each record. */
  spoil(json: string): string;
}

export function spoiler(): Spoiler {
  let count = 0;
  const next = () => `${canary}-${++count}`;
  /** Fields that the specification does not name, a name that is written twice, and other odd JSON. */
  const odd = (): string[] => [
    `"${next()}":1`,
    `"unknown":"${next()} \\ud800"`,
    `"deep":[[[{"${next()}":["${next()}",1.5e400]}]]]`,
    `"constructor":"${next()}","__proto__":{"${next()}":null}`,
    `"zzc\\u0041nary":"${next()}\\u0000","":"${next()}"`,
  ];
  /** `within`: a record. What is around records says which page a reply is. */
  const field = (name: string, value: unknown, within: boolean): string => {
    const text = `${JSON.stringify(name)}:${spoiled(value, name, within)}`;
    // The same name before it, in other letters: the last one counts.
    const before = `"\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}":["${next()}"],`;
    return within && typeof value === 'string' && !needed.test(name) ? before + text : text;
  };
  const spoiled = (value: unknown, name: string, within: boolean): string => {
    if (Array.isArray(value)) return `[${value.map(one => spoiled(one, name, within)).join(',')}]`;
    if (typeof value === 'object' && value !== null) {
      const isRecord = 'id' in value;
      const fields = Object.entries(value).map(([of, one]) => field(of, one, within || isRecord));
      return `{${[...(isRecord ? odd() : []), ...fields].join(',')}}`;
    }
    if (!within || typeof value !== 'string' || needed.test(name)) return JSON.stringify(value);
    // A body of kilobytes is stored apart from its row.
    const long = name === 'body' ? ` ${next()} `.repeat(200) : '';
    return JSON.stringify(`${next()} \u0000 <b>${value}</b> ${canary}@${next()}.example${long}`);
  };
  return {
    get count() {
      return count;
    },
    spoil: json => spoiled(JSON.parse(json), '', false),
  };
}

/** The text around the first place where `wanted` is in a text, in letters of any case. */
export function around(text: string, wanted: string): string | undefined {
  const at = text.toLowerCase().indexOf(wanted.toLowerCase());
  return at < 0 ? undefined : text.slice(Math.max(0, at - 200), at + 200);
}

/** Rows of any table that have the text in them: as text, because files hold long values compressed. */
export async function rowsWith(pool: pg.Pool, wanted: string): Promise<string[]> {
  const { rows: tables } = await pool.query<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'm') and n.nspname <> 'information_schema' and n.nspname !~ '^pg_toast' order by 1`,
  );
  const found: string[] = [];
  for (const { name } of tables) {
    const { rows } = await pool.query<{ row: string }>(
      `select t::text as row from ${name} t where strpos(lower(t::text), lower($1)) > 0 limit 3`,
      [wanted],
    );
    for (const { row } of rows) found.push(`${name}: ${around(row, wanted)}`);
  }
  return found;
}

/** Instead of the source's reply. */
export interface Instead {
  readonly status: number;
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Proxy extends AsyncDisposable {
  readonly port: number;
}

/** Passes requests to `target`, and the text of each reply through `reword`. */
export async function proxyTo(target: URL, reword: (text: string, path: string) => string | Instead): Promise<Proxy> {
  const server = createServer((asked, reply) => {
    const headers = { ...asked.headers, host: target.host, 'accept-encoding': 'identity' };
    const { method, url: path } = asked;
    const passed = request(
      { host: target.hostname, port: target.port, method, path, headers },
      async (answer: IncomingMessage) => {
        const chunks: Buffer[] = [];
        for await (const chunk of answer) chunks.push(chunk as Buffer);
        const text = Buffer.concat(chunks).toString();
        const made = reword(text, path!);
        const instead = typeof made === 'string' ? { status: answer.statusCode!, text: made } : made;
        const { status, text: body, headers: further } = instead as Instead;
        const { 'content-length': _, 'transfer-encoding': __, ...kept } = answer.headers;
        reply.writeHead(status, { ...kept, ...further, 'content-length': Buffer.byteLength(body) });
        reply.end(body);
      },
    );
    passed.on('error', () => reply.destroy());
    asked.pipe(passed);
  });
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done));
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(done => server.close(done));
    },
  };
}
