/**
 * Servers of every kind that the documentation allows, workers that share one ledger, and other clients of the account, on a
 * virtual clock. The servers are written from what the documentation says of limits, not from the ledger.
 */
import {
  acquire,
  empty,
  type Lane,
  type RateHeaders,
  type Rules,
  type State,
  settle,
} from '../../src/engine/budget/ledger.ts';

export const rules: Rules = { credits: 100, periodMs: 60_000, requestsPerSecond: 6, reserve: 10, timeoutMs: 30_000 };

export interface ServerOptions {
  window: 'fixed' | 'sliding';
  /** Where the first fixed window begins, as a part of a period. */
  phase: number;
  /** What Reset means where the window slides: until the oldest credit comes back, or until all have. */
  resets: 'oldest' | 'all';
  rounding: 'ceil' | 'floor' | 'none';
  /** Whether a refused request is charged all the same. */
  chargesRefused: boolean;
  headers: boolean;
}
interface Answer {
  refused: boolean;
  headers: RateHeaders;
}

/** Counts credits over all clients, and requests in every sliding and every fixed second. */
function makeServer(options: ServerOptions, limits: Rules = rules) {
  const { credits, periodMs, requestsPerSecond } = limits;
  let uses: { atMs: number; cost: number }[] = [];
  let seconds: number[] = [];
  const windowStartMs = (nowMs: number) => {
    const offsetMs = options.phase * periodMs;
    return Math.floor((nowMs - offsetMs) / periodMs) * periodMs + offsetMs;
  };
  const resetMs = (nowMs: number) => {
    if (options.window === 'fixed') return windowStartMs(nowMs) + periodMs - nowMs;
    const [first, last] = [uses[0], uses.at(-1)];
    return Math.max(0, ((options.resets === 'oldest' ? first : last)?.atMs ?? nowMs - periodMs) + periodMs - nowMs);
  };
  return (nowMs: number, cost: number): Answer => {
    uses = uses.filter(use =>
      options.window === 'fixed' ? use.atMs >= windowStartMs(nowMs) : use.atMs > nowMs - periodMs,
    );
    seconds = seconds.filter(atMs => atMs > nowMs - 2000);
    const used = () => uses.reduce((sum, use) => sum + use.cost, 0);
    const sliding = seconds.filter(atMs => atMs > nowMs - 1000).length;
    const offsetMs = options.phase * 1000;
    const second = (ms: number) => Math.floor((ms - offsetMs) / 1000);
    const fixed = seconds.filter(atMs => second(atMs) === second(nowMs)).length;
    const refused = used() + cost > credits || sliding >= requestsPerSecond || fixed >= requestsPerSecond;
    if (!refused) seconds.push(nowMs);
    const charged = refused && !options.chargesRefused ? 0 : cost;
    if (charged > 0) uses.push({ atMs: nowMs, cost: charged });
    const round = { ceil: Math.ceil, floor: Math.floor, none: (n: number) => n }[options.rounding];
    const headers: RateHeaders = {
      limit: credits,
      remaining: Math.max(0, credits - used()),
      used: charged,
      resetSeconds: round(resetMs(nowMs) / 1000),
    };
    return { refused, headers: options.headers ? headers : {} };
  };
}

export interface Worker {
  lane: Lane;
  cost: number;
  /** Time between a reply and the next request. */
  pauseMs?: (random: () => number) => number;
}
export interface Scene {
  seed: number;
  hours: number;
  server: ServerOptions;
  workers: Worker[];
  /** Work that comes whatever becomes of the work before: when it comes next, and what it asks for, each once. */
  arrivals?: (random: () => number) => { afterMs: number; asks: Worker[] };
  /** Milliseconds from sending to reply. The server counts somewhere in between. */
  latencyMs: (random: () => number) => number;
  /** Another client: when it comes next, and what it costs. */
  other?: (random: () => number, nowMs: number) => { afterMs: number; cost: number };
  /** The part of the requests whose sender dies before the reply. */
  deaths?: number;
  /** How far the estimate of the database's clock may be off. */
  clockErrorMs?: number;
  rules?: Rules;
  /** Replaces parts of the ledger, to see that the tests would notice. */
  broken?: { settle?: typeof settle; acquire?: typeof acquire };
}
export interface Outcome {
  /** Of the credits that the rules leave to us, the part that was used. */
  utilisation: number;
  credits: Record<Lane, number>;
  longestWaitMs: Record<Lane, number>;
  /** How long each arrival waited for its credits. */
  waitsMs: number[];
  requests: number;
  refusedAtMs: number[];
  /** When requests were sent. */
  sentAtMs: number[];
  /** The most that others were taken to use. */
  others: number;
  /** What Reset said in each refusal, with its time. */
  resets: { repliedMs: number; resetSeconds: number | undefined }[];
  otherRequests: number;
  otherRefused: number;
  state: State;
}

export function play(scene: Scene): Outcome {
  const random = mulberry(scene.seed);
  const limits = scene.rules ?? rules;
  const server = makeServer(scene.server, limits);
  const step = { acquire, settle, ...scene.broken };
  const startMs = 1_700_000_000_000 + Math.floor(random() * 1e6);
  const endMs = startMs + scene.hours * 3_600_000;
  const out: Outcome = {
    utilisation: 0,
    credits: { interactive: 0, fresh: 0, backfill: 0, sweep: 0 },
    longestWaitMs: { interactive: 0, fresh: 0, backfill: 0, sweep: 0 },
    waitsMs: [],
    requests: 0,
    refusedAtMs: [],
    sentAtMs: [],
    others: 0,
    resets: [],
    otherRequests: 0,
    otherRefused: 0,
    state: empty,
  };
  const agenda: { atMs: number; run: (nowMs: number) => void }[] = [];
  const at = (atMs: number, run: (nowMs: number) => void) => agenda.push({ atMs, run });
  const moment = (nowMs: number) => {
    const errorMs = scene.clockErrorMs ?? 0;
    return { earliestMs: nowMs - random() * errorMs, latestMs: nowMs + random() * errorMs };
  };

  let ids = 0;
  const once = new Set<Worker>();
  const ask = (worker: Worker, id: string, sinceMs: number, unmarked?: number) => (nowMs: number) => {
    const wanted = { id, lane: worker.lane, cost: worker.cost, ...(unmarked !== undefined && { sinceMs: unmarked }) };
    const done = step.acquire(out.state, moment(nowMs), wanted, limits);
    out.state = done.state;
    if (!done.granted) {
      return at(Math.max(done.waitUntilMs, nowMs + 1), ask(worker, id, sinceMs, done.unmarked ?? unmarked));
    }
    out.longestWaitMs[worker.lane] = Math.max(out.longestWaitMs[worker.lane], nowMs - sinceMs);
    if (once.has(worker)) out.waitsMs.push(nowMs - sinceMs);
    send(worker, id, nowMs);
  };
  const begin = (worker: Worker) => (nowMs: number) => ask(worker, `${ids++}`, nowMs)(nowMs);
  // Nobody hears of a worker that dies; another one takes its place.
  const dies = () => scene.deaths !== undefined && random() < scene.deaths;
  const send = (worker: Worker, id: string, nowMs: number) => {
    const latencyMs = Math.min(scene.latencyMs(random), limits.timeoutMs);
    out.requests++;
    out.sentAtMs.push(nowMs);
    let answer: Answer;
    at(nowMs + random() * latencyMs, countedMs => {
      answer = server(countedMs, worker.cost);
      if (answer.refused) out.refusedAtMs.push(countedMs);
      else out.credits[worker.lane] += worker.cost;
    });
    at(nowMs + latencyMs, repliedMs => {
      if (dies()) return at(repliedMs, begin(worker));
      if (answer.refused) out.resets.push({ repliedMs, resetSeconds: answer.headers.resetSeconds });
      const lost = latencyMs === limits.timeoutMs;
      const reply = lost ? { headers: {}, refused: false } : answer;
      const done = step.settle(out.state, moment(repliedMs), id, reply, limits);
      out.state = done.state;
      out.others = Math.max(out.others, done.settled?.others ?? 0);
      if (!once.delete(worker)) at(repliedMs + (worker.pauseMs?.(random) ?? 0), begin(worker));
    });
  };
  const arrive = (asks: Worker[]) => (nowMs: number) => {
    for (const one of asks) {
      once.add(one);
      begin(one)(nowMs);
    }
    const next = scene.arrivals!(random);
    at(nowMs + next.afterMs, arrive(next.asks));
  };
  const intrude = (cost: number) => (nowMs: number) => {
    if (cost > 0) {
      out.otherRequests++;
      if (server(nowMs, cost).refused) out.otherRefused++;
    }
    const next = scene.other!(random, nowMs);
    at(nowMs + next.afterMs, intrude(next.cost));
  };

  for (const worker of scene.workers) at(startMs + random() * 1000, begin(worker));
  if (scene.arrivals) at(startMs, arrive([]));
  // Others were there before us.
  if (scene.other) at(startMs - 2 * limits.periodMs, intrude(0));
  while (agenda.length > 0) {
    let first = 0;
    for (let i = 1; i < agenda.length; i++) if (agenda[i]!.atMs < agenda[first]!.atMs) first = i;
    const [event] = agenda.splice(first, 1);
    if (event!.atMs >= endMs) break;
    event!.run(event!.atMs);
  }
  const used = Object.values(out.credits).reduce((a, b) => a + b, 0);
  const periods = (scene.hours * 3_600_000) / limits.periodMs;
  out.utilisation = used / ((limits.credits - limits.reserve) * periods);
  return out;
}

/** A small generator of random numbers, so that a seed replays a failure. */
function mulberry(seed: number): () => number {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), a | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
