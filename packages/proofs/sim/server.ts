/**
 * A PostgreSQL of its own for each simulation: which dead rows are cleared away while others come hangs on the oldest transaction
 * of the whole server, and with it the order of rows of one rank, and the story that a seed tells. Nothing in it needs to survive.
 */
import { type OwnServer, startOwnServer } from '../../../test/support/own-server.ts';

const settings = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  autovacuum: 'off',
  shared_buffers: '64MB',
  track_counts: 'off',
  update_process_title: 'off',
  checkpoint_timeout: '1d',
  // The log of ten thousand seeds would fill a disk.
  max_wal_size: '512MB',
  // In the folder of its data, for wire.ts.
  unix_socket_directories: '.',
};

export const startServer = (): Promise<OwnServer> => startOwnServer({ settings });
