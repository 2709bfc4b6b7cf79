/**
 * Removes error texts of the source that older versions stored behind the status: `GET /tickets: 422 Ann Example is
 * unknown`. Such texts may name people. This version stores none.
 */
import type pg from 'pg';

const texts = [
  ...[
    ['sync.stored_run_streams', 'error'],
    ['sync.deletion_candidates', 'error'],
    ['sync.gap_reasons', 'reason'],
  ],
  ...[
    ['sync.rejects', 'reason'],
    ['sync.alarms', 'says'],
    ['sync.hand_offs', 'withheld'],
  ],
];
/** The words may have any form, so nothing behind the status stays. A status of this version is followed by a colon. */
const withWords = String.raw`([A-Z]+ /\S*: [1-5][0-9]{2}) .*$`;

/** Cuts these words. Returns the number of texts that had any. */
export async function cutOlderWords(client: Pick<pg.ClientBase, 'query'>, account: string): Promise<number> {
  // The log is only for display, and may be lost.
  await client.query('delete from sync.request_logs where account_id = $1', [account]);
  let cut = 0;
  for (const [table, column] of texts) {
    const { rowCount } = await client.query(
      `update ${table} set ${column} = regexp_replace(${column}, $2, '\\1') where account_id = $1 and ${column} ~ $2`,
      [account, withWords],
    );
    cut += rowCount ?? 0;
  }
  return cut;
}
