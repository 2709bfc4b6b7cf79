/** The doctor's examination of settings that a test gives, in this process. */
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { lookAtSettings, readFleet } from '../../src/app/config.ts';
import { type Clock, systemClock } from '../../src/clock.ts';
import type { State } from '../../src/ops/doctor/checks/check.ts';
import { checks } from '../../src/ops/doctor/checks/index.ts';
import type { PlacedCheck } from '../../src/ops/doctor/doctor-context.ts';
import { examine, type Report, type Result } from '../../src/ops/doctor/run-checks.ts';

export interface Examined extends Report {
  /** The result of the check of this name, of the account that is named; the first where there are several. */
  of(name: string, account?: string): Result;
  states(): Partial<Record<State, string[]>>;
}

export interface Examining {
  folder?: string;
  fix?: boolean;
  again?: boolean;
  clock?: Clock;
  node?: string;
  host?: string;
  checks?: readonly PlacedCheck[];
  signal?: AbortSignal;
}

export async function examined(environment: Record<string, string>, options: Examining = {}): Promise<Examined> {
  const folder = options.folder ?? tmpdir();
  const around = {
    clock: options.clock ?? systemClock,
    signal: options.signal ?? new AbortController().signal,
    folder,
    look: lookAtSettings(folder, environment),
    fleet: () => readFleet(folder, environment),
    again: options.again ?? false,
    node: options.node ?? process.versions.node,
    version: '0.1.0',
    host: options.host ?? hostname(),
    uid: process.getuid?.(),
  };
  const report = await examine(around, options.checks ?? checks, { fix: options.fix ?? false });
  return {
    ...report,
    of(name, account) {
      const found = report.results.find(one => one.name === name && (account === undefined || one.account === account));
      if (found === undefined) throw new Error(`no check is named ${name}`);
      return found;
    },
    states() {
      const all: Partial<Record<State, string[]>> = {};
      for (const { name, state } of report.results) all[state] = [...(all[state] ?? []), name];
      return all;
    },
  };
}

/** Only these, with what they need before them. */
export function only(...names: string[]): readonly PlacedCheck[] {
  const wanted = new Set(names);
  for (const one of checks.toReversed()) if (wanted.has(one.name)) for (const need of one.needs ?? []) wanted.add(need);
  return checks.filter(({ name }) => wanted.has(name));
}

export async function someFolder(): Promise<{ path: string } & AsyncDisposable> {
  const path = await realpath(await mkdtemp(join(tmpdir(), `shelfdesk-tests-${process.pid}-`)));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
