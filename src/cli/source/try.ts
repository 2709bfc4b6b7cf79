/** `source try`: asks the real service whether it does what its declaration says. */
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';
import type { Command } from 'commander';
import { systemClock } from '../../clock.ts';
import { fetchOver } from '../../engine/http/fetch.ts';
import { proxyFor } from '../../engine/http/proxies.ts';
import { openWays } from '../../engine/http/ways.ts';
import { exitCodes, UsageError } from '../../errors.ts';
import { fileOfSource, sources } from '../../sources/index.ts';
import { serviceOf } from '../../sources/service/service.ts';
import type { Finding, Weight } from '../../sources/try/finding.ts';
import type { Tried } from '../../sources/try/try.ts';
import { choiceOf, count } from '../../words.ts';
import { type Act, type Deps, jsonOption, note } from '../command.ts';
import { print, printJson, printLines, say, style } from '../output/terminal.ts';

export function addTrySource(source: Command, deps: Deps, act: Act): void {
  source
    .command('try')
    .description(
      'ask the service whether it does what its declaration says; nothing is stored, and no database is needed',
    )
    .argument('<name>', 'name of the source')
    .option(...jsonOption)
    .addHelpText(
      'after',
      note(
        'At most 20 requests a stream, within the declared limits. Exit codes: 0 nothing has to change, 1 the mirror would be wrong, 2 the service cannot be tried. Values of records are not shown, but for ids.',
      ),
    )
    .action(
      act(async (name: string, options: { json?: boolean }) => {
        const { source: chosen, service } = declared(name);
        const config = deps.config();
        const connection = chosen.connect(config);
        if (connection === undefined)
          throw new UsageError(`${chosen.label} is not configured`, `Set ${chosen.requires}.`);
        const path = fileOfSource(chosen);
        const { trySource } = await import('../../sources/try/try.ts');
        await using ways = openWays(config.proxies);
        const tried = await trySource({
          ...{ source: chosen, service, connection },
          file: {
            name: path && relative(process.cwd(), path),
            text: path === undefined ? '' : readFileSync(path, 'utf8'),
          },
          place: {
            ...{ label: chosen.label, address: connection.baseUrl, setting: chosen.address },
            proxy: proxyFor(connection.baseUrl, config.proxies),
          },
          ...{ fetch: fetchOver(ways, config.replyBytes), clock: systemClock, signal: deps.signal },
          onWait: (seconds, why) => say(`Waiting ${seconds} s: ${why}.`),
        });
        if (options.json) printJson(asJson(name, tried));
        else show(tried);
        return codeOf(tried);
      }),
    );
}

/** Throws UsageError for a source that is declared in another way, or not at all. */
export function declared(name: string) {
  const source = sources.find(one => one.name === name);
  const service = source && serviceOf(source);
  if (source !== undefined && service !== undefined) return { source, service };
  if (source !== undefined)
    throw new UsageError(
      `${source.label} is no source of your own, and is neither tried nor tested`,
      '`npx shelfdesk doctor` looks at the connection of each source, and `npx shelfdesk sandbox probe` asks a help desk how it behaves.',
    );
  const names = sources.filter(one => serviceOf(one)).map(one => one.name);
  throw new UsageError(
    `there is no source ${name}`,
    names.length > 0
      ? choiceOf(name, names)
      : 'SHELFDESK_SOURCES names no folder with one: see `npx shelfdesk source new`.',
  );
}

const ofWeight = ({ findings }: Tried, weight: Weight) => findings.filter(one => one.weight === weight);

/** Not all could be tried: no answer, or a stream that the key may not read. */
function codeOf(tried: Tried): number {
  if (ofWeight(tried, 'wrong').length > 0) return exitCodes.failed;
  const isWhole = tried.ended === undefined && ofWeight(tried, 'untried').length === 0;
  return isWhole ? exitCodes.ok : exitCodes.usage;
}

const asJson = (source: string, { findings, requests, ended }: Tried) => ({
  source,
  requests,
  ended: ended === undefined ? null : `${ended.message}. ${ended.remedy}`,
  findings: findings.map(({ weight, stream = null, what, at = null, change = null, tells = null }) => ({
    weight,
    stream,
    what,
    at,
    change,
    tells,
  })),
});

const colors = { wrong: 'red', note: 'yellow', seen: 'green', open: 'dim', untried: 'red' } as const;

function show(tried: Tried): void {
  for (const [stream, all] of Map.groupBy(tried.findings, one => one.stream)) {
    print(stream ?? 'the service');
    for (const one of all) showOne(one);
  }
  const [wrong, notes] = [ofWeight(tried, 'wrong').length, ofWeight(tried, 'note').length];
  if (tried.ended) {
    say(`${style('red', 'error:', process.stderr)} ${tried.ended.message}`);
    say(tried.ended.remedy);
  }
  const found =
    wrong > 0 ? `${count(wrong, 'finding')} would make the mirror wrong` : 'nothing would make the mirror wrong';
  say(`${count(tried.requests, 'request')}: ${found}${notes > 0 ? `, ${count(notes, 'note')}` : ''}.`);
}

function showOne({ weight, what, at, change }: Finding): void {
  printLines(what, `  ${style(colors[weight], weight.padEnd(7), process.stdout)}  `, '           ');
  const lines = change?.split('\n') ?? [];
  if (at !== undefined || lines.length > 0) printLines([at, lines[0]].filter(Boolean).join('  '), '           ');
  for (const line of lines.slice(1)) print(`           ${line}`);
}
