/**
 * Failures are classed by what to do next, not by where they came from. Anything that is none of these is a bug and
 * may crash the job. Every message says what happened, to what; `remedy` says what to do about it.
 */

/** Exit codes of the command line, as the README documents them. */
export const exitCodes = { ok: 0, failed: 1, usage: 2, partly: 3, refused: 4, differs: 5, interrupted: 130 } as const;

/** A failure that people at the terminal are shown as a sentence and a remedy, without a stack. */
export class ShelfdeskError extends Error {
  readonly remedy: string;
  readonly exitCode: number;
  constructor(message: string, remedy: string, exitCode: number = exitCodes.failed, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause });
    this.name = new.target.name;
    this.remedy = remedy;
    this.exitCode = exitCode;
  }
}

/** A setting, an argument or an environment that cannot work: exit 2. */
export class UsageError extends ShelfdeskError {
  constructor(message: string, remedy: string) {
    super(message, remedy, exitCodes.usage);
  }
}

/** The same request may succeed later: 429, 5xx, time-out, a broken or truncated reply. */
export class Retry extends ShelfdeskError {
  constructor(message: string, cause?: unknown) {
    super(message, 'It is tried again by itself. If it lasts, look at the status page of the source.', 1, cause);
  }
}

/** 404 on an id that was known: checked again, then a tombstone. */
export class Gone extends ShelfdeskError {
  /** When it was gone, by the source's clock, in ms. */
  readonly asOf: number;
  constructor(
    message: string,
    asOf: number,
    remedy = 'The source no longer has it: a ticket gets its tombstone when it says so a second time.',
  ) {
    super(message, remedy);
    this.asOf = asOf;
  }
}

/** The catalog answers nothing more before `until`: for a day, or because it asked for a long pause. */
export class Spent extends ShelfdeskError {
  readonly until: Date;
  constructor(until: Date, why: 'day' | 'pause' = 'day') {
    const what = why === 'day' ? "the catalog's quota of the day is spent" : 'the catalog asks for a pause';
    super(
      `${what}; it goes on at ${until.toISOString().slice(0, 19)}Z`,
      'Nothing to do while a worker runs: it goes on by itself. A command has to be run again then.',
      exitCodes.partly,
    );
    this.until = until;
  }
}

/** The job stops: 401, 403, other 4xx, a list that stays out of order, a schema that does not fit. */
export class Fatal extends ShelfdeskError {}

/** Somebody else has taken up the work under a newer token, or has canceled it; whatever this worker still holds is void. */
export class FencedOff extends ShelfdeskError {
  constructor(what: string) {
    super(`${what} was taken up by another worker`, 'Nothing to do: the other worker goes on.');
  }
}

/** Another run reads the same: this one waits for its turn. */
export class Busy extends ShelfdeskError {
  constructor(what: string, run: number) {
    super(`${what} waits for run ${run}, which reads the same`, 'Nothing to do: it goes on by itself.');
  }
}

/** The source's clock moved: nothing that is read now proves anything. The stream ends, and the next run goes on. */
export class ClockMoved extends ShelfdeskError {
  constructor(by: string) {
    super(
      `the source's clock moved by ${by}: nothing is claimed until it has stood still for 5 minutes`,
      'Nothing to do: later runs go on by themselves. If it lasts, ask the support of the source, or look at the clock of the database server.',
      exitCodes.partly,
    );
  }
}

/** People told it to wait: what is in flight is committed, and the stream waits until they resume it. */
export class Paused extends ShelfdeskError {
  constructor(what: string) {
    super(`${what} is paused`, 'It goes on when somebody resumes it.');
  }
}

/** The person at the terminal, or the machine, asked us to stop; what is in flight is committed. */
export class Interrupted extends ShelfdeskError {
  constructor() {
    super('interrupted', 'Run the same command again: it goes on where this one stopped.', exitCodes.interrupted);
  }
}

/** A stream failed, and its run says why: the job that read it ends in the failed set, with nothing left to tell. */
export class StreamFailed extends ShelfdeskError {
  constructor(stream: string, cause: unknown) {
    const { message, remedy } = cause instanceof ShelfdeskError ? cause : { message: String(cause), remedy: '' };
    super(`${stream}: ${message}`, remedy, exitCodes.failed, cause);
  }
}

/** Of Node, for connections. */
const network =
  /^(ECONNABORTED|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|EHOSTDOWN|EHOSTUNREACH|ENETDOWN|ENETUNREACH|ENOTFOUND|EAI_AGAIN)$/;

/**
 * Of PostgreSQL: the connection (08); its own coming and going (57P0x); no more room for a connection or for rows, until
 * somebody makes some (53, but for 53400: a limit that the same statement always meets); a server that only reads, since
 * another one has taken over or its disk is full (25006); a session that slept in a transaction (25P03).
 */
const server = /^(08...|57P0[1-5]|53[0-3]..|25006|25P03)$/;

/**
 * The database, Redis, or the way to them is away, or takes nothing for now: what was asked can be asked again later. A
 * connection that broke in the middle has no code, and a refusal of Redis begins with its name.
 */
export function isAway(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  if (error instanceof Away) return true;
  const { code } = error as { code?: unknown };
  if (typeof code === 'string') return network.test(code) || server.test(code);
  if (error.name === 'ReplyError')
    return /^(READONLY|OOM|MISCONF|LOADING|MASTERDOWN|CLUSTERDOWN)\b/.test(error.message);
  return /^Connection terminated|not queryable|Client was closed|timeout exceeded when trying to connect|Query read timeout/.test(
    error.message,
  );
}

/** The same, said to people who can look after it: a command ends with it, a worker waits. */
export class Away extends ShelfdeskError {
  constructor(
    cause: Error,
    what?: string,
    remedy = 'Nothing is lost. Run the same command again when it is back; `npx shelfdesk start` waits for it.',
  ) {
    super(awaySaid(cause, what), remedy, exitCodes.failed, cause);
  }
}

/** In the words of people: those who look after a full disk are not those who look after a cable. */
const causes: Readonly<Record<string, string>> = {
  '25006': 'read-only',
  '25P03': 'the session slept in a transaction',
  '53000': 'out of resources',
  '53100': 'disk full',
  '53200': 'out of memory',
  '53300': 'too many connections',
  '57P01': 'shutting down',
  '57P02': 'crashed',
  '57P03': 'starting or stopping',
  '57P04': 'the database was dropped',
};
const causesOfRedis: Readonly<Record<string, string>> = {
  READONLY: 'read-only',
  OOM: 'out of memory',
  MISCONF: 'it cannot write to its disk',
  LOADING: 'starting',
  MASTERDOWN: 'its master is down',
  CLUSTERDOWN: 'its cluster is down',
};

/** What is away, and why. The database's sentence goes with it: it names the file, the limit or the address. */
export function awaySaid(error: Error, what?: string): string {
  if (error instanceof Away) return error.message;
  const isRedis = error.name === 'ReplyError';
  const name = what ?? (isRedis ? 'Redis' : 'the database');
  const { code } = error as { code?: unknown };
  const cause = isRedis ? causesOfRedis[error.message.split(' ')[0]!] : causes[String(code)];
  const message = error.message || String(code);
  return cause === undefined ? `${name} does not answer: ${message}` : `${name} cannot be used: ${cause} (${message})`;
}
