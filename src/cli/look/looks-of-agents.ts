/** What agents may look at besides SQL: the results of `status`, `why` and `plan`. */
import { statusShown } from '../../agents/masked.ts';
import type { Looks } from '../../agents/server.ts';
import type { Fleet } from '../../app/config.ts';
import type { Warehouse } from '../../app/context.ts';
import { UsageError } from '../../errors.ts';
import { accountNames } from '../../status/accounts.ts';
import { readAllProblems } from '../../status/problems.ts';
import { readStatus } from '../../status/streams.ts';
import { chosenAccount, chosenAccounts, servedBy } from '../choose-account.ts';
import { planFromMirror, questionOf, settingsFor } from '../work/plan.ts';
import { whyOf } from './why.ts';

interface Given {
  readonly warehouse: Warehouse;
  readonly fleet: () => Fleet;
  /** The only account that agents may see; undefined: all. */
  readonly only: string | undefined;
}

export function looksOf({ warehouse, fleet, only }: Given): Looks {
  const { pg: db } = warehouse;
  const askedFor = (account: string | undefined) => {
    if (only !== undefined && account !== undefined && account !== only)
      throw new UsageError(`there is no account '${account}'`, `There is: ${only}.`);
    return { asked: () => ({ fleet: fleet(), account: account ?? only }) };
  };
  return {
    async status(account, shown) {
      const { accounts } = await chosenAccounts(askedFor(account), db);
      const names = accounts.map(one => one.account);
      const problems = await readAllProblems(db, names);
      return {
        streams: statusShown(await readStatus(db, names, accounts.map(servedBy)), shown),
        problems: problems.map(one => ({ ...one, says: shown.text(one.says) })),
      };
    },
    async why(account, ticket, shown) {
      return whyOf(db, await chosenAccount(askedFor(account), db), ticket, shown);
    },
    async plan(account, kind, signal) {
      const chosen = await chosenAccount(askedFor(account), db);
      if (!(await accountNames(db)).includes(chosen.account))
        throw new UsageError(
          `nothing of the account '${chosen.account}' is mirrored`,
          'A person plans its first load.',
        );
      const { config, isSet } = await settingsFor(chosen, db);
      const question = questionOf(kind, [], {}, config);
      return planFromMirror(config, warehouse, question, { signal, isSet });
    },
  };
}
