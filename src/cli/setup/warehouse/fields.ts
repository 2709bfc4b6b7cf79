/** `fields list | apply | lift`: the field rules, what each one costs, and their application to stored rows. */
import type { Command } from 'commander';
import { systemClock } from '../../../clock.ts';
import { noteOperation } from '../../../engine/runs/operations.ts';
import { command } from '../../../engine/runs/pauses.ts';
import { UsageError } from '../../../errors.ts';
import { applyToStored } from '../../../privacy/fields/apply.ts';
import { lostBy, rulesIn } from '../../../privacy/fields/losses.ts';
import { keepFieldRules, liftRule, pauseLeftOut, storedRules } from '../../../privacy/fields/stored-rules.ts';
import { streams } from '../../../sources/index.ts';
import { count } from '../../../words.ts';
import { openChosen } from '../../choose-account.ts';
import { type Act, type Deps, jsonOption, note } from '../../command.ts';
import { tellLakeLeft } from '../../lake-left.ts';
import { operator } from '../../operator.ts';
import { print, printJson, printList, say, sayOnce, table } from '../../output/terminal.ts';

interface Asked {
  readonly json?: boolean;
}

export function addFields(program: Command, deps: Deps, act: Act): void {
  const fields = program
    .command('fields')
    .summary('keep fields only in part, or not at all')
    .description('fields that never arrive, or only in part: the rules of FIELD_RULES')
    .addHelpText('after', note('See docs/how-to/keep-less.md.'));
  fields
    .command('list', { isDefault: true })
    .description('list the rules, what is lost by each, and whether records of before follow it')
    .option(...jsonOption)
    .action(act((asked: Asked) => list(deps, asked)));
  fields
    .command('apply')
    .description('rewrite the records of before as the rules want them; workers may run; Ctrl-C is safe')
    .option(...jsonOption)
    .action(act((asked: Asked) => apply(deps, asked)));
  fields
    .command('lift')
    .description('keep a field again: take its rule out of the warehouse')
    .argument('<rule>', 'the rule as `fields` lists it')
    .option(...jsonOption)
    .action(act((rule: string, asked: Asked) => lift(deps, rule, asked)));
}

async function list(deps: Deps, asked: Asked): Promise<void> {
  await using opened = await openChosen(deps);
  const { account, fieldRules } = opened.config;
  const stored = await storedRules(opened.db, account);
  const set = rulesIn(fieldRules);
  const fresh = set.filter(({ full }) => !stored.some(one => one.full_rule === full));
  const all = [...stored, ...fresh.map(({ written, full }) => ({ rule: written, full_rule: full }))]
    .map(({ rule, full_rule, ...known }) => ({
      ...{ rule, since: null, applied_at: null, ...known },
      set: set.some(({ full }) => full === full_rule),
      lost: lostBy(fieldRules, full_rule),
    }))
    .sort((a, b) => (a.rule < b.rule ? -1 : 1));
  printList(all, asked, {
    none: 'Every field is kept: FIELD_RULES is not set.',
    columns: ['rule', 'since', 'records of before', 'lost'],
    row: ({ rule, since, applied_at, lost }) => [
      rule,
      since ?? 'the next run',
      since === null ? '' : applied_at === null ? 'not rewritten yet' : 'follow it',
      lost.join(', ') || 'nothing else',
    ],
  });
  if (all.some(({ since, applied_at }) => since !== null && applied_at === null))
    say(`${command(account, 'warehouse fields apply')} rewrites the records of before.`);
}

async function apply(deps: Deps, { json }: Asked): Promise<number> {
  await using opened = await openChosen(deps);
  const { db, config } = opened;
  const { account, fieldRules } = config;
  if (fieldRules === undefined)
    throw new UsageError('FIELD_RULES is not set', 'Set it, in the environment or in .env: docs/how-to/keep-less.md.');
  const now = new Date(systemClock.now());
  await keepFieldRules(db, account, fieldRules, now);
  await pauseLeftOut(db, account, fieldRules, streams, now);
  const progress = sayOnce();
  const changed = await applyToStored(db, account, fieldRules, {
    ...{ streams, signal: deps.signal, now },
    told: one => progress(`${one.of}: ${count(one.seen, 'row')} read, ${one.changed} rewritten`),
  });
  const subject = rulesIn(fieldRules)
    .map(({ written }) => written)
    .join(' ');
  const done = { account, who: operator(), action: 'field rules' as const, subject, outcome: told(changed) };
  await noteOperation(db, done, now);
  if (json) printJson({ account, rewritten: changed });
  else print(table(['rewritten', 'rows'], Object.entries(changed)));
  const code = await tellLakeLeft(
    db,
    'The files of the lake have the values until its next export, which removes all older snapshots. `npx shelfdesk lake export` does it now.',
  );
  say(
    'Old row versions remain in the database files until `vacuum (full, analyze)`, and in backups: see docs/how-to/keep-less.md.',
  );
  return code;
}

async function lift(deps: Deps, rule: string, { json }: Asked): Promise<void> {
  await using opened = await openChosen(deps);
  const { account, db } = opened;
  const resumed = await liftRule(db, { account, who: operator(), rule }, new Date(systemClock.now()));
  if (json) printJson({ account, lifted: rule, resumed: resumed ?? null });
  if (resumed !== undefined) say(`The stream ${resumed} is no longer paused.`);
  const again = command(account, 'backfill --again');
  say(
    `Take ${rule} out of FIELD_RULES too. New and changed records bring the field; ${command(account, 'plan backfill --again')} says what it costs to fetch the others again, and ${again} fetches them.`,
  );
}

const told = (changed: Readonly<Record<string, number>>): string =>
  Object.entries(changed)
    .map(([what, rows]) => `${what}: ${rows}`)
    .join(', ');
