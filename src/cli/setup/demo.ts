/**
 * `demo`: end-to-end example on this machine: a sandbox help desk and book catalog, an embedded PostgreSQL of its own, one
 * sync and some queries. With --stay the sandbox, a worker and the page run on. Real data stays apart, wherever it is.
 */

import { type Sandbox, startSandbox } from '@shelfdesk/sandbox';
import { type Command, Option } from 'commander';
import { openGround } from '../../app/account.ts';
import { chooseAccount, type Fleet, isSetUp, readFleet, type WebConfig } from '../../app/config.ts';
import type { Warehouse } from '../../app/context.ts';
import { migrateWarehouse } from '../../app/migrate.ts';
import { keepRounds, serve } from '../../app/serve.ts';
import { defaultPort } from '../../app/settings.ts';
import { systemClock } from '../../clock.ts';
import { announceDemo, type Demo, demoAccount, demoPlace, findDemo, makeDemoToken } from '../../embedded/demo-place.ts';
import { removeDemo } from '../../embedded/remove-demo.ts';
import { forgetAccount } from '../../engine/runs/accounts/remove-account.ts';
import { exitCodes, UsageError } from '../../errors.ts';
import { PortTaken } from '../../ops/page/server.ts';
import { amount } from '../../words.ts';
import { type Act, aborted, type Deps, note } from '../command.ts';
import { ask } from '../look/sql.ts';
import { openPage } from '../look/web.ts';
import { print, say, style, table } from '../output/terminal.ts';
import { warehouseOf } from '../warehouse.ts';
import { chooseStreams, report } from '../work/follow.ts';
import { reporterOf } from '../work/report-runs.ts';
import { runSync } from '../work/sync.ts';

const tickets = 2000;
const volumes = 300;
/** Raised limits: the demo takes seconds; with the default 100 credits a minute it would take about 45 minutes. */
const limits = { credits: 10_000_000, periodSeconds: 60, requestsPerSecond: 100_000 };
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
    .addHelpText(
      'after',
      note(
        'The data stays in .shelfdesk/demo, a warehouse of its own, until --remove or the end of that folder. Where nothing real is set up, other commands look at it; else with `--account demo`.',
      ),
    )
    .option('--stay', 'afterwards run a worker and the page until Ctrl-C, while the sandbox changes')
    .addOption(new Option('--remove', 'delete the demo with its data').conflicts('stay'))
    .action(
      act(async ({ stay = false, remove = false }: { stay?: boolean; remove?: boolean }) => {
        const before = await findDemo(process.cwd());
        if (remove) {
          await removeIt(before);
          return;
        }
        if (before?.running)
          throw new UsageError(
            `a demo runs here already, as process ${before.running.pid}`,
            'Look at it with `npx shelfdesk status --account demo`, or stop it with Ctrl-C where it runs.',
          );
        const token = makeDemoToken();
        const sandbox = await startSandbox({
          tickets,
          tokens: [token],
          ...(stay && { activity: changesAMinute }),
          ...limits,
          books: { volumes, requestsPerDay: limits.credits, requestsPerSecond: limits.requestsPerSecond },
        });
        try {
          say(style('bold', 'A help desk and a book catalog (sandbox) → embedded PostgreSQL', process.stderr));
          say(`Sources:   ${sandbox.url}, ${amount(tickets)} tickets`);
          say(`           ${sandbox.books.url}, ${amount(volumes)} volumes; limits raised so that this takes seconds`);
          const place = demoPlace(process.cwd());
          const running = { pid: process.pid, url: `${sandbox.url}/users`, token, settings: settingsOf(sandbox) };
          await announceDemo(place, running);
          const fleet = readFleet(undefined, undefined, { ...place, running });
          const config = chooseAccount(fleet);
          await using warehouse = await warehouseOf(fleet, deps.signal);
          say(`Account:   '${demoAccount}'`);
          await migrateWarehouse(warehouse.url);
          await forgetAccount(warehouse.pg, demoAccount);
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
          const option = (await isSetUp()) ? ` --account ${demoAccount}` : '';
          if (stay) await runOn(fleet, warehouse, deps, { option, version: program.version()! });
          else print(`\n${next(option)}`);
          return result.exitCode;
        } finally {
          await sandbox.close();
        }
      }),
    );
}

async function removeIt(demo: Demo | undefined): Promise<void> {
  if (demo === undefined) {
    say('There is no demo in this folder.');
    return;
  }
  await removeDemo(demo);
  say(`Removed the demo, and ${demo.folder} with it.`);
}

/** The settings by which other commands reach the sandbox while the demo runs. */
const settingsOf = ({ url, token, books }: Sandbox): Record<string, string> => ({
  HELPDESK_BASE_URL: url,
  HELPDESK_TOKEN: token,
  HELPDESK_CREDITS: String(limits.credits),
  HELPDESK_REQUESTS_PER_SECOND: String(limits.requestsPerSecond),
  BOOKS_BASE_URL: books.url,
  BOOKS_API_KEY: books.key,
  BOOKS_ACCESS_TOKEN: books.token,
  BOOKS_USERS: [...books.world.users.keys()].join(' '),
  BOOKS_REQUESTS_PER_DAY: String(limits.credits),
  BOOKS_REQUESTS_PER_SECOND: String(limits.requestsPerSecond),
  BOOKS_SHELF_AGE_HOURS: '24',
  BOOKS_VOLUME_AGE_DAYS: '1',
  BOOKS_AUDIT_VOLUMES_PER_HOUR: '0',
});

/** Runs a worker and the page until Ctrl-C. The sandbox changes meanwhile. */
async function runOn(
  fleet: Fleet,
  warehouse: Warehouse,
  { jobs, signal }: Deps,
  { option, version }: { option: string; version: string },
): Promise<void> {
  await using ground = await openGround(fleet, warehouse);
  const report = reporterOf({ pg: warehouse.pg, clock: systemClock, several: false });
  await using rounds = keepRounds(ground, signal, report);
  await using _worker = await serve(rounds, chooseAccount(fleet), jobs);
  const open = (port: number) =>
    openPage(ground, { web: pageOfDemo, port, version, fleet: () => ({ ...fleet, web: pageOfDemo }) });
  await using page = await open(defaultPort).catch(error => {
    if (error instanceof PortTaken) return open(0);
    throw error;
  });
  const { rows } = await ask(
    warehouse,
    `select number from helpdesk.tickets where account_id = '${demoAccount}' and state = 'open' order by updated_at desc limit 1`,
  );
  const commands = [
    'status',
    'sync',
    `why ${rows[0]?.[0] ?? 1}`,
    'query run backlog-by-week',
    'query run first-response-by-inbox-and-week',
    'sql "select id, kind, state, started_at from sync.runs order by id desc limit 5"',
  ];
  print(`\n${style('bold', `The page: ${page.url}`, process.stdout)}

A worker runs, and about ${changesAMinute} things a minute change at the help desk. In another terminal:
${commands.map(words => `  npx shelfdesk ${words}${option}`).join('\n')}
Press Ctrl-C to stop. The data stays.`);
  await aborted(signal);
}

/** Next steps. Beside real data `option` names the demo. */
function next(option: string): string {
  return `The data stays. Next:
  npx shelfdesk sql "select subject, state, updated_at from helpdesk.tickets order by updated_at desc limit 5"${option}
  npx shelfdesk status${option}
  npx shelfdesk db${option}
  npx shelfdesk demo --remove`;
}
