/**
 * Stripe's sync engine, as its package is installed, with tickets: one load, in a process of its own. What it may be told is
 * told: an OpenAPI document in which a resource that it knows has the properties of a ticket. So its own migration makes the
 * table (the JSON, a generated column for each property, its index, foreign key and trigger), and its own
 * `upsertManyWithTimestampProtection` writes each page. Its reader knows one service only; in its place pages are read on
 * while up to 20 are written, as many as its workers are, and without its limit of requests a second.
 *
 * In the folder where the package is:
 *
 *   node load-with-stripe-engine.ts <database> <url of the source> <token>
 */
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type Ticket, writeTickets } from './source.ts';

/** What is used of the package. */
interface Engine {
  VERSION: string;
  runMigrations(config: { databaseUrl: string; openApiSpecPath: string }): Promise<void>;
  PostgresClient: new (config: {
    schema: string;
    poolConfig: { connectionString: string; max: number };
  }) => {
    pool: { end(): Promise<void> };
    upsertAccount(account: { id: string; raw_data: object }, apiKeyHash: string): Promise<void>;
    upsertManyWithTimestampProtection(entries: readonly Ticket[], table: string, account: string): Promise<unknown>;
  };
}

/** Its defaults, for the name of its schema, its connections and its workers. */
const schema = 'stripe';
const connections = 10;
const workers = 20;
/** Its smallest resource, to which it adds nothing. */
const resource = { name: 'review', table: 'reviews' };
const account = 'acct_peers';

const string = { type: 'string' };
const boolean = { type: 'boolean' };
const ticket = {
  number: { type: 'integer' },
  label_ids: { type: 'array', items: string },
  spam: boolean,
  trash: boolean,
  ...Object.fromEntries(
    ['id', 'customer_id', 'user_id', 'inbox_id', 'state', 'type', 'subject', 'summary', 'reply_to', 'reply_cc'].map(
      name => [name, string],
    ),
  ),
  ...Object.fromEntries(
    ['snoozed_until', 'created_at', 'updated_at'].map(name => [name, { ...string, format: 'date-time' }]),
  ),
};

const [databaseUrl, url, token] = process.argv.slice(2) as [string, string, string];
const engine = createRequire(join(process.cwd(), 'package.json'))('@stripe/sync-engine') as Engine;

const openApiSpecPath = join(process.cwd(), 'tickets.json');
writeFileSync(
  openApiSpecPath,
  JSON.stringify({
    openapi: '3.0.0',
    info: { title: 'Tickets', version: '1' },
    components: {
      schemas: { [resource.name]: { type: 'object', 'x-resourceId': resource.name, properties: ticket } },
    },
  }),
);
await engine.runMigrations({ databaseUrl, openApiSpecPath });
const client = new engine.PostgresClient({ schema, poolConfig: { connectionString: databaseUrl, max: connections } });
await client.upsertAccount({ id: account, raw_data: { id: account } }, 'none');

const seconds = await writeTickets({ url, token }, workers, page =>
  client.upsertManyWithTimestampProtection(page, resource.table, account),
);
await client.pool.end();
console.log(JSON.stringify({ seconds, versions: `@stripe/sync-engine ${engine.VERSION}` }));
