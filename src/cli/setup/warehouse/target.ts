/** `warehouse target list | set | remove`: service targets of an account, its inboxes and its labels. */
import { Argument, type Command, InvalidArgumentError } from 'commander';
import {
  inHours,
  type Metric,
  metrics,
  readServiceTargets,
  removeServiceTarget,
  setServiceTarget,
  subject,
} from '../../../analytics/service-targets.ts';
import { systemClock } from '../../../clock.ts';
import { chosenAccount } from '../../choose-account.ts';
import { type Act, type Deps, jsonOption, note } from '../../command.ts';
import { operator } from '../../operator.ts';
import { print, printJson, say, table } from '../../output/terminal.ts';
import { tablesOf } from '../../warehouse.ts';

interface Scoped {
  inbox?: string | null;
  label?: string | null;
}

export function addTarget(program: Command, deps: Deps, act: Act): void {
  const target = program
    .command('target')
    .summary('set service targets for responses and resolutions')
    .description('service targets: how long a first response and a resolution may take, per account, inbox or label')
    .addHelpText(
      'after',
      note(
        'Time is business time by the calendar of the ticket (`warehouse calendar assign`), or clock time without one. Of several targets the most specific one counts: label and inbox, label, inbox, account.',
      ),
    );
  const open = async () => {
    const { fleet, account } = deps.asked();
    const warehouse = await tablesOf(fleet, deps.signal);
    return {
      ...{ db: warehouse.pg, now: new Date(systemClock.now()), who: operator(), named: account },
      account: async () => account ?? (await chosenAccount(deps, warehouse.pg)).account,
      [Symbol.asyncDispose]: () => warehouse[Symbol.asyncDispose](),
    };
  };
  const metric = () => new Argument('<metric>', 'what may take that long').choices(metrics);
  const scoped = (command: Command) =>
    command
      .option('--inbox <id>', 'only tickets of this inbox (default: all)')
      .option('--label <id>', 'only tickets with this label (default: all)');

  target
    .command('list')
    .description('list the service targets')
    .option(...jsonOption)
    .action(
      act(async ({ json }: { json?: boolean }) => {
        await using opened = await open();
        const all = await readServiceTargets(opened.db, opened.named);
        if (json) printJson(all);
        else if (all.length > 0)
          print(
            table(
              ['account', 'metric', 'within', 'inbox', 'label'],
              all.map(one => [one.account, one.metric, inHours(one.seconds), one.inbox ?? 'all', one.label ?? 'all']),
            ),
          );
        if (all.length === 0) say('No service targets yet. Create one with `warehouse target set`.');
      }),
    );
  scoped(
    target
      .command('set')
      .description('create a service target, or change one')
      .addArgument(metric())
      .argument('<time>', 'longest time, such as 4h, 90m or 1h30m', time),
  ).action(
    act(async (asked: Metric, seconds: number, { inbox = null, label = null }: Scoped) => {
      await using opened = await open();
      const { db, who, now } = opened;
      const one = { account: await opened.account(), metric: asked, inbox, label, seconds };
      await setServiceTarget(db, one, who, now);
      say(`Account '${one.account}': ${subject(one)} within ${inHours(seconds)}.`);
    }),
  );
  scoped(target.command('remove').description('remove a service target').addArgument(metric())).action(
    act(async (asked: Metric, { inbox = null, label = null }: Scoped) => {
      await using opened = await open();
      const { db, who, now } = opened;
      const one = { account: await opened.account(), metric: asked, inbox, label };
      await removeServiceTarget(db, one, who, now);
      say(`Account '${one.account}': no service target for ${subject(one)} any more.`);
    }),
  );
}

const longestSeconds = 2 ** 31 - 1;

function time(text: string): number {
  const [, hours = '0', minutes = '0'] = /^(?=\d)(?:(\d+)h)?(?:(\d+)m)?$/.exec(text.trim().toLowerCase()) ?? [];
  const seconds = Number(hours) * 3600 + Number(minutes) * 60;
  if (seconds < 60 || seconds > longestSeconds)
    throw new InvalidArgumentError('It must be hours and minutes, such as 4h, 90m or 1h30m.');
  return seconds;
}
