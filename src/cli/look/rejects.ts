/** `rejects list | show | replay`: lists rejected records and stores them from their saved payloads. */
import { type Command, InvalidArgumentError } from 'commander';
import { systemClock } from '../../clock.ts';
import { listRejectGroups, listRejects, readReject, type StoredReject } from '../../engine/commit/rejects.ts';
import { replay } from '../../engine/load/replay.ts';
import { command } from '../../engine/runs/pauses.ts';
import { exitCodes, ShelfdeskError } from '../../errors.ts';
import { streams } from '../../sources/index.ts';
import { openChosen } from '../choose-account.ts';
import { type Act, type Deps, jsonOption } from '../command.ts';
import { cellText, print, printJson, say, table } from '../output/terminal.ts';
import { driftIn } from './drift.ts';

export interface Replayed {
  id: number;
  stream: string;
  record: string;
  stored: boolean;
  reason: string | null;
}

export function addRejects(program: Command, deps: Deps, act: Act): void {
  const rejects = program
    .command('rejects')
    .summary('list, show and replay rejected records; list drift')
    .description('rejected records and their reasons, and drift: where the source differs from its documentation');
  const open = async () => {
    const opened = await openChosen(deps);
    const { config, warehouse } = opened;
    return { ...config, warehouse, [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose]() };
  };
  rejects
    .command('list')
    .description('list records that could not be stored, and tickets whose messages could not be read')
    .option('--all', 'include cleared rejects')
    .option(...jsonOption)
    .action(
      act(async (options: { all?: boolean; json?: boolean }) => {
        await using opened = await open();
        const found = await listRejects(opened.warehouse.pg, opened.account, options);
        if (options.json) printJson(found);
        else {
          for (const { stream, says } of await listRejectGroups(opened.warehouse.pg, opened.account))
            say(`${stream}: ${says}`);
          print(list(found, options));
        }
        if (found.length === 0) say('No open rejects.');
      }),
    );
  rejects
    .command('show')
    .description('show the details of a reject and its payload')
    .argument('<id>', 'number in `rejects list`', number)
    .option(...jsonOption)
    .action(
      act(async (id: number, options: { json?: boolean }) => {
        await using opened = await open();
        const found = await readReject(opened.warehouse.pg, opened.account, id);
        if (found === undefined) throw unknown(opened.account, id);
        if (options.json) printJson(found);
        else show(found);
      }),
    );
  rejects
    .command('replay')
    .description(
      'store rejects from their saved payloads, without a request; for use after an upgrade or a database change',
    )
    .argument('[ids...]', 'numbers in `rejects list` (default: all open rejects)', numbers)
    .option(...jsonOption)
    .action(
      act(async (ids: number[], options: { json?: boolean }) => {
        await using opened = await open();
        const { account, warehouse } = opened;
        const all = await listRejects(warehouse.pg, account);
        const missing = ids.find(id => all.every(one => one.id !== id));
        if (missing !== undefined) throw unknown(account, missing, 'open ');
        const result: Replayed[] = [];
        for (const { id, stream, key } of all.filter(one => ids.length === 0 || ids.includes(one.id))) {
          deps.signal.throwIfAborted();
          const reason = await replay({ pg: warehouse.pg, account, clock: systemClock }, streams, id);
          result.push({ id, stream, record: key, stored: reason === undefined, reason: reason ?? null });
        }
        if (options.json) printJson(result);
        else
          print(
            table(
              ['reject', 'stream', 'record', 'stored', 'why not'],
              result.map(({ id, stream, record, stored, reason }) => [
                id,
                stream,
                record,
                stored ? 'yes' : 'no',
                reason,
              ]),
            ),
          );
        const left = result.filter(({ stored }) => !stored).length;
        say(`${result.length - left} stored, ${left} still rejected.`);
        return left > 0 ? exitCodes.partial : exitCodes.ok;
      }),
    );
  driftIn(rejects, deps, act);
}

function number(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be the number of a reject.');
}

const numbers = (text: string, before: number[] | undefined) => [...(before ?? []), number(text)];

const unknown = (account: string, id: number, kind = '') =>
  new ShelfdeskError(
    `there is no ${kind}reject ${id}`,
    `See ${command(account, 'rejects list')}; add --all to include cleared rejects.`,
    exitCodes.failed,
  );

function list(found: readonly StoredReject[], { all = false }): string {
  const columns = ['reject', 'stream', 'record', 'tried', 'last', 'next try', 'reason'];
  const rows = found.map(one => [
    one.id,
    one.stream,
    one.key,
    one.attempts,
    one.last_seen_at,
    one.next_try_at ?? 'not by itself',
    one.reason,
    ...(all ? [one.cleared_at ?? 'open'] : []),
  ]);
  return table(all ? [...columns, 'cleared'] : columns, rows);
}

function show({ payload, ...rest }: StoredReject): void {
  for (const [name, value] of Object.entries(rest)) if (value !== null) say(`${name.padEnd(13)}  ${cellText(value)}`);
  if (payload === null) say('No payload was saved.');
  else print(payload);
}
