/**
 * Sessions of PostgreSQL, all opened in one way. Their settings are made by one statement after the login: a pooler such as PgBouncer
 * refuses them at start-up.
 */
import pg from 'pg';
import { addressOf } from './connection-url.ts';
import { refuseTransactionPooling } from './pooler.ts';
import { tlsOptions } from './tls.ts';

export type SessionSettings = Readonly<Record<string, string | number>>;

/** Settings that all our statements rely on. They override those of the role and the database. */
const everywhere: SessionSettings = {
  client_encoding: 'UTF8',
  standard_conforming_strings: 'on',
  TimeZone: 'UTC',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  bytea_output: 'hex',
  extra_float_digits: 1,
  quote_all_identifiers: 'off',
  default_transaction_isolation: 'read committed',
};

/** Sessions of this process, each with the URL for questions about it: waits.ts says what their statements wait for. */
export const watched = new Map<pg.ClientBase, string>();

/** `url`: a login that may connect once more, and sees the sessions of others. */
export function watch(client: pg.ClientBase, url: string): void {
  if (!watched.has(client)) client.once('end', () => watched.delete(client));
  watched.set(client, url);
}

/** For node-postgres. Throws UsageError if a file of TLS is missing. */
export function clientConfig(url: string): pg.ClientConfig {
  const { user, password, host, port, database, options, tls, directTls, bindsChannel } = addressOf(url);
  // Like libpq, connections through a Unix socket are not encrypted.
  const ssl = host?.startsWith('/') ? undefined : tlsOptions(tls, 'DATABASE_URL');
  return {
    ...(user !== undefined && { user }),
    ...(password !== undefined && { password }),
    ...(host !== undefined && { host }),
    ...(port !== undefined && { port }),
    ...(database !== undefined && { database }),
    ...(options !== undefined && { options }),
    ...(ssl !== undefined ? { ssl } : tls.mode !== undefined && { ssl: false }),
    ...(directTls && { sslnegotiation: 'direct' as const }),
    ...(bindsChannel && { enableChannelBinding: true }),
  };
}

/** A login takes no longer: what listens at a wrong port may take the connection and say nothing. */
const loginMs = 10_000;

/** A limit of the pool would also limit the wait for a free connection. A pool hides the password from copies of its options. */
function PatientClient(options: pg.ClientConfig): pg.Client {
  const { password, connectionTimeoutMillis = loginMs } = options;
  return new pg.Client({ ...options, ...(password !== undefined && { password }), connectionTimeoutMillis });
}

export const poolConfig = (url: string, settings: SessionSettings): pg.PoolConfig => ({
  ...clientConfig(url),
  Client: PatientClient as unknown as new () => pg.ClientBase,
  // node-postgres awaits the promise. Its types do not say so.
  onConnect: client => settle(client as pg.Client, url, settings),
});

/** A session that is still to be connected, by `connectSession`. A lost connection must not end the process: the statement in flight fails. */
export function sessionTo(url: string, more: pg.ClientConfig): pg.Client {
  const client = PatientClient({ ...clientConfig(url), ...more });
  client.on('error', () => {});
  return client;
}

/** Connects, and makes the settings. Throws UsageError if the session would be shared with others. */
export async function connectSession(client: pg.Client, url: string, settings: SessionSettings): Promise<void> {
  await client.connect();
  await settle(client, url, settings);
}

/**
 * The statement does nothing if another backend answers than the one that was connected: a pooler is between, and a setting could reach
 * the sessions of others. Then the pooler is looked at first.
 */
async function settle(client: pg.Client, url: string, settings: SessionSettings): Promise<void> {
  watch(client, url);
  const { processID } = client as unknown as { processID: number };
  const { rowCount } = await client.query(settling(settings, processID));
  if (rowCount === 1) return;
  await refuseTransactionPooling(url, () => clientConfig(url));
  await client.query(settling(settings));
}

function settling(settings: SessionSettings, backend?: number): string {
  const calls = Object.entries({ ...everywhere, ...settings }).map(
    ([name, value]) => `pg_catalog.set_config('${name}', '${value}', false)`,
  );
  const where = backend === undefined ? '' : ` where pg_catalog.pg_backend_pid() operator(pg_catalog.=) ${backend}`;
  return `select ${calls.join(', ')}${where}`;
}
