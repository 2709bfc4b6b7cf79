/** `rejects list | show | replay | drift`: lists rejected records, stores them from their saved payloads, and lists drift. */
import type { Command } from 'commander';
import { systemClock } from '../../clock.ts';
import { listDrift, listRejectGroups, listRejects, readReject } from '../../engine/commit/rejects.ts';
import { replay } from '../../engine/load/replay.ts';
import { command } from '../../engine/runs/pauses.ts';
import { exitCodes, ShelfdeskError } from '../../errors.ts';
import { streams } from '../../sources/index.ts';
import { parseNumber } from '../arguments.ts';
import { openChosen } from '../choose-account.ts';
import { type Act, type Deps, jsonOption } from '../command.ts';
import { cellText, print, printJson, printList, say } from '../output/terminal.ts';

interface Asked {
  all?: boolean;
  json?: boolean;
}

export function addRejects(program: Command, deps: Deps, act: Act): void {
  const rejects = program
    .command('rejects')
    .summary('list, show and replay rejected records; list drift')
    .description('rejected records and their reasons, and drift: where the source differs from its documentation');
  rejects
    .command('list')
    .description('list records that could not be stored, and tickets whose messages could not be read')
    .option('--all', 'include cleared rejects')
    .option(...jsonOption)
    .action(act((asked: Asked) => list(deps, asked)));
  rejects
    .command('show')
    .description('show the details of a reject and its payload')
    .argument('<id>', 'number in `rejects list`', number)
    .option(...jsonOption)
    .action(act((id: number, asked: Asked) => show(deps, id, asked)));
  rejects
    .command('replay')
    .description(
      'store rejects from their saved payloads, without a request; for use after an upgrade or a database change',
    )
    .argument('[ids...]', 'numbers in `rejects list` (default: all open rejects)', numbers)
    .option(...jsonOption)
    .action(act((ids: number[], asked: Asked) => replayAll(deps, ids, asked)));
  rejects
    .command('drift')
    .summary('list differences from the documentation')
    .description('list unknown fields, unknown values and wrong types, each with its count and a sample record')
    .option(...jsonOption)
    .action(act((asked: Asked) => drift(deps, asked)));
}

async function list(deps: Deps, asked: Asked): Promise<void> {
  await using opened = await openChosen(deps);
  const { account, db } = opened;
  if (!asked.json) for (const { stream, says } of await listRejectGroups(db, account)) say(`${stream}: ${says}`);
  const columns = ['reject', 'stream', 'record', 'tried', 'last', 'next try', 'reason'];
  printList(await listRejects(db, account, asked), asked, {
    none: 'No open rejects.',
    columns: asked.all ? [...columns, 'cleared'] : columns,
    row: one => [
      ...[one.id, one.stream, one.key, one.attempts, one.last_seen_at],
      ...[one.next_try_at ?? 'not by itself', one.reason],
      ...(asked.all ? [one.cleared_at ?? 'open'] : []),
    ],
  });
}

async function show(deps: Deps, id: number, { json }: Asked): Promise<void> {
  await using opened = await openChosen(deps);
  const { account, db } = opened;
  const found = await readReject(db, account, id);
  if (found === undefined) throw unknown(account, id);
  if (json) return printJson(found);
  const { payload, ...rest } = found;
  for (const [name, value] of Object.entries(rest)) if (value !== null) say(`${name.padEnd(13)}  ${cellText(value)}`);
  if (payload === null) say('No payload was saved.');
  else print(payload);
}

async function replayAll(deps: Deps, ids: readonly number[], asked: Asked): Promise<number> {
  await using opened = await openChosen(deps);
  const { account, db } = opened;
  const all = await listRejects(db, account);
  const missing = ids.find(id => all.every(one => one.id !== id));
  if (missing !== undefined) throw unknown(account, missing, 'open ');
  const result = [];
  for (const { id, stream, key } of all.filter(one => ids.length === 0 || ids.includes(one.id))) {
    deps.signal.throwIfAborted();
    const reason = await replay({ pg: db, account, clock: systemClock }, streams, id);
    result.push({ id, stream, record: key, stored: reason === undefined, reason: reason ?? null });
  }
  printList(result, asked, {
    columns: ['reject', 'stream', 'record', 'stored', 'why not'],
    row: one => [one.id, one.stream, one.record, one.stored ? 'yes' : 'no', one.reason],
  });
  const left = result.filter(({ stored }) => !stored).length;
  say(`${result.length - left} stored, ${left} still rejected.`);
  return left > 0 ? exitCodes.partial : exitCodes.ok;
}

async function drift(deps: Deps, asked: Asked): Promise<void> {
  await using opened = await openChosen(deps);
  printList(await listDrift(opened.db, opened.account), asked, {
    none: 'No differences.',
    columns: ['stream', 'kind', 'path', 'value', 'seen', 'first', 'last', 'sample'],
    row: Object.values,
  });
}

const number = parseNumber('the number of a reject');

const numbers = (text: string, before: number[] | undefined) => [...(before ?? []), number(text)];

const unknown = (account: string, id: number, kind = '') =>
  new ShelfdeskError(
    `there is no ${kind}reject ${id}`,
    `See ${command(account, 'rejects list')}; add --all to include cleared rejects.`,
  );
