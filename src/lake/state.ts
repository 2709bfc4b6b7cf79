/** The lake in the warehouse: whether it is on, and its exports. */
import pg from 'pg';
import { exitCodes, ShelfdeskError } from '../errors.ts';
import { catalogSchema } from './duckdb.ts';

export interface LakeState {
  readonly path: string;
  readonly personal: boolean;
  readonly keepDays: number;
}

export async function readLake(db: Pick<pg.Pool, 'query'>): Promise<LakeState | undefined> {
  const { rows } = await db.query<LakeState>('select path, personal, keep_days as "keepDays" from sync.lake');
  return rows[0];
}

/** From this transaction on, changes are noted for the lake. Everything is pending. */
export async function turnOn(client: pg.ClientBase, state: LakeState, who: string, now: Date): Promise<void> {
  await client.query(`create schema if not exists ${catalogSchema}`);
  await client.query(
    `insert into sync.lake (path, personal, keep_days, turned_on_at, turned_on_by) values ($1, $2, $3, $4, $5)`,
    [state.path, state.personal, state.keepDays, now, who],
  );
  await client.query('select sync.follow_changes(true)');
}

/** Drops the catalog. The files stay, because nobody else may delete them for their owner. */
export async function turnOff(client: pg.ClientBase): Promise<void> {
  await client.query('select sync.follow_changes(false)');
  await client.query(`drop schema if exists ${catalogSchema} cascade`);
  await client.query('truncate sync.lake, sync.lake_pending, sync.lake_exports');
}

/** Runs one piece of work on the lake at a time. Throws ShelfdeskError if another process is at it. */
export async function alone<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'shelfdesk: lake',
    options: '-c timezone=UTC -c search_path=pg_catalog,pg_temp',
  });
  client.on('error', () => {});
  await client.connect();
  try {
    const { rows } = await client.query<{ free: boolean }>(
      `select pg_try_advisory_lock(hashtextextended('shelfdesk lake', 0)) as free`,
    );
    if (!rows[0]!.free)
      throw new ShelfdeskError(
        'another process is working on the lake',
        'Wait until it is done: `npx shelfdesk lake status` shows what it does.',
        exitCodes.failed,
      );
    return await work(client);
  } finally {
    await client.end();
  }
}
