/**
 * Runs the doctor's checks one after the other, each for all accounts concurrently. A check that throws counts as
 * failed; one that does not end is abandoned; one that needs a failed check is skipped with a reason. Secrets are
 * removed from all texts.
 */

import type { Config } from '../../app/config.ts';
import { ShelfdeskError, unlessMoved } from '../../errors.ts';
import { OpenStack } from '../../open-stack.ts';
import { sources } from '../../sources/index.ts';
import type { Source } from '../../sources/source.ts';
import { type Answer, type Finding, fail, type State, skipped } from './checks/check.ts';
import { allSecrets } from './checks/settings.ts';
import {
  type AccountContext,
  createAccountContext,
  createDoctorContext,
  type DoctorContext,
  type DoctorEnvironment,
  type PlacedCheck,
} from './doctor-context.ts';

export interface Result {
  readonly area: string;
  readonly name: string;
  /** Null: all accounts. */
  readonly account: string | null;
  readonly state: State;
  readonly says: string;
  readonly remedy: string | null;
  /** The failed check because of which this one was skipped. */
  readonly because: string | null;
  /** What `--fix` would do. */
  readonly fix: string | null;
  /** What `--fix` did. */
  readonly fixed: string | null;
}

export interface Report {
  readonly results: readonly Result[];
  /** Used quota of the sources, by the unit of their limits. */
  readonly credits: number;
  readonly requests: number;
}

/** Long enough for a request that waits for the credits of the next minute. */
const patienceMs = 75_000;
/** A shorter secret would match any text by chance. */
const leastSecret = 4;

export async function examine(
  around: DoctorEnvironment,
  checks: readonly PlacedCheck[],
  { fix = false, onResult = () => {} }: { fix?: boolean; onResult?: (result: Result) => void } = {},
): Promise<Report> {
  const over = new AbortController();
  const signal = AbortSignal.any([around.signal, over.signal]);
  await using stack = new OpenStack();
  // Aborts abandoned checks, so that everything can be closed.
  stack.defer(() => over.abort(new Error('the examination is over')));
  const context = createDoctorContext({ ...around, signal }, stack);
  const accounts = new Map<Config, AccountContext>();
  for (const config of context.fleetIfAny?.accounts ?? [])
    accounts.set(config, createAccountContext(context, config, stack));
  const results: Result[] = [];
  const worst = new Map<string, State>();
  const clean = cleaner(context);

  /** Reason of a skipped check: its first needed check that did not pass, and the root cause of that one. */
  const roots = new Map<string, string>();
  const hindrance = ({ needs = [] }: PlacedCheck, account: string | null): string | undefined => {
    const keysOf = (name: string) => [keyOf(name, account), keyOf(name, null)];
    const bad = needs.find(name => {
      const key = keysOf(name).find(one => worst.has(one));
      return key === undefined || rank[worst.get(key)!] > rank.warn;
    });
    return bad && (keysOf(bad).flatMap(key => roots.get(key) ?? [])[0] ?? bad);
  };

  async function make(
    check: PlacedCheck,
    account: string | null,
    run: () => Promise<Answer> | Answer,
  ): Promise<Result[]> {
    const missing = hindrance(check, account);
    if (missing !== undefined) return [leaveOut(check, account, missing)];
    const look = async () => [await inTime(around, run)].flat();
    const found = await look();
    const fixes = new Set(found.flatMap(one => one.fix ?? []));
    if (!fix || fixes.size === 0) return found.map(one => tell(check, account, one));
    const done: string[] = [];
    for (const one of fixes) done.push(await attempt(one.do));
    return (await look()).map((one, i) => tell(check, account, one, i === 0 ? done.join('; ') : null));
  }

  function leaveOut(check: PlacedCheck, account: string | null, because: string): Result {
    roots.set(keyOf(check.name, account), because);
    return { ...tell(check, account, skipped(`not looked at, because of '${because}'`)), because };
  }

  function tell(check: PlacedCheck, account: string | null, finding: Finding, fixed: string | null = null): Result {
    const { state, says, remedy = null, fix: mend } = finding;
    return {
      ...{ area: check.area, name: check.name, account, state, says: clean(says.replace(/\.$/, '')) },
      remedy: remedy && clean(remedy),
      because: null,
      fix: mend?.says ?? null,
      fixed: fixed && clean(fixed),
    };
  }

  for (const check of checks) {
    around.signal.throwIfAborted();
    const made =
      check.of === 'account'
        ? await Promise.all([...accounts.values()].map(one => make(check, one.account, () => check.run(one))))
        : await make(check, null, () => check.run(context));
    // Unreadable settings name no account.
    const all = check.of === 'account' && accounts.size === 0 ? [leaveOut(check, null, 'settings')] : made.flat();
    for (const result of all) {
      const key = keyOf(check.name, result.account);
      if (rank[result.state] > rank[worst.get(key) ?? 'ok'] || !worst.has(key)) worst.set(key, result.state);
      results.push(result);
      onResult(result);
    }
  }
  const all = [...accounts.values()];
  return { results, credits: usedIn('credit', all), requests: usedIn('request', all) };
}

const usedIn = (unit: Source['unit'], accounts: readonly AccountContext[]): number =>
  sources
    .filter(source => source.unit === unit)
    .flatMap(({ name }) => accounts.map(one => one.used(name)))
    .reduce((sum, used) => sum + used, 0);

const rank: Record<State, number> = { ok: 0, warn: 1, skipped: 2, fail: 3 };
const keyOf = (name: string, account: string | null) => `${account ?? ''}\n${name}`;

/** An exception of a check that is no ShelfdeskError is a bug of the check. */
async function inTime(
  { clock, signal }: Pick<DoctorEnvironment, 'clock' | 'signal'>,
  run: () => Promise<Answer> | Answer,
): Promise<Answer> {
  const ended = new AbortController();
  const late = clock.sleep(patienceMs, AbortSignal.any([ended.signal, signal])).then(
    () => fail(`no answer within ${patienceMs / 1000} s`, 'Run it again; if it lasts, look at what it asks.'),
    () => fail('it was interrupted', 'Run `npx shelfdesk doctor` again.'),
  );
  try {
    return await Promise.race([Promise.resolve().then(run), late]);
  } catch (thrown) {
    signal.throwIfAborted();
    const error = unlessMoved(thrown);
    if (error instanceof ShelfdeskError) return fail(error.message, error.remedy);
    const what = error instanceof Error ? error.message || error.name : String(error);
    return fail(`the check itself failed: ${what}`, 'Run it again; if it lasts, please report it.');
  } finally {
    ended.abort();
  }
}

async function attempt(work: () => Promise<string>): Promise<string> {
  try {
    return await work();
  } catch (error) {
    return `could not be done: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function cleaner(context: DoctorContext): (text: string) => string {
  const secrets = allSecrets(context)
    .filter(({ length }) => length >= leastSecret)
    .sort((a, b) => b.length - a.length);
  return text => secrets.reduce((shown, secret) => shown.replaceAll(secret, '…'), text);
}
