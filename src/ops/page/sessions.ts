/**
 * Sessions that their visitors have ended. A session is a signed cookie that no process stores. So the warehouse stores
 * its end, for every process that serves the page, until the session would have expired.
 */
import type pg from 'pg';
import { durably, transaction } from '../../engine/database/pool.ts';
import { sql } from '../../engine/database/sql.ts';
import { isAway } from '../../errors.ts';
import type { Session } from './auth.ts';

export type EndedSessions = ReturnType<typeof makeEndedSessions>;

export function makeEndedSessions(db: pg.Pool, now: () => number) {
  const known = new Map<string, number>();
  return {
    /** Learns of the sessions that other processes ended. While the warehouse is away, those that are known count. */
    async refresh(): Promise<void> {
      try {
        const { rows } = await db.query<{ session: string; ends_at: Date }>(sql`
          select session, ends_at from sync.secret_ended_sessions where ends_at > ${new Date(now())}`);
        for (const { session, ends_at } of rows) known.set(session, ends_at.getTime());
      } catch (error) {
        if (!isAway(error)) throw error;
      }
      for (const [session, endsMs] of known) if (endsMs <= now()) known.delete(session);
    },
    has: ({ id }: Session) => known.has(id),
    async end({ id, endsMs }: Session): Promise<void> {
      known.set(id, endsMs);
      await transaction(
        db,
        async client => {
          await client.query(sql`delete from sync.secret_ended_sessions where ends_at <= ${new Date(now())}`);
          await client.query(sql`
            insert into sync.secret_ended_sessions (session, ends_at) values (${id}, ${new Date(endsMs)}) on conflict do nothing`);
        },
        durably,
      );
    },
  };
}
