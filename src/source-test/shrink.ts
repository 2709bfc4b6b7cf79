/** The shortest story: fewer streams, phases, records and events, as long as the same goes wrong. */
import type { Finding } from './judge.ts';
import type { Meaning } from './meaning.ts';
import type { Event, Played, Script } from './play.ts';

export interface Told {
  readonly script: Script;
  readonly played: Played;
  readonly finding: Finding;
}

/** `run` plays a script. `first`: a play that went wrong. */
export async function shortest(
  run: (script: Script) => Promise<Played>,
  meanings: readonly Meaning[],
  first: Told,
): Promise<Told> {
  let best = first;
  const { stream, wrong } = first.finding;
  const tries = async (change: Partial<Script>): Promise<boolean> => {
    const script = { ...best.script, ...change };
    const played = await run({
      ...script,
      events: script.events.filter(event => script.streams.includes(event.stream)),
    });
    const finding = played.findings.find(one => one.stream === stream && one.wrong === wrong);
    if (finding !== undefined) best = { script, played, finding };
    return finding !== undefined;
  };
  const needed = [stream, ...parentsOf(meanings, stream)];
  await tries({ streams: best.script.streams.filter(name => needed.includes(name)) });
  await tries({ phases: ['first', 'second', 'third', 'still'] });
  for (const records of [1, 3, best.script.tie + 2]) if (await tries({ records })) break;
  best = { ...best, script: { ...best.script, events: ofStreams(best.script) } };
  for (let size = best.script.events.length; size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let from = 0; from < best.script.events.length; ) {
      const { events } = best.script;
      if (!(await tries({ events: without(events, from, from + size) }))) from += size;
    }
  }
  for (const records of [1, 3]) if (records < best.script.records && (await tries({ records }))) break;
  for (const phase of ['third', 'second', 'sweep'] as const)
    if (best.script.phases.includes(phase))
      await tries({
        phases: best.script.phases.filter(one => one !== phase),
        events: best.script.events.filter(event => event.phase !== phase),
      });
  return best;
}

/** A request that does not fail is one less: what comes behind it comes earlier. */
function without(events: readonly Event[], from: number, to: number): Event[] {
  const faults = events.slice(from, to).filter(({ what }) => typeof what === 'string');
  return [...events.slice(0, from), ...events.slice(to)].map(event => {
    const fewer = faults.filter(one => one.stream === event.stream && one.phase === event.phase && one.at < event.at);
    return { ...event, at: event.at - fewer.length };
  });
}

const ofStreams = ({ events, streams }: Script): Event[] => events.filter(({ stream }) => streams.includes(stream));

const parentsOf = (meanings: readonly Meaning[], name: string): string[] =>
  meanings.flatMap(({ stream, instead, name: own }) => [
    ...(own === name && stream.kind === 'details' ? [stream.options.parent] : []),
    ...(own === name && instead !== undefined ? [instead] : []),
  ]);
