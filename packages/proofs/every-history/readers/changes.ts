/** What may happen to the records of a list between two requests. */
import { lives, type Rules, type World, without, withVersion } from './world.ts';

/** `shuffled`: a page comes in no order. */
export type Kind = 'touch' | 'create' | 'delete' | 'late' | 'ahead' | 'behind' | 'turn' | 'shuffled';

/** What may happen, each so often in a history; all together `changes` times at most. */
export interface Limits {
  readonly changes: number;
  readonly ticks: number;
  readonly kills: number;
  /** Records at most, with those that are created. */
  readonly records: number;
  readonly kinds: readonly Kind[];
  /** How late a change may show, in seconds; and how old a copy may be that answers. */
  readonly late: readonly number[];
  /** How far ahead a change may be dated. */
  readonly ahead: readonly number[];
  /** A second run beside the first: a sync, or a backfill of the first seconds while the sync reads what follows. */
  readonly beside?: 'sync' | 'backfill' | undefined;
  /** An earlier run has left this walk by creation. */
  readonly walk?: { readonly updatedSince: number; readonly asOf: number } | undefined;
}

export interface Change {
  readonly id: number;
  readonly what: string;
  readonly late: boolean;
  readonly world: (world: World) => World;
}

const names: Readonly<Record<number, string>> = { 1: 'type', 2: 'user', 4: 'inbox' };

export function* changesOf({ items }: World, rules: Rules, limits: Limits): Generator<Change> {
  const may = (kind: Kind) => limits.kinds.includes(kind);
  // A list in the order of creation that does not show times is changed by creations and deletions only.
  const changes = !rules.hidden;
  for (let id = 0; id < items.length; id++) {
    if (!lives(items[id]!)) continue;
    const change = (what: string, how: { late?: number; ahead?: number; turned?: number } = {}): Change => ({
      id,
      what: `record ${id} changes${what}`,
      late: how.late !== undefined,
      world: world => withVersion(world, id, how),
    });
    if (changes && may('touch')) yield change('');
    if (changes && may('late')) for (const late of limits.late) yield change(`, which shows ${late} s later`, { late });
    if (changes && may('ahead')) for (const ahead of limits.ahead) yield change(`, dated ${ahead} s ahead`, { ahead });
    if (may('turn')) for (const turned of [1, 2, 4]) yield change(`: another ${names[turned]}`, { turned });
    if (may('delete')) yield { id, what: `record ${id} is deleted`, late: false, world: world => without(world, id) };
  }
  const id = items.length;
  if (!may('create') || id >= limits.records) return;
  yield { id, what: `record ${id} is created`, late: false, world: world => withVersion(world, id) };
  if (!may('late')) return;
  for (const late of limits.late)
    yield {
      id,
      what: `record ${id} is created, which shows ${late} s later`,
      late: true,
      world: world => withVersion(world, id, { late }),
    };
}
