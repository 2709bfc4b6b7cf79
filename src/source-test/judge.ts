/** Compares the mirror with the truth of the service, record by record and field by field. */
import type pg from 'pg';
import { raw, sql } from '../engine/database/sql.ts';
import { type AnyRecord, type Facts, fieldsThatAre } from '../sources/record/record.ts';
import { parentColumn } from '../sources/record/tables.ts';
import { type Item, lastOf, type Shelf, type World, written, writtenPart } from './world.ts';

/** `failed`: the engine itself says that it cannot read the list. */
export type Wrong = 'lost' | 'stale' | 'phantom' | 'doubled' | 'failed';

/** A record that the mirror has wrong. */
export interface Finding {
  readonly stream: string;
  readonly id: string;
  readonly wrong: Wrong;
  readonly says: string;
}

/** What the mirror has to show by now. */
export interface Due {
  /** Deletions, and changes that lists do not tell of: a sweep has read everything. */
  readonly swept: boolean;
}

type Row = Readonly<Record<string, unknown>>;

interface Table {
  readonly stream: string;
  readonly table: string;
  readonly record: AnyRecord;
  /** Column of the record that the rows are parts of. */
  readonly parent?: string;
  /** By id; of parts by the id of their record and their own. Undefined: it may be there as it likes. */
  readonly expected: ReadonlyMap<string, Row | undefined>;
  /** What is stored and is not expected is no mistake yet. */
  readonly mayHaveMore: (id: string) => boolean;
}

export async function judge(
  pool: pg.Pool,
  account: string,
  source: string,
  world: World,
  due: Due,
): Promise<Finding[]> {
  const found: Finding[] = [];
  for (const shelf of world.shelves.values())
    for (const table of tablesOf(world, shelf, due)) found.push(...(await compare(pool, account, source, table)));
  return found;
}

/** Records that were there before a reading began, and that the mirror lacks after it. */
export async function absent(
  pool: pg.Pool,
  account: string,
  source: string,
  { meaning: { name } }: Shelf,
  there: readonly Item[],
): Promise<Finding[]> {
  const { rows } = await pool.query<{ id: string }>(sql`
    select id from ${raw(`${source}.${name}`)} where account_id = ${account} and _deleted_at is null`);
  const stored = new Set(rows.map(({ id }) => id));
  return there.flatMap(({ id, deleted }) =>
    deleted || stored.has(id)
      ? []
      : [
          {
            stream: name,
            id,
            wrong: 'lost',
            says: `${id} was there before the reading began, and is not in the mirror after it`,
          } as const,
        ],
  );
}

/** Whether a deletion shows by now: a whole list lacks it at once, a feed tells of it, or a sweep has read the list. */
function deletionsAreDue(world: World, { meaning: { stream, name } }: Shelf, { swept }: Due): boolean {
  if (stream.kind === 'details' || stream.kind === 'feed') return false;
  if (stream.options.deletionsUnknown !== undefined) return isTold(world, name);
  return swept || isTold(world, name) || (stream.kind === 'full refresh' && stream.options.get === undefined);
}

const isTold = (world: World, name: string): boolean =>
  [...world.shelves.values()].some(({ meaning: { stream } }) => {
    if (stream.kind !== 'feed' || stream.options.deletes === undefined) return false;
    const { of } = stream.options.deletes;
    return typeof of === 'string' ? of === name : Object.values(of as object).includes(name);
  });

/** Whether an edit shows by now. */
function editIsDue({ meaning: { stream } }: Shelf, item: Item, { swept }: Due): boolean {
  if (stream.kind === 'full refresh') return true;
  // Without a sweep silent changes of a list of changes are never seen, which it says. The edits of a list by creation are no secret.
  const isSwept = swept && (stream.kind === 'created' || !('deletionsUnknown' in stream.options));
  return isSwept || (stream.kind === 'incremental' && !item.silent);
}

function tablesOf(world: World, shelf: Shelf, due: Due): Table[] {
  const { meaning, record } = shelf;
  const { stream, name } = meaning;
  if (stream.kind === 'details') return [detailsOf(world, shelf, stream.options.parent, due)];
  const deletions = deletionsAreDue(world, shelf, due);
  const gone = new Set([...shelf.items.values()].filter(({ deleted }) => deleted).map(({ id }) => id));
  const mayHaveMore = (id: string) => !deletions && gone.has(id);
  const rowOf = (item: Item) => written(item, lastOf(item), shelf);
  const isCertain = (item: Item) => editIsDue(shelf, item, due) || item.versions.length === 1;
  const whole = { stream: name, table: name, record, mayHaveMore };
  const expected = new Map(shelf.living.map(item => [item.id, isCertain(item) ? rowOf(item) : undefined]));
  const parent = parentColumn(record);
  const parts = fieldsThatAre(record, 'children').map(([field, facts]): Table => {
    const all = shelf.living
      .filter(isCertain)
      .flatMap(item => lastOf(item).parts[field]!.map(part => [`${item.id} ${part.id}`, writtenPart(part)] as const));
    const unsure = new Set(shelf.living.filter(item => !isCertain(item)).map(({ id }) => id));
    const more = (id: string) => unsure.has(id.split(' ')[0]!) || mayHaveMore(id.split(' ')[0]!);
    const of = facts.record!;
    return { stream: name, table: of.name, record: of, parent, expected: new Map(all), mayHaveMore: more };
  });
  return [{ ...whole, expected }, ...parts];
}

function detailsOf(world: World, { meaning, record }: Shelf, parent: string, due: Due): Table {
  const shelf = world.shelves.get(parent)!;
  const ages = meaning.stream.kind === 'details' && meaning.stream.options.ageDays !== undefined;
  const isCertain = (item: Item) => !item.silentDetails || (ages && due.swept);
  const deletions = deletionsAreDue(world, shelf, due);
  const all = shelf.living
    .filter(isCertain)
    .flatMap(item =>
      (item.details.get(meaning.name) ?? []).map(part => [`${item.id} ${part.id}`, writtenPart(part)] as const),
    );
  const unsure = new Set(
    [...shelf.items.values()].filter(item => (item.deleted ? !deletions : !isCertain(item))).map(({ id }) => id),
  );
  return {
    ...{ stream: meaning.name, table: meaning.name, record, parent: parentColumn(shelf.record) },
    expected: new Map(all),
    mayHaveMore: id => unsure.has(id.split(' ')[0]!),
  };
}

async function compare(
  pool: pg.Pool,
  account: string,
  source: string,
  { stream, table, record, parent, expected, mayHaveMore }: Table,
): Promise<Finding[]> {
  const { rows } = await pool.query<{ row: Row }>(sql`
    select to_jsonb(t) as row from ${raw(`${source}.${table}`)} t where account_id = ${account} and _deleted_at is null`);
  const found: Finding[] = [];
  const stored = new Map<string, Row>();
  for (const { row } of rows) {
    const id = parent === undefined ? String(row.id) : `${row[parent]} ${row.id}`;
    if (stored.has(id)) found.push({ stream, id, wrong: 'doubled', says: 'it is there twice' });
    stored.set(id, row);
  }
  const columns = fieldsThatAre(record, 'column').filter(([, { isId }]) => !isId);
  const named = table === stream ? '' : `${table} `;
  for (const [id, one] of expected) {
    const row = stored.get(id);
    if (row === undefined) {
      found.push({ stream, id, wrong: 'lost', says: `${named}${id} is not in the mirror` });
      continue;
    }
    if (one === undefined) continue;
    const wrong = columns.find(([path, facts]) => !isSame(facts, at(one, path), row[facts.column]));
    if (wrong === undefined) continue;
    const [path, { column }] = wrong;
    const says = `${named}${id} has ${column} ${shown(row[column])} in the mirror, and ${shown(at(one, path))} at the service`;
    found.push({ stream, id, wrong: 'stale', says });
  }
  for (const id of stored.keys())
    if (!expected.has(id) && !mayHaveMore(id))
      found.push({ stream, id, wrong: 'phantom', says: `${named}${id} is in the mirror, and not at the service` });
  return found;
}

const shown = (value: unknown): string => (value == null ? 'nothing' : JSON.stringify(value));

const at = (one: Row, path: string): unknown =>
  path.split('.').reduce<unknown>((value, name) => (value as Row | undefined)?.[name], one);

function isSame({ type }: Facts, there: unknown, here: unknown): boolean {
  if (there == null || here == null) return there === here;
  if (type === 'timestamptz') return Date.parse(String(there)) === Date.parse(String(here));
  if (type === 'numeric' || type === 'bigint') return Number(there) === Number(here);
  return JSON.stringify(there) === JSON.stringify(here);
}
