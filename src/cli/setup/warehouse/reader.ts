/** `warehouse reader create | list | revoke`: read-only logins for other tools, limited to accounts. */
import type { Command } from 'commander';
import { systemClock } from '../../../clock.ts';
import { lineFor } from '../../../engine/database/session/connection-url.ts';
import { UsageError } from '../../../errors.ts';
import { letIn, readersOf, revoke } from '../../../privacy/readers.ts';
import { accountNames } from '../../../status/accounts.ts';
import { choiceOf, count } from '../../../words.ts';
import { type Act, type Deps, jsonOption } from '../../command.ts';
import { operator } from '../../operator.ts';
import { print, printJson, printList, say } from '../../output/terminal.ts';
import { tablesOf } from '../../warehouse.ts';

interface CreateOptions {
  pii?: boolean;
  accounts?: string;
  json?: boolean;
}

export function addReader(program: Command, deps: Deps, act: Act): void {
  const reader = program
    .command('reader')
    .summary('create, list and revoke read-only logins')
    .description('read-only logins for other tools');
  reader
    .command('create')
    .description('create a read-only login and print its connection URL once; personal data is masked without --pii')
    .argument('<name>', 'name of the login: small letters, digits and _')
    .option('--pii', 'allow access to names, addresses and texts')
    .option('--accounts <names>', 'accounts, separated by commas (default: all, including future ones)')
    .option(...jsonOption)
    .action(
      act(async (name: string, { pii = false, accounts: named, json }: CreateOptions) => {
        const { fleet, account } = deps.asked();
        await using warehouse = await tablesOf(fleet, deps.signal);
        const known = [...fleet.accounts.map(one => one.account), ...(await accountNames(warehouse.pg))];
        const accounts = chosen(named ?? account, known);
        lineFor(warehouse.url, name, 'x'); // Before there is a login that nobody could be told of.
        const password = await letIn(
          warehouse.pg,
          { name, pii, accounts, who: operator() },
          new Date(systemClock.now()),
        );
        const url = lineFor(warehouse.url, name, password);
        if (json) printJson({ reader: name, pii, accounts, url });
        else print(url);
        say(`The login sees ${seen(pii)} of ${accounts === null ? 'all accounts' : accounts.join(', ')}.`);
        say(
          'This URL holds the password and is shown only once. Revoke it with `npx shelfdesk warehouse reader revoke`.',
        );
        if (warehouse.folder)
          say('The embedded server runs only while a Shelfdesk command runs, such as `npx shelfdesk db`.');
      }),
    );
  reader
    .command('list')
    .description('list logins, their access and their sessions')
    .option(...jsonOption)
    .action(
      act(async (options: { json?: boolean }) => {
        await using warehouse = await tablesOf(deps.asked().fleet, deps.signal);
        printList(await readersOf(warehouse.pg), options, {
          none: 'No readers yet. Create one with `npx shelfdesk warehouse reader create <name>`.',
          columns: ['reader', 'state', 'sees', 'accounts', 'since', 'by', 'sessions'],
          row: one => [
            ...[one.reader, one.state, seen(one.pii), one.accounts?.join(', ') ?? 'all'],
            ...[one.created_at, one.created_by, one.sessions],
          ],
        });
      }),
    );
  reader
    .command('revoke')
    .description('end the sessions of a login and remove it')
    .argument('<name>', 'name in `warehouse reader list`')
    .option(...jsonOption)
    .action(
      act(async (name: string, { json }: { json?: boolean }) => {
        await using warehouse = await tablesOf(deps.asked().fleet, deps.signal);
        const sessions = await revoke(warehouse.pg, name, operator(), new Date(systemClock.now()));
        if (json) printJson({ reader: name, sessions });
        say(`Login ${name} was revoked${sessions > 0 ? `; ${count(sessions, 'session')} ended` : ''}.`);
      }),
    );
}

/** Accounts of --accounts; null means all. Throws UsageError for unknown names. */
function chosen(named: string | undefined, known: readonly string[]): string[] | null {
  if (named === undefined) return null;
  const accounts = [...new Set(named.split(',').map(one => one.trim()))].filter(one => one !== '');
  const strange = accounts.filter(one => !known.includes(one));
  const all = [...new Set(known)].sort().join(', ');
  if (accounts.length === 0) throw new UsageError('--accounts names no account', `Choose from: ${all}.`);
  if (strange.length > 0)
    throw new UsageError(
      `there is no account '${strange.join("', '")}'`,
      known.length === 0 ? 'The warehouse holds no account yet.' : choiceOf(strange[0]!, [...new Set(known)].sort()),
    );
  return accounts;
}

const seen = (pii: boolean) => (pii ? 'names, addresses and texts' : 'masked data');
