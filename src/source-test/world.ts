/** The records of a service, and what happens to them. The truth is the last version of each record; a list may show it later. */
import { type AnyRecord, type Facts, fieldsThatAre } from '../sources/record/record.ts';
import type { DeclaredStream } from '../sources/service/declared.ts';
import type { AllTold, Behaviour } from './behaviour.ts';
import type { Meaning } from './meaning.ts';
import { idOf, type Rng } from './rng.ts';
import { editable, newValue, valuesOf } from './values.ts';

export interface Part {
  readonly id: string;
  readonly values: Readonly<Record<string, unknown>>;
}

interface Version {
  /** When lists begin to show it. */
  readonly shownMs: number;
  readonly changedMs: number;
  readonly values: Readonly<Record<string, unknown>>;
  readonly parts: Readonly<Record<string, readonly Part[]>>;
}

export interface Item {
  readonly id: string;
  readonly n: number;
  readonly createdMs: number;
  readonly versions: Version[];
  /** Records of each stream of details. */
  readonly details: Map<string, Part[]>;
  /** It was changed in silence since its last change that lists tell of. */
  silent: boolean;
  /** Its details were changed in silence. */
  silentDetails: boolean;
  deleted: boolean;
}

export type Op = 'create' | 'edit' | 'delete' | 'silent' | 'many' | 'comment' | 'recomment';

/** Something that happens to a record. `x` chooses it. */
export interface Happening {
  readonly op: Op;
  readonly stream: string;
  readonly x: number;
  readonly late: boolean;
}

export const secondMs = 1000;

/** A stream of the world. */
export class Shelf {
  readonly meaning: Meaning;
  readonly behaviour: Behaviour;
  readonly items = new Map<string, Item>();
  made = 0;

  constructor(meaning: Meaning, behaviour: Behaviour) {
    this.meaning = meaning;
    this.behaviour = behaviour;
  }

  get record(): AnyRecord {
    return this.meaning.stream.record;
  }
  get living(): Item[] {
    return [...this.items.values()].filter(({ deleted }) => !deleted);
  }
}

export const lastOf = ({ versions }: Item): Version => versions.at(-1)!;
/** What lists show of it now. */
export const shownOf = ({ versions, deleted }: Item, nowMs: number): Version | undefined =>
  deleted ? undefined : versions.findLast(({ shownMs }) => shownMs <= nowMs);

export class World {
  readonly shelves: ReadonlyMap<string, Shelf>;
  nowMs: number;
  #edits = 0;

  /** `told`: of a stream, it holds in each behaviour. */
  constructor(meanings: readonly Meaning[], behaviour: Behaviour, told: AllTold, nowMs: number) {
    this.shelves = new Map(
      meanings.map(meaning => [meaning.name, new Shelf(meaning, { ...behaviour, ...told[meaning.name] })]),
    );
    this.nowMs = nowMs;
  }

  /** Records of the past, some seconds apart, or with many of one second. */
  fill(name: string, records: number, tie: number): void {
    const shelf = this.shelves.get(name)!;
    // A list that begins early shows it where there is something a second earlier.
    const stepMs = (shelf.behaviour.slackMs ?? 0) > 0 ? secondMs : 7 * secondMs;
    const beganMs = this.nowMs - stepMs * (records + 20);
    for (let n = 0; n < records; n++) {
      const place = shelf.behaviour.ties && n >= 3 && n < 3 + tie ? 3 : n;
      this.#add(shelf, beganMs + place * stepMs, 0);
    }
  }

  /** Carries it out, and says what it was. Undefined: there is nothing that it could happen to. */
  happen({ op, stream, x, late }: Happening, tie: number, rng: Rng): string | undefined {
    const shelf = this.shelves.get(stream)!;
    const lateMs = late ? shelf.behaviour.lateMs : 0;
    const living = shelf.living.filter(item => shownOf(item, this.nowMs) !== undefined);
    const item = living[Math.floor(x * living.length)];
    const named = (one: Item) => `${one.id} of ${stream}`;
    const when = lateMs > 0 ? `, listed ${lateMs / secondMs} s late` : '';
    if (op === 'create') {
      const made = this.#add(shelf, this.nowMs, lateMs);
      return `${named(made)} is created${when}`;
    }
    if (item === undefined) return undefined;
    if (op === 'delete') {
      item.deleted = true;
      this.#tellFeeds(stream, item);
      return `${named(item)} is deleted`;
    }
    if (op === 'many') {
      const all = living.slice(0, tie);
      const second = Math.floor(this.nowMs / secondMs) * secondMs;
      if (shelf.meaning.stream.kind === 'created') {
        for (let n = 0; n < tie; n++) this.#add(shelf, second, 0);
        return `${tie} ${stream} are created in one second`;
      }
      for (const one of all) this.#edit(shelf, one, { atMs: second, lateMs: 0, rng });
      return `${all.length} ${stream} are changed in one second: ${all[0]!.id} … ${all.at(-1)!.id}`;
    }
    if (op === 'silent') {
      item.silent = true;
      return `${named(item)} is changed in silence: ${this.#edit(shelf, item, { lateMs: 0, silent: true, rng })}`;
    }
    if (op === 'edit') return `${named(item)} is changed: ${this.#edit(shelf, item, { lateMs, rng })}${when}`;
    const kinds = [...item.details.keys()];
    const kind = kinds[Math.floor(rng() * kinds.length)];
    if (kind === undefined) return undefined;
    const before = item.details.get(kind)!;
    const { record } = this.#detailsOf(kind);
    const edits = ++this.#edits;
    if (op === 'recomment') {
      const [first] = before;
      if (first === undefined) return undefined;
      item.details.set(kind, [{ id: first.id, values: valuesOf(record, item.n, edits) }, ...before.slice(1)]);
      item.silentDetails = true;
      return `${kind} ${first.id} of ${named(item)} is changed in silence`;
    }
    const added = { id: String(before.length + 1 + edits), values: valuesOf(record, item.n, edits) };
    item.details.set(kind, [...before.slice(before.length > 2 ? 1 : 0), added]);
    this.#edit(shelf, item, { lateMs, rng });
    return `${kind} ${added.id} comes to ${named(item)}, which is a change of it${when}`;
  }

  #detailsOf(name: string): DeclaredStream {
    return this.shelves.get(name)!.meaning.stream;
  }

  #add(shelf: Shelf, ms: number, lateMs: number): Item {
    const n = shelf.made++;
    const atMs = grained(ms, shelf.behaviour);
    const { record, kind } = shelf.meaning.stream;
    // The ids of a feed grow.
    const id = kind === 'feed' && shelf.behaviour.order !== 'id' ? String(1001 + n) : idOf(n);
    const parts = Object.fromEntries(
      fieldsThatAre(record, 'children').map(([field, facts]) => [field, partsOf(facts.record!, n)]),
    );
    const values = valuesOf(record, n, 0);
    for (const [field, value] of shelf.meaning.only) values[field] = typed(record, field, value);
    const details = new Map(
      [...this.shelves.values()].flatMap(({ meaning: { stream, name } }) =>
        stream.kind === 'details' && stream.options.parent === shelf.meaning.name
          ? [[name, partsOf(stream.record, n)] as const]
          : [],
      ),
    );
    const version = { shownMs: ms + lateMs, changedMs: atMs, values, parts };
    const item: Item = {
      ...{ id, n, createdMs: atMs, versions: [version], details: details as Map<string, Part[]> },
      ...{ silent: false, silentDetails: false, deleted: false },
    };
    shelf.items.set(id, item);
    return item;
  }

  /** Changes one field, or the parts; says which. */
  #edit(
    shelf: Shelf,
    item: Item,
    { atMs = this.nowMs, lateMs, silent = false, rng }: { atMs?: number; lateMs: number; silent?: boolean; rng: Rng },
  ): string {
    const { record, meaning } = shelf;
    const before = lastOf(item);
    const edits = ++this.#edits;
    const changedMs = silent ? before.changedMs : grained(atMs, shelf.behaviour);
    const fields = editable(record, meaning.times);
    const children = fieldsThatAre(record, 'children');
    const base = { shownMs: atMs + lateMs, changedMs, values: before.values, parts: before.parts };
    // A field by which lists are filtered changes first: nothing else would show that they lack the record then.
    const filtered = fields.filter(([name]) => meaning.only.some(([field]) => field === name));
    const place = Math.floor(rng() * (fields.length + children.length));
    const chosen = silent ? fields.find(one => !filtered.includes(one)) : (filtered[0] ?? fields[place]);
    if (!silent) item.silent = false;
    if (chosen !== undefined) {
      const [name, facts] = chosen;
      const value = otherValue(name, facts, item.n, edits, before.values[name]);
      item.versions.push({ ...base, values: { ...before.values, [name]: value } });
      return `${name} ${JSON.stringify(before.values[name])} → ${JSON.stringify(value)}`;
    }
    const [field, facts] = children[place - fields.length] ?? [];
    if (field === undefined) {
      item.versions.push(base);
      return 'nothing but its time';
    }
    const all = before.parts[field]!;
    const added = { id: String(all.length + edits), values: valuesOf(facts!.record!, item.n, edits) };
    item.versions.push({ ...base, parts: { ...before.parts, [field]: [...all.slice(1), added] } });
    return `${field} ${all[0]?.id ?? ''} → ${added.id}`;
  }

  /** A deletion is an event of each feed that tells of it. */
  #tellFeeds(stream: string, { id }: Item): void {
    for (const shelf of this.shelves.values()) {
      const { stream: declared } = shelf.meaning;
      if (declared.kind !== 'feed' || declared.options.deletes === undefined) continue;
      const { deletes } = declared.options;
      const of = typeof deletes.of === 'string' ? [['', deletes.of] as const] : Object.entries(deletes.of as object);
      // The word `invoice` is of invoices, whatever it is declared for.
      const byName = of.find(([word]) => [word, `${word}s`, `${word}es`].includes(stream));
      const [word] = byName ?? of.find(([, to]) => to === stream) ?? [];
      if (word === undefined) continue;
      const event = this.#add(shelf, this.nowMs, shelf.behaviour.lateMs);
      const [version] = event.versions;
      const named = { [deletes.id]: id, ...('type' in deletes && { [deletes.type]: word }) };
      event.versions[0] = { ...version!, values: { ...version!.values, ...named } };
    }
  }
}

const grained = (ms: number, { grainMs }: Behaviour): number => Math.floor(ms / grainMs) * grainMs;

/** Ids of parts are unique within their record only. */
const partsOf = (record: AnyRecord, n: number): Part[] =>
  Array.from({ length: n % 3 }, (_, k) => ({ id: String(k + 1), values: valuesOf(record, 10 * n + k, 0) }));

function otherValue(name: string, facts: Facts, n: number, version: number, before: unknown): unknown {
  const value = newValue(name, facts, n, version);
  return JSON.stringify(value) === JSON.stringify(before) ? newValue(name, facts, n, version + 1) : value;
}

const typed = ({ fields }: AnyRecord, field: string, value: string): unknown =>
  (fields as Record<string, Facts>)[field]!.type === 'boolean' ? /^(true|1|yes)$/i.test(value) : value;

const iso = (ms: number, grainMs: number): string => {
  const text = new Date(ms).toISOString();
  return grainMs >= secondMs ? `${text.slice(0, 19)}Z` : text;
};

/** A version of a record as the service writes it. */
export function written(
  { id, createdMs }: Item,
  { changedMs, values, parts }: Version,
  { meaning, behaviour: { grainMs } }: Shelf,
): Record<string, unknown> {
  const times = [...meaning.times].map(([name, tells]) => [
    name,
    iso(tells === 'created' ? createdMs : changedMs, grainMs),
  ]);
  const children = Object.entries(parts).map(([field, all]) => [field, all.map(writtenPart)]);
  return {
    ...values,
    ...Object.fromEntries(times),
    ...Object.fromEntries(children),
    id,
  };
}

export const writtenPart = ({ id, values }: Part): Record<string, unknown> => ({ ...values, id });
