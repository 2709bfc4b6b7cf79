/** What this package takes from the program. It imports nothing of it but types: the program gives it this when it loads it. */
import type { Tls } from '../../../src/engine/database/session/connection-types.ts';

export interface Program {
  /** A failure as the program shows it: its message, and what to do. */
  readonly failure: (message: string, remedy: string, cause: unknown) => Error;
  /** The same for what a person asks that cannot be. */
  readonly refusal: (message: string, remedy: string) => Error;
  /** Of the digits of a whole number. */
  readonly integer: (digits: string) => number | object;
  /** What to choose from, and what a mistyped word may mean. */
  readonly choiceOf: (word: string, among: readonly string[], choose?: string) => string;
  readonly addressOf: (url: string) => WarehouseAddress;
}

/** How a connection to the warehouse is opened. */
export interface WarehouseAddress {
  readonly login: {
    readonly host: string;
    readonly port: number;
    readonly database: string | undefined;
    readonly user: string | undefined;
    readonly password: string | undefined | null;
  };
  readonly tls: Tls;
  /** Certificates to trust where none are named: libpq would look for a file of the user, and knows no authorities of Node.js. */
  readonly authorities: readonly string[] | undefined;
  /** A pooler takes no settings at start-up. */
  readonly isPooled: boolean;
}
