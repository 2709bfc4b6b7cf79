/** `status --check`: whether a worker of this machine, or container, lives and reaches the warehouse. For health checks. */
import { hostname } from 'node:os';
import { ShelfdeskError } from '../../errors.ts';
import { liveWorkers, workerLine } from '../../status/workers.ts';
import { chosenAccounts, demoHasEnded, hasEnded } from '../choose-account.ts';
import type { Deps } from '../command.ts';
import { print, printJson } from '../output/terminal.ts';
import { tablesOf } from '../warehouse.ts';

/** Throws ShelfdeskError if no worker of this machine lives. Of several workers it sees that one lives. It does not ask Redis. */
export async function checkHealth(deps: Deps, { json = false }: { json?: boolean | undefined }): Promise<void> {
  await using warehouse = await tablesOf(deps.asked().fleet, deps.signal);
  const { accounts } = await chosenAccounts(deps, warehouse.pg);
  const names = accounts.map(({ account }) => account);
  const here = (await liveWorkers(warehouse.pg, names)).filter(({ host }) => host === hostname());
  if (here.length === 0)
    throw new ShelfdeskError(
      `no worker of ${hostname()} is alive`,
      hasEnded(deps.asked().fleet) ? demoHasEnded : 'Start one with `npx shelfdesk start`.',
    );
  if (json) printJson({ workers: here.map(workerLine) });
  else print(`healthy: ${namesOf(here)} on ${hostname()}`);
}

/** Workers of one account are named by their numbers; of several accounts only the number of accounts is shown. */
function namesOf(workers: readonly { account: string; id: number }[]): string {
  const accounts = new Set(workers.map(({ account }) => account)).size;
  return accounts > 1 ? `${accounts} accounts` : `worker ${workers.map(({ id }) => id).join(', ')}`;
}
