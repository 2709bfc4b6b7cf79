/**
 * The last requests of each stream of a run, for the page of the run. It proves nothing and may be lost, so it is
 * written seldom, without waiting, to a table that writes no WAL.
 */
import type pg from 'pg';
import type { Clock } from '../../clock.ts';
import { byKey } from '../database/pool.ts';
import { query, raw } from '../database/sql.ts';
import type { Heard } from '../http/send.ts';

const kept = 30;
const everyMs = 15_000;
/** Shorter interval for a failure or a wait that is not shown yet, because people want to see its reason soon. */
const troubledMs = 1000;

export interface LoggedRequest {
  readonly stream: string;
  readonly at: Date;
  /** `GET /tickets?page=2`. */
  readonly request: string;
  /** HTTP status; null if there was no reply, or if the request waits. */
  readonly status: number | null;
  readonly ms: number;
  readonly credits: number;
  /** Such as `retrying (connection refused), try 4, next in 12 s`. */
  readonly says: string | null;
}

export interface RequestLog {
  readonly heard: (one: Heard) => void;
  /** Writes what is not written yet. */
  end(): Promise<void>;
}

/** A status and a reason, however long the wait. */
const kindOf = ({ status, says }: Heard) => `${status} ${says?.replaceAll(/\d+/g, '')}`;

/** Logs the requests of one job. `stream` is the key of the stream. */
export function keepRequestLog(
  { pg, clock, account }: { pg: pg.Pool; clock: Clock; account: string },
  { run, stream }: { run: number; stream: string },
): RequestLog {
  const last: (Heard & { at: Date })[] = [];
  let writing: Promise<void> | undefined;
  let wroteMs = clock.monotonic();
  let isDirty = false;
  /** What was written last, by kind: at a full budget each request waits for credits. */
  let shown = new Set<string>();

  async function write(): Promise<void> {
    isDirty = false;
    wroteMs = clock.monotonic();
    const kinds = new Set(last.map(kindOf));
    await byKey(pg, 'log requests').count`
      insert into sync.request_logs (run_id, stream_key, account_id, written_at, requests)
      select ${run}, ${stream}, ${account}, ${new Date(clock.now())}, ${JSON.stringify(last)}::jsonb
      where exists (select from sync.stored_runs where id = ${run})
      on conflict (run_id, stream_key) do update set written_at = excluded.written_at, requests = excluded.requests`.then(
      () => {
        shown = kinds;
      },
      () => {},
    );
  }

  return {
    heard(one) {
      last.push({ ...one, at: new Date(clock.now()) });
      if (last.length > kept) last.shift();
      isDirty = true;
      const restMs = one.status === 200 || shown.has(kindOf(one)) ? everyMs : troubledMs;
      if (writing !== undefined || clock.monotonic() - wroteMs < restMs) return;
      writing = write().finally(() => {
        writing = undefined;
      });
    },
    async end() {
      await writing;
      if (isDirty) await write();
    },
  };
}

/** The newest first. */
export const readRequests = (db: pg.Pool, run: number): Promise<LoggedRequest[]> =>
  query(db).rows`
    select sync.name_of(stream_key) as stream, r.at, r.request, r.status, r.ms, r.credits, r.says
    from sync.request_logs l join sync.streams k using (stream_key),
      jsonb_to_recordset(l.requests) as r (at timestamptz, request text, status int, ms int, credits int, says text)
    where l.run_id = ${run} order by r.at desc limit ${raw(kept)}`;
