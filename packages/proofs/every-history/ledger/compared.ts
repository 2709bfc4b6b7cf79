/**
 * A ledger whose every answer is compared with that of the plain one. What the judge asks of it is compared as well, and nobody
 * looks into its fields.
 */
import { isDeepStrictEqual } from 'node:util';
import type { State } from '../../../../src/engine/budget/ledger.ts';
import * as plain from './plain.ts';
import type { Ledger } from './steps.ts';

/** What has led to a state stands beside what the ledger made of it. */
const log = Symbol('log');
type Logged = State & { [log]?: plain.Log };

export interface Compared extends Ledger {
  /** The first answer that was not that of the plain ledger. */
  difference(): string | undefined;
}

export function compared(ledger: Ledger): Compared {
  const logOf = (state: Logged) => state[log] ?? plain.nothing;
  let first: string | undefined;
  const compare = (what: string, is: unknown, must: unknown) => {
    if (first !== undefined || isDeepStrictEqual(is, must)) return;
    first = `${what}: ${JSON.stringify(is)}, and must be ${JSON.stringify(must)}`;
  };
  const keep = (state: Logged, kept: plain.Log): State => Object.assign(state, { [log]: kept });
  return {
    empty: ledger.empty,
    difference: () => first,
    acquire(before, now, ask, rules) {
      const done = ledger.acquire(before, now, ask, rules);
      const { log: kept, told } = plain.ask(logOf(before), now, ask, rules);
      const { state, ...is } = done;
      compare('a request is answered with', is, told);
      if (state !== before) keep(state, kept);
      return done;
    },
    settle(before, now, id, reply, rules, heard) {
      const done = ledger.settle(before, now, id, reply, rules, heard);
      const { log: kept, told, isAwaited } = plain.hear(logOf(before), now, id, reply, rules, heard);
      compare('a reply is booked as', done.settled, told);
      compare('whether others wait for a reply', done.isAwaited, isAwaited);
      keep(done.state, kept);
      return done;
    },
    cancel: (before, now, id, rules) =>
      keep(ledger.cancel(before, now, id, rules), plain.giveBack(logOf(before), now, id, rules)),
    bury: (before, now, dead, rules) =>
      keep(ledger.bury(before, now, dead, rules), plain.bury(logOf(before), now, dead, rules)),
    thaw: (before, now, rules) => keep(ledger.thaw(before, now, rules), plain.thaw(logOf(before), now, rules)),
  };
}
