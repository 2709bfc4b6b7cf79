/**
 * Error classes follow the reaction, not the origin. Any other error is a bug and may crash the job. Every message says what
 * happened and to what; `remedy` says what to do.
 */
import { readFileSync } from 'node:fs';

/** Exit codes of the command line, as the README documents them. */
export const exitCodes = { ok: 0, failed: 1, usage: 2, partial: 3, refused: 4, differs: 5, interrupted: 130 } as const;

/** Exit codes, the gravest first, in the order in which sync.runs tells the state of a run. */
export const byGravity: readonly number[] = [
  ...[exitCodes.refused, exitCodes.usage, exitCodes.failed],
  ...[exitCodes.interrupted, exitCodes.differs, exitCodes.partial],
];

/** The gravest of these exit codes. */
export const gravestOf = (codes: readonly (number | null)[]): number =>
  byGravity.find(code => codes.includes(code)) ?? exitCodes.ok;

/** The stack of a bug. In the package many sources share a file, so each line also names its own. */
export function stackOf({ stack, message }: Error): string {
  return (stack ?? message).replace(/(file:\S+\.js):(\d+):\d+/g, (place, file: string, line: string) => {
    const source = sourceAt(file, Number(line));
    return source === undefined ? place : `${place}, ${source}`;
  });
}

/** The bundler writes the path of each source above its code. */
function sourceAt(file: string, line: number): string | undefined {
  try {
    const before = readFileSync(new URL(file), 'utf8').split('\n', line);
    return before.findLast(text => /^\/\/ \S+\.[cm]?[jt]s$/.test(text))?.slice(3);
  } catch {
    return undefined;
  }
}

interface Why {
  readonly exitCode?: number | undefined;
  readonly cause?: unknown;
}

/** Expected failure. The terminal shows its message and remedy, without a stack. */
export class ShelfdeskError extends Error {
  readonly remedy: string;
  readonly exitCode: number;
  constructor(message: string, remedy: string, { exitCode = exitCodes.failed, cause }: Why = {}) {
    super(message, cause === undefined ? {} : { cause });
    this.name = new.target.name;
    this.remedy = remedy;
    this.exitCode = exitCode;
  }
}

/**
 * The source's own words about a failure, by error. They may name people, so no message, log, table or job has them. A terminal may
 * show them.
 */
const words = new WeakMap<Error, string>();

export function quoting<E extends ShelfdeskError>(error: E, said: string): E {
  words.set(error, said);
  return error;
}

/** The source's words about this failure or its cause. */
export function quotedBy(error: unknown): string | undefined {
  return error instanceof Error ? (words.get(error) ?? quotedBy(error.cause)) : undefined;
}

/** An outage: the source, as people call it, and what it does, as `answers 503`. */
export interface Outage {
  readonly label: string;
  readonly answer: string;
  /** When its first request failed. */
  readonly sinceMs: number;
}

/** Errors by which a source answers nobody. */
const outages = new WeakMap<Error, Outage>();

export const noteOutage = (error: Error, outage: Outage): void => void outages.set(error, outage);

/** The outage of the source, if this error or its cause is one. */
export function outageIn(error: unknown): Outage | undefined {
  return error instanceof Error ? (outages.get(error) ?? outageIn(error.cause)) : undefined;
}

/**
 * The message of any error, without values of records: PostgreSQL (SQLSTATE class 22) and DuckDB quote a value that they refuse, and a
 * parser its text.
 */
export function messageOf(error: unknown): string {
  if (error instanceof SyntaxError) return 'a text could not be parsed';
  if (!(error instanceof Error)) return String(error);
  const { code } = error as { code?: unknown };
  const [kind] =
    /^22[0-9A-Z]{3}$/.exec(typeof code === 'string' ? code : '') ??
    /(?<=^(?:the lake: )?)(Conversion|Constraint|Invalid Input|Out of Range) Error(?=:)/.exec(error.message) ??
    [];
  return kind === undefined ? error.message : `the database refuses a value (${kind})`;
}

/** A setting, an argument or an environment that cannot work: exit 2. */
export class UsageError extends ShelfdeskError {
  constructor(message: string, remedy: string) {
    super(message, remedy, { exitCode: exitCodes.usage });
  }
}

/** An account that is moving, or has moved, to another warehouse is read-only: `sync.refuse_moved` says so in its own words. */
export class Moved extends UsageError {}

/** The refusal of the database as one of ours; any other error as it is. */
export function unlessMoved(error: unknown): unknown {
  const { code, message, hint } = error as { code?: unknown; message?: string; hint?: string };
  return code === 'SHMOV' ? new Moved(message!, hint!) : error;
}

/** The same request may succeed later: 429, 5xx, time-out, a broken or truncated reply. */
export class Retry extends ShelfdeskError {
  /**
   * The source refuses one record for what it is: a 4xx that is no 401, 403, 404, 408 or 429. The record is a reject, and
   * everything else continues. This is what it means if the source refuses every record.
   */
  readonly everywhere: Fatal | undefined;
  constructor(
    message: string,
    cause?: unknown,
    everywhere?: Fatal,
    remedy = 'The request is retried automatically. If the failure lasts, check the status page of the source.',
  ) {
    super(message, remedy, { cause });
    this.everywhere = everywhere;
  }
}

/** When a reply was true. */
interface Shown {
  readonly asOf: number;
  readonly trueBy: number;
  readonly shownBy: number;
}

/**
 * A reply is larger than the cap. A list is asked for fewer records a page; what concerns one record is a reject of it, and all
 * else continues. The same request succeeds only with a higher cap.
 */
export class ReplyTooLarge extends Retry {
  override readonly remedy: string;
  /** The id of the first record of the reply, if its beginning shows one. */
  readonly id: string | undefined;
  /** See Reply; NaN without a Date. */
  readonly shown: Shown;
  constructor(
    what: string,
    { bytes, capBytes, id, shown }: { bytes: number; capBytes: number; id: string | undefined; shown: Shown },
  ) {
    const inMegabytes = (size: number) => Math.round(size / 100_000) / 10;
    super(
      `${what}: the reply is larger than ${inMegabytes(capBytes)} MB (SHELFDESK_REPLY_MEGABYTES); reading ended at ${inMegabytes(bytes)} MB`,
    );
    this.remedy =
      'Fewer records a page are asked for, down to one; a single record that is too large is left out, as a reject. To store it, set SHELFDESK_REPLY_MEGABYTES higher where memory allows: a process needs eight times the size of its largest reply.';
    this.id = id;
    this.shown = shown;
  }
}

/** 404 on a known id. A second 404 confirms the deletion and writes a tombstone. */
export class Gone extends ShelfdeskError {
  /** Time of the 404 by the source's clock, in ms since 1970. */
  readonly asOf: number;
  constructor(
    message: string,
    asOf: number,
    remedy = 'The record was deleted at the source. A second 404 confirms it and writes the tombstone.',
  ) {
    super(message, remedy);
    this.asOf = asOf;
  }
}

/** The source answers nothing before `until`: its quota is used up, or it asked for a long pause. */
export class Spent extends ShelfdeskError {
  readonly until: Date;
  constructor(until: Date, why: 'day' | 'pause' = 'day', label = 'the source') {
    const what = why === 'day' ? `the quota of ${label} is used up` : `${label} asked for a pause`;
    super(
      `${what}; reading resumes at ${until.toISOString().slice(0, 19)}Z`,
      'A running worker resumes automatically. Without one, run the command again at that time.',
      { exitCode: exitCodes.partial },
    );
    this.until = until;
  }
}

/** The job stops: 401, 403, other 4xx, a list that stays out of order, a schema that does not fit. */
export class Fatal extends ShelfdeskError {
  /** 403: the token may not read one part of the source. The other streams of the run continue. */
  readonly denied: boolean;
  constructor(message: string, remedy: string, exitCode?: number, denied = false) {
    super(message, remedy, { exitCode });
    this.denied = denied;
  }
}

/** Another worker holds a newer fencing token, or the run was canceled. This worker must not write its data. */
export class FencedOff extends ShelfdeskError {
  constructor(what: string) {
    super(`${what} was taken over by another worker`, 'Nothing to do: the other worker continues.');
  }
}

/** Another run holds the same stream. This run waits for it to end. */
export class Busy extends ShelfdeskError {
  constructor(what: string, run: number) {
    super(`${what} waits for run ${run}, which reads the same`, 'Nothing to do: it starts automatically.');
  }
}

/** The source's clock jumped, so its times prove no coverage. The stream ends and the next run resumes. */
export class ClockMoved extends ShelfdeskError {
  constructor(by: string) {
    super(
      `the source's clock jumped by ${by}: coverage is not recorded until the clock is steady for 5 minutes`,
      'Later runs resume automatically. If this lasts, contact the support of the source, or check the clock of the database server.',
      { exitCode: exitCodes.partial },
    );
  }
}

/** Somebody paused the stream. The page in flight is committed; the stream waits for a resume. */
export class Paused extends ShelfdeskError {
  constructor(what: string) {
    super(`${what} is paused`, 'The stream continues after a resume.');
  }
}

/** Ctrl-C or SIGTERM. The page in flight is committed. */
export class Interrupted extends ShelfdeskError {
  constructor() {
    super('interrupted', 'Run the same command again to resume.', { exitCode: exitCodes.interrupted });
  }
}

/** A stream failed and its run holds the cause. The job goes to the failed set of the queue. */
export class StreamFailed extends ShelfdeskError {
  constructor(stream: string, cause: unknown) {
    const remedy = cause instanceof ShelfdeskError ? cause.remedy : '';
    super(`${stream}: ${messageOf(cause)}`, remedy, { cause });
  }
}

/** Node's error codes for broken connections, and for a lack of file descriptors, which other programs give back. */
const network =
  /^(ECONNABORTED|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|EHOSTDOWN|EHOSTUNREACH|ENETDOWN|ENETUNREACH|ENOTFOUND|EAI_AGAIN|EMFILE|ENFILE)$/;

/**
 * PostgreSQL's codes for a server that may recover: connection errors (08), shutdown or start (57P0x), lack of resources
 * (53), a read-only server after a failover or with a full disk (25006), an idle transaction time-out (25P03). 53400 is left
 * out: the same statement always meets that limit.
 */
const server = /^(08...|57P0[1-5]|53[0-3]..|25006|25P03)$/;

/**
 * Whether PostgreSQL or Redis is unreachable or accepts no work for now, so that the same call may succeed later. A
 * connection that broke in the middle has no code. A Redis refusal starts with its code.
 */
export function isAway(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  if (error instanceof Away) return true;
  const { code } = error as { code?: unknown };
  if (typeof code === 'string') return network.test(code) || server.test(code);
  if (error.name === 'ReplyError')
    return /^(READONLY|OOM|MISCONF|LOADING|MASTERDOWN|CLUSTERDOWN)\b/.test(error.message);
  return /^Connection terminated|not queryable|Client was closed|timeout exceeded when trying to connect|^timeout expired$|Query read timeout/.test(
    error.message,
  );
}

/** Whether a statement was canceled, by PostgreSQL or by a person, or an error has that cause. */
export function isCanceled(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return (error as { code?: unknown }).code === '57014' || isCanceled(error.cause);
}

/** The reason of the signal, if a statement was canceled after it: an interruption cancels statements that wait for a lock. */
export const orReason = (error: unknown, signal: AbortSignal): unknown =>
  signal.aborted && isCanceled(error) ? signal.reason : error;

/** Message and remedy for an outage of PostgreSQL or Redis. Commands fail with it; workers wait. */
export class Away extends ShelfdeskError {
  constructor(
    cause: Error,
    what?: string,
    remedy = 'No data is lost. Run the same command again when the service is back; `npx shelfdesk start` waits for it.',
  ) {
    super(describeOutage(cause, what), remedy, { cause });
  }
}

/** Node's error codes for what this machine refuses to any program: what it means, and what to do. */
const refusals: Readonly<Record<string, readonly [means: string, remedy: string]>> = {
  ENOSPC: ['the disk is full', 'Free some space, then run the same command again.'],
  EDQUOT: ['the disk quota of this user is used up', 'Free some space, then run the same command again.'],
  EROFS: ['the file system is read-only', 'Run the command in a folder that it may write to.'],
  EACCES: ['this user has no right to it', 'Give the user the right, or run the command in another folder.'],
  EPERM: ['this user has no right to it', 'Give the user the right, or run the command in another folder.'],
  EIO: ['the disk or the terminal failed', 'Check the disk, then run the same command again.'],
  ENOMEM: ['this machine has no memory left', 'End other programs, or give the machine or container more memory.'],
  EMFILE: [
    'this process may open no more files',
    'Raise its limit: `ulimit -n 1024` in the shell, or LimitNOFILE= in the systemd unit.',
  ],
  ENFILE: ['this machine may open no more files', 'End other programs, or raise fs.file-max.'],
};

/**
 * The operating system refuses what every program needs, such as disk space or a working folder. Such an error is never
 * a bug.
 */
export class MachineRefuses extends ShelfdeskError {
  constructor(cause: Error, [means, remedy]: readonly [means: string, remedy: string], code: string) {
    const { path } = cause as NodeJS.ErrnoException;
    super(`${means}${path === undefined ? '' : `: ${path}`} (${code})`, remedy, { cause });
  }
}

const noFolder = [
  'the folder in which the command runs was deleted',
  'Change to a folder that exists, with `cd`, then run the same command again.',
] as const;

/** The refusal of the machine behind an error; undefined for any other error. */
export function machineRefusal(error: unknown): MachineRefuses | undefined {
  if (!(error instanceof Error) || error instanceof ShelfdeskError) return undefined;
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT' && syscall === 'uv_cwd') return new MachineRefuses(error, noFolder, code);
  if (code !== undefined && Object.hasOwn(refusals, code)) return new MachineRefuses(error, refusals[code]!, code);
  return undefined;
}

/** Plain cause of each PostgreSQL code: a full disk and a broken network need different people. */
const causes: Readonly<Record<string, string>> = {
  '25006': 'read-only',
  '25P03': 'the transaction was idle for too long',
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

/** Says which service is unavailable and why. The server's own message is included: it names the file, limit or address. */
export function describeOutage(error: Error, what?: string): string {
  if (error instanceof Away) return error.message;
  const isRedis = error.name === 'ReplyError';
  const name = what ?? (isRedis ? 'Redis' : 'the database');
  const { code } = error as { code?: unknown };
  const cause = isRedis ? causesOfRedis[error.message.split(' ')[0]!] : causes[String(code)];
  const message = error.message || String(code);
  return cause === undefined ? `${name} does not answer: ${message}` : `${name} cannot be used: ${cause} (${message})`;
}

/** Said once after an outage. */
export const isBack = (outage: Error, what?: string): string =>
  `${what ?? (outage.name === 'ReplyError' ? 'Redis' : 'the database')} is back`;
