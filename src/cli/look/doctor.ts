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
import { count, upperFirst } from '../../words.ts';
import { type Act, type Deps, note } from '../command.ts';
import { print, printJson, say, style } from '../output/terminal.ts';

interface Options {
  fix?: boolean;
  again?: boolean;
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
    .option('--again', 'measure again how the help desk behaves, and replace the stored results')
    .option('--json', 'print one JSON document on stdout')
    .action(
      act(async (options: Options) => {
        const around = {
          clock: systemClock,
          signal: deps.signal,
          folder: process.cwd(),
          look: lookAtSettings(),
          fleet: deps.fleet,
          again: options.again ?? false,
          node: process.versions.node,
          version: versionAndBuild(),
          host: hostname(),
          uid: process.getuid?.(),
        };
        const { show, end } = shower();
        const onResult = options.json ? () => {} : show;
        const report = await examine(around, checks, { fix: options.fix ?? false, onResult });
        end();
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

/** Prints results as they arrive, grouped by area. Skipped checks with the same cause share a line at the end of the area. */
function shower(): { show(result: Result): void; end(): void } {
  let area = '';
  const left = new Map<string, string[]>();
  const end = () => {
    for (const [because, names] of left)
      print(`  ${style('dim', `– not looked at, because of '${because}': ${names.join(', ')}`, process.stdout)}`);
    left.clear();
  };
  const show = (result: Result) => {
    if (result.area !== area) {
      end();
      print(`${area === '' ? '' : '\n'}${style('bold', upperFirst(result.area), process.stdout)}`);
    }
    area = result.area;
    const [mark, format] = marks[result.state];
    const whose = result.account === null || result.account === 'default' ? '' : ` (${result.account})`;
    const name = result.name + whose;
    if (result.because !== null) return void left.set(result.because, [...(left.get(result.because) ?? []), name]);
    print(`  ${style(format, mark, process.stdout)} ${name}: ${result.says}`);
    if (result.fixed !== null) print(`    Fixed: ${result.fixed}.`);
    if (result.remedy !== null) print(`    ${result.remedy}`);
    if (result.fix !== null && result.fixed === null) print(`    --fix would ${result.fix}.`);
  };
  return { show, end };
}

function counted({ results }: Report): Record<State, number> {
  const of = (state: State) => results.filter(one => one.state === state).length;
  return { ok: of('ok'), warn: of('warn'), fail: of('fail'), skipped: of('skipped') };
}

function sum(report: Report, { fix }: Options): void {
  const { ok, warn, fail, skipped } = counted(report);
  const requests = report.requests > 0 ? ` and ${count(report.requests, 'request')} of the catalog` : '';
  say(
    `\n${ok} ok, ${count(warn, 'warning')}, ${fail} failed, ${skipped} skipped; ${count(report.credits, 'credit')}${requests} used.`,
  );
  if (!fix && report.results.some(one => one.fix !== null))
    say('Run `npx shelfdesk doctor --fix` to apply the safe fixes.');
}
