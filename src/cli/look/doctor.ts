/** `doctor`: checks settings, database, queue and sources, and suggests fixes. */
import { hostname } from 'node:os';
import type { Command } from 'commander';
import { versionAndBuild } from '../../app/build.ts';
import { lookAtSettings } from '../../app/config.ts';
import { systemClock } from '../../clock.ts';
import { exitCodes } from '../../errors.ts';
import type { State } from '../../ops/doctor/checks/check.ts';
import { checks } from '../../ops/doctor/checks/index.ts';
import { examine, type Report, type Result } from '../../ops/doctor/run-checks.ts';
import { amount, count, upperFirst } from '../../words.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { print, printJson, printLines, say, style } from '../output/terminal.ts';

interface Options {
  fix?: boolean;
  all?: boolean;
  json?: boolean;
}

export function addDoctor(program: Command, deps: Deps, act: Act): void {
  program
    .command('doctor')
    .summary('check everything and suggest fixes')
    .description('check settings, database, queue and sources; suggest fixes')
    .addHelpText(
      'after',
      note(
        '--fix takes the right to read secrets from other users, creates the tables, ends abandoned runs, adds lost jobs and stores rejects again. Exits with 1 if a check failed.',
      ),
    )
    .option('--fix', 'apply safe fixes: file modes, tables, abandoned runs and jobs, rejects')
    .option('--all', 'also show each check that is good, and each that was not looked at')
    .option(...jsonOption)
    .action(
      act(async (options: Options) => {
        const around = {
          clock: systemClock,
          signal: deps.signal,
          folder: process.cwd(),
          look: lookAtSettings(),
          fleet: deps.fleet,
          node: process.versions.node,
          version: versionAndBuild(),
          host: hostname(),
          uid: process.getuid?.(),
        };
        const { show, end } = shower({ isAll: options.all === true });
        const onResult = options.json ? () => {} : show;
        const report = await examine(around, checks, { fix: options.fix ?? false, onResult });
        if (!options.json) end();
        if (options.json) printJson({ ...report, ...counted(report) });
        else sum(report, options);
        return counted(report).fail > 0 ? exitCodes.failed : exitCodes.ok;
      }),
    );
}

const marks: Record<State, [mark: string, format: Parameters<typeof style>[0]]> = {
  ok: ['✓', 'green'],
  warn: ['!', 'yellow'],
  fail: ['✗', 'red'],
  skipped: ['–', 'dim'],
};

/** Problems as they are found, so that they stand first; the rest below them, by area. */
function shower({ isAll }: { isAll: boolean }): { show(result: Result): void; end(): void } {
  const others: Result[] = [];
  const show = (result: Result) => {
    if (result.state === 'warn' || result.state === 'fail' || result.fixed !== null) tell(result);
    else others.push(result);
  };
  const end = () => {
    let isFirst = true;
    for (const [area, its] of Map.groupBy(others, one => one.area)) {
      const good = its.filter(({ state }) => state === 'ok').length;
      const left = its.length - good;
      if (isAll) print(`\n${style('bold', upperFirst(area), process.stdout)}`);
      else {
        const parts = [
          ...(good > 0 ? [count(good, 'check is good', 'checks are good')] : []),
          ...(left > 0 ? [`${amount(left)} not looked at`] : []),
        ];
        item(good > 0 ? 'ok' : 'skipped', `${upperFirst(area)}: ${parts.join(', ')}`, isFirst);
      }
      isFirst = false;
      if (!isAll) continue;
      for (const one of its.filter(({ because }) => because === null)) tell(one);
      for (const [because, skipped] of Map.groupBy(
        its.filter(one => one.because !== null),
        one => one.because,
      ))
        item('skipped', `not looked at, because of '${because}': ${skipped.map(nameOf).join(', ')}`);
    }
  };
  return { show, end };
}

const nameOf = ({ name, account }: Result) =>
  account === null || account === 'default' ? name : `${name} (${account})`;

function tell(result: Result): void {
  item(result.state, `${nameOf(result)}: ${result.says}`);
  if (result.fixed !== null) printLines(`Fixed: ${result.fixed}.`, '    ');
  if (result.remedy !== null) printLines(result.remedy, '    ');
  if (result.fix !== null && result.fixed === null) printLines(`--fix would ${result.fix}.`, '    ');
}

function item(state: State, text: string, isFirst = false): void {
  const [mark, format] = marks[state];
  if (isFirst) print('');
  printLines(text, `${style(format, mark, process.stdout)} `, '  ');
}

function counted({ results }: Report): Record<State, number> {
  const of = (state: State) => results.filter(one => one.state === state).length;
  return { ok: of('ok'), warn: of('warn'), fail: of('fail'), skipped: of('skipped') };
}

/** The problems once more, below everything that is good. */
function sum(report: Report, { fix, all }: Options): void {
  const { ok, warn, fail, skipped } = counted(report);
  const requests = report.requests > 0 ? ` and ${count(report.requests, 'request')} of the catalog` : '';
  const named = (state: State) => {
    const names = report.results.filter(one => one.state === state).map(nameOf);
    return names.length === 0 ? '' : `: ${[...new Set(names)].join(', ')}`;
  };
  say();
  say(`${fail} failed${named('fail')}`);
  say(`${count(warn, 'warning')}${named('warn')}`);
  say(
    `${ok} ok, ${skipped} skipped${all ? '' : ' (--all shows them)'}; ${count(report.credits, 'credit')}${requests} used.`,
  );
  if (!fix && report.results.some(one => one.fix !== null))
    say('Run `npx shelfdesk doctor --fix` to apply the safe fixes.');
}
