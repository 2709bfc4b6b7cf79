/**
 * The queue holds only jobs. Losing every job loses nothing, because rows, positions and runs are in the warehouse.
 */
import type { Queue } from 'bullmq';

/** Failed jobs stay visible so long. */
export const failedDays = 14;

/** A job, as the queue hands it to a worker. */
export interface Delivery {
  readonly id?: string | undefined;
  readonly name: string;
  // biome-ignore lint/suspicious/noExplicitAny: a payload is checked by its job.
  readonly data: any;
  /** Puts it back. Then the worker throws `Moved`. */
  moveToWait(token: string): Promise<unknown>;
  /** The same, until this time. */
  moveToDelayed(untilMs: number, token: string): Promise<unknown>;
}

/** Thrown by a worker that has put its job back. */
export class Moved extends Error {}

export interface JobQueue extends AsyncDisposable {
  /** Adds the job, unless a job with this id waits or runs. A failed job is replaced. */
  add(name: string, id: string, payload: object): Promise<void>;
  /** Takes jobs until closed. Closing waits for running jobs. */
  work(process: (job: Delivery, token: string) => Promise<void>, onError: (error: Error) => void): Taking;
}

export interface OpenQueue extends JobQueue {
  /** BullMQ's own object, for metrics. */
  readonly bull: Queue;
  /** Removes all jobs, and all that the server keeps of the queue. */
  remove(): Promise<void>;
}

export interface Taking {
  /**
   * Takes no more jobs from this moment on. Resolves when the running jobs have ended, which `atWork` does before the
   * queue knows.
   */
  close(atWork: Promise<unknown>): Promise<void>;
}

/** All queues of a process. They share connections. Each queue that takes jobs has one more connection. */
export interface Queues extends AsyncDisposable {
  /** One queue for each account of each warehouse, because jobs need the settings of the account. */
  open(name: string): OpenQueue;
  /** Fails if the server of the queue is away. Waits for one that hangs. */
  ping(): Promise<void>;
}

/** Connections apart from those that wait for jobs, one for each queue. */
const poolMost = 5;
/** The most connections that the queues of a process use in PostgreSQL. */
export const queueConnections = (queues: number): number => queues + poolMost;
