/** `mcp`: answers agents over stdin and stdout. The page answers them over HTTP if SHELFDESK_MCP is set. */

import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { type Agents, makeAgents } from '../../agents/server.ts';
import { serveOverStdio } from '../../agents/stdio.ts';
import { readQueries } from '../../analytics/questions.ts';
import type { Fleet } from '../../app/config.ts';
import type { Warehouse } from '../../app/context.ts';
import { systemClock } from '../../clock.ts';
import { makeLookingPool } from '../../engine/database/pool.ts';
import { OpenStack } from '../../open-stack.ts';
import { chosenAccount } from '../choose-account.ts';
import { type Act, type Deps, note } from '../command.ts';
import { say } from '../output/terminal.ts';
import { tablesOf } from '../warehouse.ts';
import { looksOf } from './looks-of-agents.ts';

export function addMcp(program: Command, deps: Deps, act: Act): void {
  program
    .command('mcp')
    .summary('answer agents (Model Context Protocol)')
    .description('answer the questions of an agent over stdin and stdout (Model Context Protocol); read-only')
    .addHelpText(
      'after',
      note('A client starts it. Each question is asked by a reader of its own. docs/how-to/answer-agents.md'),
    )
    .option('--unmasked', 'show names, addresses and texts as well')
    .action(
      act(async ({ unmasked = false }: { unmasked?: boolean }) => {
        const { fleet, account } = deps.asked();
        await using warehouse = await tablesOf(fleet, deps.signal);
        if (account !== undefined) await chosenAccount(deps, warehouse.pg);
        await using stack = new OpenStack();
        // Its statements end soon, also where another session holds a lock.
        const pg = makeLookingPool(warehouse.url);
        stack.defer(() => pg.end());
        const agents = await agentsOf({
          warehouse: { ...warehouse, pg },
          fleet: () => deps.asked().fleet,
          only: account,
          onBug: error => say(error instanceof Error ? (error.stack ?? error.message) : String(error)),
        });
        await serveOverStdio(agents, unmasked, deps.signal);
      }),
    );
}

export async function agentsOf(given: {
  warehouse: Warehouse;
  fleet: () => Fleet;
  only: string | undefined;
  onBug: (error: unknown) => void;
}): Promise<Agents> {
  const { warehouse, fleet, only } = given;
  const { limits } = fleet().agents;
  return makeAgents({
    ground: { warehouse, clock: systemClock, limits, accounts: only === undefined ? null : [only] },
    looks: looksOf(given),
    onBug: given.onBug,
    questions: await readQueries(),
    version: JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')).version,
  });
}
