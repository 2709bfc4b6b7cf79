/** The clock of an edge before the help desk, which writes `Date` and stamps no record. */
import { between, type Rng } from '../../sandbox/src/random.ts';
import type { Plan } from './plan.ts';

/** A drift gets to the end of its way in this time. */
const driftsMs = 600_000;

/** How far it is ahead of the clock that stamps the records. */
export function edgeOf({ edge, edgeMs }: Plan, rng: Rng, now: () => number): () => number {
  const begunMs = now();
  const sinceMs = () => now() - begunMs;
  let jumped = { ms: 0, untilMs: 0 };
  return {
    right: () => 0,
    fixed: () => edgeMs,
    drifting: () => Math.round(edgeMs * Math.min(1, sinceMs() / driftsMs)),
    jumping() {
      if (sinceMs() >= jumped.untilMs)
        jumped = { ms: rng() < 0.4 ? 0 : between(rng, 0, edgeMs), untilMs: sinceMs() + between(rng, 5000, 120_000) };
      return jumped.ms;
    },
  }[edge];
}
