/** The server of agents: its tools, its resources and its guide, for one way of serving them. */
import { McpServer, ResourceTemplate, type CallToolResult as Result } from '@modelcontextprotocol/server';
import type pg from 'pg';
import { z } from 'zod';
import { readCatalog, type Schema } from '../analytics/catalog.ts';
import { findQuery, type Query } from '../analytics/questions.ts';
import { isAway, ShelfdeskError, UsageError } from '../errors.ts';
import { objectsOf } from '../privacy/ask.ts';
import { judge } from '../privacy/judge.ts';
import { newName } from '../privacy/readers.ts';
import { briefly, readCovered } from './covered.ts';
import { describeAll, describeOne } from './described.ts';
import { fenced } from './fence.ts';
import { guide, mirroredSources } from './guide.ts';
import { masked, type Shown, unmasked } from './masked.ts';
import { ask, asReader, type Ground, type Told } from './question.ts';
import { makeTurns } from './turns.ts';

/** The results of commands of the same name. Each throws ShelfdeskError for an unknown account. */
export interface Looks {
  status(account: string | undefined, shown: Shown): Promise<unknown>;
  why(account: string | undefined, ticket: string, shown: Shown): Promise<unknown>;
  /** Sends no request to a source. */
  plan(account: string | undefined, kind: string, signal: AbortSignal): Promise<unknown>;
}

export type Agents = ReturnType<typeof makeAgents>;

interface Parts {
  readonly ground: Ground;
  readonly looks: Looks;
  readonly questions: readonly Query[];
  readonly version: string;
  /** Called with an unexpected error, which is a bug. */
  readonly onBug: (error: unknown) => void;
}

const account = z.string().max(200).optional().describe('Account; without it: all that you may see.');
const certain = z
  .boolean()
  .default(false)
  .describe(
    'True: refuse, saying why, unless the rows that it reads are complete and their deletions known. The answer names the moment of which it holds: certain_as_of.',
  );
const from = z.iso
  .datetime({ offset: true })
  .optional()
  .describe('Earliest time that the question is about, for `certain`; without it: the beginning.');
const through = z.iso
  .datetime({ offset: true })
  .optional()
  .describe(
    'Latest time that the question is about, for `certain`: the query leaves later rows out itself. Without it: the latest moment of which all is known.',
  );
const looking = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };

export function makeAgents(parts: Parts) {
  const { ground, version, onBug } = parts;
  const turns = makeTurns(ground.limits.ms);
  const catalogs = new Map<boolean, Promise<Schema[]>>();
  /** The relations that such a reader sees. Read once: a migration restarts the process. */
  const catalogOf = (pii: boolean): Promise<Schema[]> => {
    const known = catalogs.get(pii) ?? readableCatalog(ground, pii);
    catalogs.set(pii, known);
    known.catch(() => catalogs.delete(pii));
    return known;
  };
  let mirrored: readonly string[] | undefined;
  let reading: Promise<readonly string[]> | undefined;
  /** Only the first session waits for it: a lock on the table would hold up each request, outside of its limit of time. */
  const mirroredNow = async (): Promise<readonly string[]> => {
    reading ??= mirroredSources(ground.warehouse.pg).finally(() => {
      reading = undefined;
    });
    const read = reading.then(found => {
      mirrored = found;
      return found;
    });
    read.catch(() => {});
    return mirrored ?? read;
  };
  return {
    /** A server for one session. `pii`: names, addresses and texts are shown. */
    async serve(pii: boolean): Promise<McpServer> {
      const schemas = await catalogOf(pii);
      const instructions = guide(schemas, !pii, await mirroredNow());
      const server = new McpServer({ name: 'shelfdesk', version }, { instructions });
      const session: Session = {
        ...parts,
        pii,
        schemas,
        answered: (client, work) => resultOf(() => turns.take(client, work), onBug),
      };
      addQuestions(server, session);
      addLooks(server, session);
      addMetrics(server, ground.warehouse.pg);
      return server;
    },
    /** Ends all questions, and resolves when their logins are gone. */
    async close(): Promise<void> {
      await Promise.allSettled([turns.close(), reading, ...catalogs.values()]);
    },
  };
}

interface Session extends Parts {
  readonly pii: boolean;
  /** The relations that the client may read. */
  readonly schemas: readonly Schema[];
  /** Does the work of a tool when its turn comes, until `client` aborts. */
  answered(client: AbortSignal, work: (signal: AbortSignal) => Promise<Result>): Promise<Result>;
}

/** The tools that answer with rows. */
function addQuestions(server: McpServer, { ground, questions, pii, answered }: Session): void {
  server.registerTool(
    'list_questions',
    { description: 'The prepared questions, by name.', inputSchema: z.object({}), annotations: looking },
    () => plain(questions.map(({ name, question, notes }) => ({ name, question, notes }))),
  );
  server.registerTool(
    'ask_question',
    {
      description:
        'Answers a prepared question, exactly as `shelfdesk query run` does. "Now" in it is complete_through.',
      inputSchema: z.object({
        name: z.string().max(100).describe('Name in list_questions.'),
        account,
        certain,
      }),
      annotations: looking,
    },
    ({ name, account, certain }, { mcpReq }) =>
      answered(mcpReq.signal, async signal => {
        const { sql, question } = findQuery(questions, name);
        // A prepared question has no time range: it reads all rows.
        const always = { from: undefined, through: undefined };
        return toldOf(await ask(ground, { sql, account, certain, pii, ...always, signal }), { question, masked: !pii });
      }),
  );
  server.registerTool(
    'ask_sql',
    {
      description: 'Answers one SQL query that only reads (select, with, values, table).',
      inputSchema: z.object({ sql: z.string().min(1).max(20_000), account, certain, from, through }),
      annotations: looking,
    },
    ({ from, through, ...of }, { mcpReq }) =>
      answered(mcpReq.signal, async signal => {
        const span = { from: dateOf(from), through: dateOf(through) };
        return toldOf(await ask(ground, { ...of, pii, account: of.account, ...span, signal }), { masked: !pii });
      }),
  );
}

/** The tools that explain the mirror. */
function addLooks(server: McpServer, session: Session): void {
  const { looks, schemas, pii, answered } = session;
  const shown = pii ? unmasked : masked;
  server.registerTool(
    'dictionary',
    {
      description:
        'Tables and views with their meaning; with `relation` the columns of one, such as analytics.fact_tickets.',
      inputSchema: z.object({ relation: z.string().max(200).optional() }),
      annotations: looking,
    },
    ({ relation }, { mcpReq }) =>
      answered(mcpReq.signal, async () => {
        const text = relation === undefined ? describeAll(schemas) : describeOne(schemas, relation);
        return { content: [{ type: 'text', text }] };
      }),
  );
  server.registerTool(
    'status',
    {
      description: 'How complete and how fresh each stream is, what is missing, and what to do about it.',
      inputSchema: z.object({ account }),
      annotations: looking,
    },
    ({ account }, { mcpReq }) =>
      answered(mcpReq.signal, () => seen(session, account, () => looks.status(account, shown))),
  );
  server.registerTool(
    'why',
    {
      description: 'History of one ticket in the mirror: when it was read, what changed, and why it is not fresher.',
      inputSchema: z.object({ ticket: z.string().max(200).describe('Id or number of the ticket.'), account }),
      annotations: looking,
    },
    ({ account, ticket }, { mcpReq }) =>
      answered(mcpReq.signal, () => seen(session, account, () => looks.why(account, ticket, shown))),
  );
  server.registerTool(
    'plan',
    {
      description: 'What a run would cost in requests, credits and time. Starts nothing, and asks no source.',
      inputSchema: z.object({ kind: z.enum(['sync', 'backfill']).default('sync'), account }),
      annotations: looking,
    },
    ({ account, kind }, { mcpReq }) =>
      answered(mcpReq.signal, signal => seen(session, account, () => looks.plan(account, kind, signal))),
  );
}

/** A longer time limit, for reads at the start of the server, when no agent waits. */
const patient = (ground: Ground): Ground => ({ ...ground, limits: { ...ground.limits, ms: 60_000 } });

async function readableCatalog(ground: Ground, pii: boolean): Promise<Schema[]> {
  const schemas = await readCatalog(ground.warehouse.pg);
  const readable = await asReader(patient(ground), { pii, accounts: [] }, async ({ client }) => {
    const sql = `select schema || '.' || relation as name from analytics.data_dictionary where position = 0`;
    // Starts the parser, which no agent should wait for.
    await judge(client, sql);
    const { rows } = await client.query<{ name: string }>(sql);
    return new Set(rows.map(({ name }) => name));
  });
  return schemas
    .map(schema => ({
      ...schema,
      relations: schema.relations.filter(({ name }) => readable.has(`${schema.name}.${name}`)),
    }))
    .filter(({ relations }) => relations.length > 0);
}

interface Metric {
  relation: string;
  name: string;
  unit: string;
  kind: string;
  formula: string;
  other_vendors: string | null;
}

/** One resource for each metric. Definitions hold no rows of a source. */
function addMetrics(server: McpServer, db: pg.Pool): void {
  const uriOf = ({ relation, name }: Pick<Metric, 'relation' | 'name'>) => `shelfdesk://metrics/${relation}/${name}`;
  const read = async (): Promise<Metric[]> =>
    (
      await db.query<Metric>(
        'select relation, name, unit, kind, formula, other_vendors from analytics.metric_definitions order by relation, name',
      )
    ).rows;
  server.registerResource(
    'metric',
    new ResourceTemplate('shelfdesk://metrics/{relation}/{name}', {
      list: async () => ({
        resources: (await read()).map(one => ({
          ...{ uri: uriOf(one), name: `${one.relation}.${one.name}`, mimeType: 'application/json' },
          description: `${one.unit}, ${one.kind}`,
        })),
      }),
    }),
    {
      description: 'How a metric is counted, how exactly it is known, and how others count it.',
      mimeType: 'application/json',
    },
    async (uri, { relation, name }) => {
      const found = (await read()).find(one => one.relation === relation && one.name === name);
      if (found === undefined) throw new Error(`there is no metric ${uri.href}`);
      return { contents: [{ uri: uri.href, mimeType: 'application/json', text: JSON.stringify(found) }] };
    },
  );
}

// --- results --------------------------------------------------------------------------------------------------------

/** A fence has another name in each answer. */
const fence = (text: string) => fenced(text, newName());
const dateOf = (time: string | undefined) => (time === undefined ? undefined : new Date(time));
const text = (text: string) => ({ type: 'text' as const, text });
const plain = (value: unknown): Result => ({ content: [text(JSON.stringify(value))] });

function toldOf({ names, rows, covered, cut, certain }: Told, more: object): Result {
  const holds = certain && { certain_from: certain.from, certain_as_of: certain.asOf };
  const about = { ...more, rows: rows.length, ...cutWords(cut), ...holds, ...briefly(covered) };
  return { content: [text(JSON.stringify(about)), text(fence(JSON.stringify(objectsOf({ names, rows }))))] };
}

const cutWords = (cut: Told['cut']) =>
  cut === null
    ? {}
    : {
        cut: `There are more rows: the limit of ${cut} ended the answer here. Do not count these rows; ask for a count.`,
      };

/** The result of a command, with the completeness of the streams of the account. */
async function seen(
  { ground, pii }: Session,
  account: string | undefined,
  look: () => Promise<unknown>,
): Promise<Result> {
  const value = await look();
  const covered = await readCovered(
    ground.warehouse.pg,
    account === undefined ? ground.accounts : [account],
    undefined,
  );
  const { bytes } = ground.limits;
  const json = Buffer.from(JSON.stringify(value));
  const isCut = json.length > bytes;
  const about = { masked: !pii, ...(isCut && { cut: 'It is longer than the limit of bytes, which ended it here.' }) };
  return {
    content: [text(JSON.stringify({ ...about, ...briefly(covered) })), text(fence(json.subarray(0, bytes).toString()))],
  };
}

/**
 * A failure that is expected becomes an answer that says what to do. Messages may quote rows: those of PostgreSQL quote
 * values, and ours the reason of a reject. So they are fenced, except for what is wrong usage.
 */
async function resultOf(work: () => Promise<Result>, onBug: (error: unknown) => void): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof UsageError) return failed(`${error.message}. ${error.remedy}`);
    if (error instanceof ShelfdeskError) return failed('This cannot be answered.', `${error.message}. ${error.remedy}`);
    if (isAway(error)) return failed('The warehouse does not answer. Try it again in a minute.');
    if (isOfDatabase(error)) return failed('PostgreSQL refused the query.', error.message);
    onBug(error);
    return failed('This went wrong. The log of the server says why.');
  }
}

const mostOfMessage = 1000;

const failed = (words: string, quoted?: string): Result => ({
  content: [text(words), ...(quoted === undefined ? [] : [text(fence(quoted.slice(0, mostOfMessage)))])],
  isError: true,
});

/** A DatabaseError of PostgreSQL has an SQLSTATE. */
const isOfDatabase = (error: unknown): error is Error =>
  error instanceof Error && /^[0-9A-Z]{5}$/.test(String((error as { code?: unknown }).code));
