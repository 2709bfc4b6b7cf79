/** `warehouse target list | set | remove`: service targets of an account, its inboxes and its labels. */
import { Argument, type Command, InvalidArgumentError } from 'commander';
import {
  inHours,
  type Metric,
  metrics,
  readServiceTargets,
  removeServiceTarget,
  setServiceTarget,
  sinceWords,
  subject,
} from '../../../analytics/service-targets.ts';
import { parsePast } from '../../arguments.ts';
import { openToSet } from '../../choose-account.ts';
import { type Act, type Deps, jsonOption, note } from '../../command.ts';
import { printList, say } from '../../output/terminal.ts';

interface Scoped {
  inbox?: string | null;
  label?: string | null;
  since?: Date;
}

export function addTarget(program: Command, deps: Deps, act: Act): void {
  const target = program
    .command('target')
    .summary('set service targets for responses and resolutions')
    .description('service targets: how long a response and a resolution may take, per account, inbox or label')
    .addHelpText(
      'after',
      note(
        'Time is business time by the calendar of the ticket (`warehouse calendar assign`), or clock time without one. Of several targets the most specific one counts: label and inbox, label, inbox, account. What began before a change keeps the target that was in force then.',
      ),
    );
  const metric = () => new Argument('<metric>', 'what may take that long').choices(metrics);
  const scoped = (command: Command, since: string) =>
    command
      .option('--inbox <id>', 'only tickets of this inbox (default: all)')
      .option('--label <id>', 'only tickets with this label (default: all)')
      .option('--since <time>', since, parsePast);

  target
    .command('list')
    .description('list the service targets')
    .option(...jsonOption)
    .action(
      act(async (options: { json?: boolean }) => {
        await using opened = await openToSet(deps);
        printList(await readServiceTargets(opened.db, deps.asked().account), options, {
          none: 'No service targets yet. Create one with `warehouse target set`.',
          columns: ['account', 'metric', 'within', 'inbox', 'label', 'since'],
          row: one => [
            ...[one.account, one.metric, inHours(one.seconds), one.inbox ?? 'all', one.label ?? 'all'],
            one.since?.toISOString() ?? 'always',
          ],
        });
      }),
    );
  scoped(
    target
      .command('set')
      .description('create a service target, or change one')
      .addArgument(metric())
      .argument('<time>', 'longest time, such as 4h, 90m or 1h30m', time),
    'of what begins from this time on, in place of all its targets since (default: now; of the first target of a metric always)',
  ).action(
    act(async (asked: Metric, seconds: number, { inbox = null, label = null, since }: Scoped) => {
      await using opened = await openToSet(deps);
      const { db, who, now } = opened;
      const one = { account: await opened.account(), metric: asked, inbox, label, seconds, since };
      const set = await setServiceTarget(db, one, who, now);
      say(`Account '${one.account}': ${subject(one)} within ${inHours(seconds)}${sinceWords(set.since)}.`);
    }),
  );
  scoped(
    target.command('remove').description('remove a service target').addArgument(metric()),
    'of what begins from this time on (default: now)',
  ).action(
    act(async (asked: Metric, { inbox = null, label = null, since: given }: Scoped) => {
      await using opened = await openToSet(deps);
      const { db, who, now } = opened;
      const since = given ?? now;
      const one = { account: await opened.account(), metric: asked, inbox, label };
      await removeServiceTarget(db, one, who, { now, since });
      say(`Account '${one.account}': no service target for ${subject(one)}${sinceWords(since)}.`);
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
