/**
 * Sends changed parts of a page to its visitors, as server-sent events. All visitors of an account share one query, and
 * without visitors there is none. A slow warehouse is queried less often.
 */
import type { Clock } from '../../clock.ts';
import type { Role } from './auth.ts';
import type { Parts } from './render/account.ts';
import { nameOf } from './render/layout.ts';

/** Shortest interval between two queries. It grows with the duration of a query. */
const lookMs = 2000;
const share = 5;
const heartbeatMs = 15_000;
/** Most listeners. Further ones are refused. */
// @internal Tests listen as often, and once more.
export const mostListeners = 200;

export interface Listener {
  readonly role: Role;
  /** Hashes of the parts that the listener has, by part id; see layout.ts. */
  readonly have: Map<string, string>;
  send(event: string, data: unknown): void;
  /** Keeps the connection alive. */
  beat(): void;
  /** False once the listener has lost its access. */
  mayStay(): boolean;
  end(): void;
}

/** Reads once, and renders for each role among the listeners. */
export type Look = () => Promise<(role: Role) => Parts>;

export type Live = ReturnType<typeof makeLive>;

interface Topic {
  readonly listeners: Set<Listener>;
  readonly done: Promise<void>;
}

/** `failed`: the text that visitors see for an error. `refresh`: runs before the check whether listeners may stay. */
export function makeLive(
  clock: Clock,
  { failed, refresh }: { failed: (error: unknown) => string; refresh: () => Promise<void> },
) {
  const topics = new Map<string, Topic>();
  const closing = new AbortController();
  let listening = 0;

  async function keepLooking(name: string, look: Look, listeners: Set<Listener>): Promise<void> {
    let away: string | undefined;
    let beatenMs = clock.monotonic();
    while (listeners.size > 0 && !closing.signal.aborted) {
      const beganMs = clock.monotonic();
      try {
        await refresh();
        const partsFor = await look();
        if (away !== undefined) each(listeners, one => one.send('back', {}));
        away = undefined;
        tell(listeners, partsFor);
      } catch (error) {
        const words = failed(error);
        // New listeners need the news of the outage as well.
        each(listeners, one => one.send('away', words));
        away = words;
      }
      each(listeners, one => !one.mayStay() && one.end());
      const nowMs = clock.monotonic();
      if (nowMs - beatenMs >= heartbeatMs) {
        each(listeners, one => one.beat());
        beatenMs = nowMs;
      }
      await clock.sleep(Math.max(lookMs, (nowMs - beganMs) * share), closing.signal).catch(() => {});
    }
    topics.delete(name);
  }

  return {
    /** False if there are too many listeners. Listeners of one `topic` share queries. */
    listen(topic: string, look: Look, listener: Listener): boolean {
      if (listening >= mostListeners || closing.signal.aborted) return false;
      listening++;
      const known = topics.get(topic);
      if (known) known.listeners.add(listener);
      else {
        const listeners = new Set([listener]);
        topics.set(topic, { listeners, done: keepLooking(topic, look, listeners) });
      }
      return true;
    },
    leave(listener: Listener): void {
      for (const { listeners } of topics.values()) if (listeners.delete(listener)) listening--;
    },
    /** Ends all connections. */
    async close(): Promise<void> {
      closing.abort();
      for (const { listeners } of topics.values()) each(listeners, one => one.end());
      await Promise.all([...topics.values()].map(({ done }) => done));
    },
  };
}

/** Iterates over a copy, because a listener that ends removes itself. */
function each(listeners: ReadonlySet<Listener>, act: (one: Listener) => unknown): void {
  for (const one of [...listeners]) act(one);
}

function tell(listeners: ReadonlySet<Listener>, partsFor: (role: Role) => Parts): void {
  const rendered = new Map<Role, [string, string, string][]>();
  for (const listener of [...listeners]) {
    const { role, have } = listener;
    let parts = rendered.get(role);
    if (parts === undefined) {
      parts = Object.entries(partsFor(role)).map(([id, { html }]) => [id, html, nameOf(html)]);
      rendered.set(role, parts);
    }
    for (const [id, html, name] of parts) {
      if (have.get(id) === name) continue;
      have.set(id, name);
      listener.send('part', { id, html, name });
    }
  }
}
