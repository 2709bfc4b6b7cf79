/** `account move`: compares stored records with those of the new address, and binds the account to it. */
import { type Config, chooseAccount } from '../../app/config.ts';
import { configuredSources, type Warehouse } from '../../app/context.ts';
import { openContext, openLog } from '../../app/open-context.ts';
import { settings } from '../../app/settings.ts';
import { systemClock } from '../../clock.ts';
import { parseJson } from '../../engine/exact-json.ts';
import { addressesOf } from '../../engine/runs/accounts/accounts.ts';
import { type Known, knownRecords, moveSource } from '../../engine/runs/accounts/move-account.ts';
import { Gone, ShelfdeskError, UsageError } from '../../errors.ts';
import { sources } from '../../sources/index.ts';
import type { Source } from '../../sources/source.ts';
import { accountNames } from '../../status/accounts.ts';
import { choiceOf, count } from '../../words.ts';
import type { Deps } from '../command.ts';
import { operator } from '../operator.ts';
import { askToConfirm, say } from '../output/terminal.ts';
import { tablesOf } from '../warehouse.ts';

/** Records of each stream that are compared; each costs a request. */
const most = 3;

interface Move {
  readonly account: string;
  readonly to: string;
  /** Moves without a question, and even if the comparison fails. */
  readonly yes: boolean;
}

export async function moveAccount(deps: Deps, { account, to, yes }: Move): Promise<void> {
  const { fleet } = deps.asked();
  await using warehouse = await tablesOf(fleet, deps.signal);
  const bound = await addressesOf(warehouse.pg, account);
  const names = await accountNames(warehouse.pg);
  if (!names.includes(account))
    throw new UsageError(`there is no account '${account}'`, choiceOf(account, names, 'Choose from'));
  if (bound.size === 0)
    throw new UsageError(
      `account '${account}' is bound to no address yet`,
      'Set the right address, and run `npx shelfdesk sync`. See `npx shelfdesk account list`.',
    );
  const { source, address } = sourceAt(to, bound);
  const former = bound.get(source.name)!;
  if (former.href === address.href) {
    say(`Account '${account}' is bound to ${address.href} already.`);
    return;
  }
  const config = fleet.accounts.some(one => one.account === account) ? chooseAccount(fleet, account) : undefined;
  const found = await compare(source, address, { account, config, warehouse, signal: deps.signal });
  say(found.says);
  if (!found.same && !yes)
    throw new UsageError(
      `account '${account}' is not moved: ${address.host} does not show itself to be the same ${source.label.replace(/^the /, '')}`,
      'Rows of one account say nothing about another. If it is the same all the same, add --yes.',
    );
  const says = `Account ${account} will read from ${address.host} instead of ${former.host}.`;
  if (!yes) await askToConfirm(account, { says, act: 'a move' }, deps.signal);
  const now = new Date(systemClock.now());
  await moveSource(warehouse.pg, { account, who: operator(), source: source.name, to: address }, now);
  say(`Moved account '${account}' from ${former.host} to ${address.host}.`);
  if (config === undefined || configuredSources(config).get(source.name)?.baseUrl.href !== address.href)
    say(`Now set ${source.address}=${address.href} in its settings.`);
}

/** The bound source whose setting accepts this address. Throws UsageError if there is none. */
function sourceAt(to: string, bound: ReadonlyMap<string, URL>): { source: Source; address: URL } {
  let wrong: string | undefined;
  for (const source of sources.filter(({ name }) => bound.has(name)) as Source[]) {
    const { schema } = settings[source.address]!;
    const parsed = schema.safeParse(to);
    if (parsed.success) return { source, address: parsed.data as URL };
    wrong ??= `--to ${parsed.error.issues[0]!.message} (the address of ${source.label})`;
  }
  throw new UsageError(wrong ?? 'no source of this account takes that address', 'Give it as in the settings.');
}

interface Around {
  readonly account: string;
  readonly config: Config | undefined;
  readonly warehouse: Warehouse;
  readonly signal: AbortSignal;
}

/** Fetches some stored records from the new address, by their ids. */
async function compare(
  source: Source,
  address: URL,
  { account, config, warehouse, signal }: Around,
): Promise<{ same: boolean; says: string }> {
  if (config === undefined || !configuredSources(config).has(source.name))
    return {
      same: false,
      says: `Nothing can be compared: account '${account}' has no credentials for ${source.label} here.`,
    };
  await using context = openContext(config, warehouse, {
    log: openLog({ logLevel: 'silent' }),
    signal,
    instead: new Map([[source.name, address]]),
  });
  const { send } = context.sources.get(source.name)!;
  let [asked, same] = [0, 0];
  const differ: string[] = [];
  for (const stream of source.streams) {
    if (stream.kind !== 'list' || stream.get === undefined) continue;
    for (const known of await knownRecords(warehouse.pg, stream.merge.declared.root.name, account, most)) {
      asked++;
      try {
        const { text } = await send(stream.get(known.id), { lane: 'interactive', signal, tries: 1 });
        if (isSame(known, text)) same++;
        else differ.push(`${stream.name} ${known.id}`);
      } catch (error) {
        if (!(error instanceof ShelfdeskError)) throw error;
        if (!(error instanceof Gone)) return { same: false, says: `${address.host}: ${error.message}.` };
        differ.push(`${stream.name} ${known.id}`);
      }
    }
  }
  if (asked === 0)
    return {
      same: false,
      says: `Nothing can be compared: no stored record of ${source.label} can be fetched by its id.`,
    };
  const others = differ.length === 0 ? '' : `; not the same, or not there: ${differ.join(', ')}`;
  // Some may have been deleted since they were read.
  return {
    same: same * 2 > asked,
    says: `${same} of ${count(asked, 'stored record')} are the same at ${address.host}${others}.`,
  };
}

/** Compares the creation time, which never changes. Without one, most stored fields must be equal. */
function isSame({ payload }: Known, text: string): boolean {
  const now = parseJson(text) as Record<string, unknown>;
  if (typeof payload.created_at === 'string') return payload.created_at === now.created_at;
  const names = Object.keys(payload);
  const equal = names.filter(name => JSON.stringify(payload[name]) === JSON.stringify(now[name]));
  return equal.length * 2 > names.length;
}
