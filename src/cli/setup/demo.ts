/**
 * `demo`: end-to-end example on this machine: a sandbox help desk and book catalog, the embedded PostgreSQL, one sync and
 * some queries. The data is kept in the account `demo`. With --stay the sandbox, a worker and the page run on.
 */

import { type Sandbox, startSandbox } from '@shelfdesk/sandbox';
import type { Command } from 'commander';
import { openGround } from '../../app/account.ts';
import type { Config, WebConfig } from '../../app/config.ts';
import type { Warehouse } from '../../app/context.ts';
import { migrateWarehouse } from '../../app/migrate.ts';
import { keepRounds, serve } from '../../app/serve.ts';
import { systemClock } from '../../clock.ts';
import { forgetAccount } from '../../engine/runs/accounts.ts';
import { exitCodes } from '../../errors.ts';
import { PortTaken } from '../../ops/page/server.ts';
import type { BooksConfig } from '../../sources/books/settings.ts';
import { amount } from '../../words.ts';
import { type Act, aborted, type Deps, note } from '../command.ts';
import { ask } from '../look/sql.ts';
import { defaultPort, openPage } from '../look/web.ts';
import { print, say, style, table } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';
import { chooseStreams, report } from '../work/follow.ts';
import { reporterOf } from '../work/report-runs.ts';
import { runSync } from '../work/sync.ts';

const account = 'demo';
const tickets = 2000;
const volumes = 300;
/** Raised limits: the demo takes seconds; with the default 100 credits a minute it would take about 45 minutes. */
const limits = { credits: 10_000_000, periodMs: 60_000, requestsPerSecond: 100_000, reserve: 10 };
const dayMs = 24 * 3_600_000;
const changesAMinute = 60;
const pageOfDemo: WebConfig = { port: undefined, host: '127.0.0.1', token: undefined, viewerToken: undefined };

const questions = [
  {
    title: 'How far is the mirror complete?',
    sql: `select stream, complete_through, waiting, gaps, open_rejects
from sync.status where account_id = 'demo' order by stream`,
  },
  {
    title: 'Which inboxes are busy, and what is open?',
    sql: `select i.name as inbox, count(*) as tickets, count(*) filter (where t.state = 'open') as open
from analytics.countable_tickets t join helpdesk.inboxes i using (account_id)
where t.account_id = 'demo' and i.id = t.inbox_id group by i.name order by tickets desc`,
  },
  {
    title: 'How many messages came in and went out, by channel?',
    sql: `select t.type as channel, count(*) filter (where m.direction = 'in') as incoming,
  count(*) filter (where m.direction = 'out') as outgoing, count(*) filter (where m.type = 'note') as notes
from helpdesk.messages m join analytics.countable_tickets t using (account_id, ticket_id)
where account_id = 'demo' group by t.type order by incoming desc limit 5`,
  },
  {
    title: 'What is on the shelves, and what would it cost?',
    sql: `select s.title as shelf, count(*) as volumes, min(v.published_year) as oldest, sum(v.list_price) as price, v.list_price_currency as currency
from books.shelves s
join books.shelf_volumes m on (m.account_id, m.owner_id, m.shelf_id) = (s.account_id, s.owner_id, s.id)
join books.volumes v on (v.account_id, v.id) = (m.account_id, m.volume_id)
where s.account_id = 'demo' and m._removed_at is null and v.list_price_currency = 'EUR'
group by s.owner_id, s.id, s.title, v.list_price_currency order by volumes desc limit 5`,
  },
] as const;

export function addDemo(program: Command, deps: Deps, act: Act): void {
  program
    .command('demo')
    .summary('mirror a simulated help desk, ask it questions')
    .description(
      `mirror a sandbox of ${amount(tickets)} tickets and ${amount(volumes)} volumes into the embedded PostgreSQL, and show a few queries`,
    )
    .addHelpText('after', note('The data stays in the embedded PostgreSQL, under the account `demo`.'))
    .option('--stay', 'afterwards run a worker and the page until Ctrl-C, while the sandbox changes')
    .action(
      act(async ({ stay = false }: { stay?: boolean }) => {
        const configured = deps.config();
        const sandbox = await startSandbox({
          tickets,
          ...(stay && { activity: changesAMinute }),
          credits: limits.credits,
          periodSeconds: limits.periodMs / 1000,
          requestsPerSecond: limits.requestsPerSecond,
          books: { volumes, requestsPerDay: limits.credits, requestsPerSecond: limits.requestsPerSecond },
        });
        try {
          say(style('bold', 'A help desk and a book catalog (sandbox) → embedded PostgreSQL', process.stderr));
          say(`Sources:   ${sandbox.url}, ${amount(tickets)} tickets`);
          say(`           ${sandbox.books.url}, ${amount(volumes)} volumes; limits raised so that this takes seconds`);
          await using warehouse = await warehouseOf({ databaseUrl: undefined }, deps.signal);
          say(`Account:   '${account}'`);
          await migrateWarehouse(warehouse.url);
          await forgetAccount(warehouse.pg, account);
          const helpdesk = { baseUrl: new URL(sandbox.url), token: sandbox.token };
          const config: Config = {
            ...configured,
            account,
            databaseUrl: undefined,
            redisUrl: undefined,
            helpdesk,
            books: booksOf(sandbox.books),
            limits,
            sinceMs: 0,
          };
          const result = await runSync(config, warehouse, chooseStreams([], config), deps);
          report(result);
          if (result.exitCode !== exitCodes.ok) return result.exitCode;
          for (const { title, sql } of questions) {
            const { fields, rows } = await ask(warehouse, sql);
            print(`\n${style('bold', title, process.stdout)}`);
            print(
              table(
                fields.map(field => field.name),
                rows,
              ),
            );
          }
          const command = `${configured.databaseUrl === undefined ? '' : 'DATABASE_URL= '}npx shelfdesk`;
          if (stay) await runOn(config, warehouse, deps, { command, version: program.version()! });
          else print(`\n${goOn(command)}`);
          return result.exitCode;
        } finally {
          await sandbox.close();
        }
      }),
    );
}

function booksOf({ url, key, token, world }: Sandbox['books']): BooksConfig {
  return {
    baseUrl: new URL(url),
    apiKey: key,
    accessToken: token,
    users: [...world.users.keys()],
    library: true,
    limits: { ...limits, periodMs: dayMs, reserve: 0 },
    shelfAgeMs: dayMs,
    auditVolumesPerHour: 0,
    volumeAgeMs: dayMs,
  };
}

/** Runs a worker and the page until Ctrl-C. The sandbox changes meanwhile. */
async function runOn(
  config: Config,
  warehouse: Warehouse,
  { jobs, signal }: Deps,
  { command, version }: { command: string; version: string },
): Promise<void> {
  await using ground = await openGround({ ...config, redisUrl: undefined }, warehouse);
  const report = reporterOf({ pg: warehouse.pg, clock: systemClock, several: false });
  await using rounds = keepRounds(ground, signal, report);
  await using _worker = await serve(rounds, config, jobs);
  const fleet = () => ({
    ...config,
    web: pageOfDemo,
    lake: { schedule: '' },
    agents: { page: 'off' as const, limits: { ms: 4000, rows: 200, bytes: 100_000 } },
    accounts: [config],
    refused: [],
    files: [],
  });
  const open = (port: number) => openPage(ground, { web: pageOfDemo, port, version, fleet });
  await using page = await open(defaultPort).catch(error => {
    if (error instanceof PortTaken) return open(0);
    throw error;
  });
  const { rows } = await ask(
    warehouse,
    `select number from helpdesk.tickets where account_id = '${account}' and state = 'open' order by updated_at desc limit 1`,
  );
  print(`\n${style('bold', `The page: ${page.url}`, process.stdout)}

A worker runs, and about ${changesAMinute} things a minute change at the help desk. In another terminal:
  ${command} status
  ${command} why ${rows[0]?.[0] ?? 1}
  ${command} query run backlog-by-week
  ${command} query run first-response-by-inbox-and-week
  ${command} sql "select id, kind, state, started_at from sync.runs order by id desc limit 5"
Press Ctrl-C to stop. The data stays.`);
  await aborted(signal);
}

/** Next steps. `command` clears DATABASE_URL if it is set, because the data is in the embedded server. */
function goOn(command: string): string {
  return `The data stays. Next:
  ${command} sql "select subject, state, updated_at from helpdesk.tickets order by updated_at desc limit 5"
  ${command} status
  ${command} db`;
}
