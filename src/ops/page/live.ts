/**
 * What changes is sent to those who look, as server-sent events: each part of a page whose HTML is another one than they
 * have. However many look at an account, it is read once for all of them, and not at all while nobody looks; a warehouse
 * that takes long to answer is asked less often.
 */
import type { Clock } from '../../clock.ts';
import type { Role } from './auth.ts';
import type { Parts } from './render/account.ts';
import { nameOf } from './render/layout.ts';

/** So often at most; and looking takes this part of the time at most. */
const lookMs = 2000;
const share = 5;
const heartbeatMs = 15_000;
/** Who does not take what is sent is left behind. */
export const mostListeners = 200;

export interface Listener {
  readonly role: Role;
  /** The parts that it has, by id: their names, see layout.ts. */
  readonly have: Map<string, string>;
  send(event: string, data: unknown): void;
  /** Keeps the connection alive. */
  beat(): void;
  /** False when it has no right to be told any more. */
  mayStay(): boolean;
  end(): void;
}

/** Reads once, and renders for each role that looks. */
export type Look = () => Promise<(role: Role) => Parts>;

export interface Live {
  /** False if there are too many already. `topic`: those of one topic look at the same. */
  listen(topic: string, look: Look, listener: Listener): boolean;
  leave(listener: Listener): void;
  /** Ends all connections. */
  close(): Promise<void>;
}

interface Topic {
  readonly listeners: Set<Listener>;
  readonly done: Promise<void>;
}

/** `failed`: what people are told of an error. */
export function makeLive(clock: Clock, failed: (error: unknown) => string): Live {
  const topics = new Map<string, Topic>();
  const closing = new AbortController();
  let listening = 0;

  async function keepLooking(name: string, look: Look, listeners: Set<Listener>): Promise<void> {
    let away: string | undefined;
    let beatenMs = clock.monotonic();
    while (listeners.size > 0 && !closing.signal.aborted) {
      const beganMs = clock.monotonic();
      try {
        const partsFor = await look();
        if (away !== undefined) each(listeners, one => one.send('back', {}));
        away = undefined;
        tell(listeners, partsFor);
      } catch (error) {
        const words = failed(error);
        // Also whoever has come meanwhile has to hear of it.
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
    listen(topic, look, listener) {
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
    leave(listener) {
      for (const { listeners } of topics.values()) if (listeners.delete(listener)) listening--;
    },
    async close() {
      closing.abort();
      for (const { listeners } of topics.values()) each(listeners, one => one.end());
      await Promise.all([...topics.values()].map(({ done }) => done));
    },
  };
}

/** Over a copy: one that is ended leaves. */
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
