/** The tables of the lake, as sources declare them, and the place of its files. */

/** A relation of the warehouse that the lake has under the same name. */
export interface LakeTable {
  /** `safe.messages` */
  readonly name: string;
  /**
   * The records whose rows are exported together when one of them has changed: `ticket`, `customer`, `volume`, `shelf`, and of a
   * further source the name of the table.
   * `list`: a short table, compared as a whole for each account that has changed. `status`: compared as a whole with each
   * export. `all`: a table of no account, compared when sync.lake_pending says so.
   */
  readonly unit: string;
  /** Column of the account; null if there is none. Default: account_id. */
  readonly account?: string | null;
  /** SQL of the record's id, for PostgreSQL and DuckDB. `t`: the table with a dot, or nothing. */
  readonly id?: (t: string) => string;
  /** Key columns, without the account. */
  readonly key: readonly string[];
  /** Columns that erasure empties in old files. */
  readonly personal?: readonly string[];
  /** The table has personal data: only a lake with personal data has it. */
  readonly withPersonal?: boolean;
  /** SQL of the rows that may have changed from the last export to this moment; of `status` only. Default: all. */
  readonly changing?: (lastExport: string, moment: string) => string;
  /** Numbers keep each digit. Default: they are doubles. */
  readonly exact?: true;
  /** Rows have the month of their ticket (internal.lake_month), and are sorted by it. */
  readonly byMonth?: boolean;
}

/** The tables of a lake with or without personal data. */
export const exportedTables = (all: readonly LakeTable[], { personal }: { personal: boolean }): readonly LakeTable[] =>
  all.filter(table => personal || !table.withPersonal);

/** The place of the files of a lake, and the settings for access. */
export interface LakePlace {
  /** Folder, or `s3://bucket/prefix`. */
  readonly path: string;
  /** Address of the bucket's server; undefined for that of AWS. */
  readonly endpoint?: URL | undefined;
  readonly region?: string | undefined;
  readonly keyId?: string | undefined;
  readonly secret?: string | undefined;
  /** Folder with the extensions of DuckDB, for machines that cannot download them. */
  readonly extensions?: string | undefined;
}

/** Schema of the catalog in the warehouse. */
export const catalogSchema = 'lake';
