/**
 * Tests the declaration of a source: the real engine mirrors a service that is true to it, in each way in which such a service may
 * behave. What goes wrong refutes the declaration, with the shortest story.
 */
import { migrate, ownSql } from '../engine/database/migrate.ts';
import type { Dialect } from '../engine/http/dialect.ts';
import { OpenStack } from '../open-stack.ts';
import { lookbackSecondsOf, type Service, serviceOf } from '../sources/service/service.ts';
import type { Source } from '../sources/source.ts';
import { count, duration } from '../words.ts';
import { type AllTold, allowedCases, limitCases, otherCases } from './behaviour.ts';
import { headersOf, misread } from './gate.ts';
import type { Finding, Wrong } from './judge.ts';
import { type Meaning, meaningsOf } from './meaning.ts';
import { connectionTo, openGround } from './mirror.ts';
import { type Line, type Played, play, type Script } from './play.ts';
import { limitScriptOf, scriptOf, withSmallPages } from './script.ts';
import { serve } from './server.ts';
import { shortest } from './shrink.ts';

export interface Refutation {
  readonly stream: string;
  readonly wrong: Wrong;
  readonly says: string;
  /** How the service behaves when it goes wrong. */
  readonly when: string;
  readonly seed: number;
  readonly story: readonly Line[];
}

/** A stream of the declaration, and what became of it. */
interface Verdict {
  readonly stream: string;
  readonly kind: string;
  /** What the test understood that the declaration does not say. */
  readonly notes: readonly string[];
  /** In all plays, as the declaration allows them. */
  readonly wrong: Readonly<Record<Wrong, number>>;
  /** Of a declaration that is right: what the service may not do, and the records that are wrong if it does; 0: it does not matter. */
  readonly restsOn: readonly { readonly says: string; readonly wrong: number }[];
}

export interface Tested {
  readonly source: string;
  readonly isRight: boolean;
  readonly plays: number;
  readonly requests: number;
  readonly streams: readonly Verdict[];
  readonly limits: {
    /** Requests that the service has refused at its limits, in all plays. */
    readonly refusals: number;
    /** What refutes the declaration. */
    readonly wrong: readonly string[];
    readonly restsOn: readonly string[];
  };
  readonly refutations: readonly Refutation[];
}

interface Options {
  /** Of an empty database. */
  readonly url: string;
  readonly told?: AllTold;
  readonly seed?: number;
  readonly seeds?: number;
  readonly signal?: AbortSignal;
  /** Told of each step. */
  readonly tell?: (says: string) => void;
}

/** Each case has a world of its own. */
const othersAt = 1000;
/** A world may have nothing that a behaviour loses. */
const worldsOfOthers = 2;

/** `source`: one that `defineService` has made. */
export async function testSource(
  source: Source,
  { url, told = {}, seed = 1, seeds = 1, signal, tell = () => {} }: Options,
): Promise<Tested> {
  const declared = serviceOf(source)!;
  await using stack = new OpenStack();
  const small = withSmallPages(declared);
  await migrate(url, ownSql, [small]);
  const ground = stack.use(await openGround(url));
  const served = stack.use(await serve());
  const meanings = meaningsOf(serviceOf(small)!);
  let plays = 0;
  let requests = 0;
  let refusals = 0;
  const run = async (script: Script): Promise<Played> => {
    signal?.throwIfAborted();
    const played = await play(
      { source: small, ground, served, told, signal, nextAccount: () => `play${++plays}` },
      script,
    );
    requests += played.requests;
    refusals += played.gate.refusals;
    return played;
  };

  const counts = new Map(meanings.map(({ name }) => [name, { lost: 0, stale: 0, phantom: 0, doubled: 0, failed: 0 }]));
  const refutations: Refutation[] = [];
  const lookbackMs = lookbackSecondsOf(declared) * 1000;
  for (let n = seed; n < seed + seeds; n++)
    for (const [i, { says, behaviour }] of allowedCases(lookbackMs).entries()) {
      const open = meanings.filter(({ name }) => !refutations.some(({ stream }) => stream === name));
      if (open.length === 0) break;
      tell(`${says}, seed ${n}`);
      const script = scriptOf(n + i * othersAt, withParents(open, meanings), behaviour);
      const played = await run(script);
      const found = causes(played.findings, meanings);
      for (const { stream, wrong } of found) counts.get(stream)![wrong]++;
      for (const stream of new Set(found.map(one => one.stream))) {
        if (refutations.some(one => one.stream === stream)) continue;
        tell(`${stream}: the shortest story`);
        const first = { script, played, finding: found.find(one => one.stream === stream)! };
        const { finding, played: last } = await shortest(run, meanings, first);
        refutations.push({ stream, wrong: finding.wrong, says: finding.says, when: says, seed: n, story: last.story });
      }
    }
  const alone = refusals;
  const limits = await tryLimits(run, {
    seed,
    meanings,
    alone,
    limits: declared.limits,
    dialect: connectionTo(source, served.url, '').dialect,
  });
  const restsOn = new Map<string, Verdict['restsOn'][number][]>();
  const isRight = refutations.length === 0 && limits.wrong.length === 0;
  for (const meaning of isRight ? meanings : []) {
    for (const one of otherCases(meaning, lookbackMs, told[meaning.name])) {
      tell(`${meaning.name}: ${one.says}`);
      let wrong = 0;
      for (let n = seed; n < seed + worldsOfOthers && wrong === 0; n++) {
        const { findings } = await run(scriptOf(n, withParents([meaning], meanings), one.behaviour));
        wrong = findings.filter(({ stream }) => stream === meaning.name).length;
      }
      restsOn.set(meaning.name, [...(restsOn.get(meaning.name) ?? []), { says: one.says, wrong }]);
    }
  }
  return {
    ...{ source: source.name, isRight },
    ...{ plays, requests, refutations, limits: { refusals, ...limits } },
    streams: meanings.map(({ name, stream, notes }) => ({
      ...{ stream: name, kind: stream.kind, notes, wrong: counts.get(name)! },
      restsOn: restsOn.get(name) ?? [],
    })),
  };
}

/** A service may begin a period a little later than its clock and ours say. */
const longestIdleMs = 300_000;

/** Others use the account as well: whether the mirror keeps within the limits that the service tells of. */
async function tryLimits(
  run: (script: Script) => Promise<Played>,
  {
    seed,
    meanings,
    limits,
    dialect,
    alone,
  }: Pick<Service<string>, 'limits'> & {
    readonly seed: number;
    readonly meanings: readonly Meaning[];
    readonly dialect: Dialect;
    /** Refusals in the plays before. */
    readonly alone: number;
  },
): Promise<Omit<Tested['limits'], 'refusals'>> {
  const headers = headersOf(limits, dialect);
  const knowsEnd = limits.some(({ resets }) => resets !== undefined) || [...headers.values()].includes('resets');
  const wrong =
    alone > 0 ? [`${count(alone, 'request')} refused at the declared limits, although nobody else uses them`] : [];
  const restsOn: string[] = [];
  for (const [n, { says, behaviour }] of limitCases(headers).entries()) {
    if (wrong.length > 0) break;
    const { refusals, idleMs } = (await run(limitScriptOf(seed, meanings, behaviour))).gate;
    const found = [
      ...(refusals > 0 ? [`${count(refusals, 'request')} refused at the limit`] : []),
      ...(knowsEnd && idleMs > longestIdleMs ? [`a wait that is ${duration(idleMs / 1000)} too long`] : []),
    ];
    const names = misread(limits, headers).map(one => `. ${one}`);
    if (n === 0) wrong.push(...found.map(one => `${says}: ${one}${names.join('')}`));
    else if (found.length > 0) restsOn.push(`${says} (${found.join(', ')})`);
  }
  return { wrong, restsOn };
}

/** Streams with the streams that they need. */
function withParents(some: readonly Meaning[], all: readonly Meaning[]): Meaning[] {
  const names = new Set(
    some.flatMap(({ name, stream, instead }) => [
      name,
      ...(stream.kind === 'details' ? [stream.options.parent] : []),
      ...(instead === undefined ? [] : [instead]),
      ...(stream.kind === 'feed' && stream.options.deletes !== undefined ? targetsOf(stream.options.deletes) : []),
    ]),
  );
  return all.filter(({ name }) => names.has(name));
}

const targetsOf = ({ of }: { readonly of: unknown }): string[] =>
  typeof of === 'string' ? [of] : Object.values(of as Record<string, string>);

/** Details of a record that is wrong are wrong as well, and no finding of their own. */
const causes = (findings: readonly Finding[], meanings: readonly Meaning[]): Finding[] =>
  findings.filter(({ stream: name, id }) => {
    const meaning = meanings.find(one => one.name === name)!;
    const parent = meaning.stream.kind === 'details' ? meaning.stream.options.parent : undefined;
    return parent === undefined || !findings.some(one => one.stream === parent && one.id === id.split(' ')[0]);
  });
