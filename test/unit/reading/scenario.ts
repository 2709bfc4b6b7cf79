/** What the properties are tried on. FC_RUNS raises the number of cases, FC_SEED takes other ones. */
import fc from 'fast-check';
import type { Cuts, ReadingOptions } from '../../../src/engine/reading/reading.ts';
import { draws } from '../../support/long.ts';
import type { Change, ModelOptions, Second, Ties } from './model.ts';

const { FC_RUNS, FC_SEED } = process.env;

export const runs = (usual: number) => ({
  ...(FC_RUNS ? { numRuns: Number(FC_RUNS) } : draws(usual)),
  seed: FC_SEED ? Number(FC_SEED) : 20_260_301,
});

/** Small, so that what is deep costs little. */
export const perPage = 5;
export const depth = 50;

/** Never exactly as many as the depth: whether more stand behind them, nobody can tell. */
const count = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 3 }) },
  { weight: 3, arbitrary: fc.integer({ min: 4, max: 12 }) },
  { weight: 1, arbitrary: fc.integer({ min: 30, max: depth - 1 }) },
  { weight: 1, arbitrary: fc.integer({ min: depth + 1, max: 70 }) },
);

/** Most records were created when they were updated; the others long before, so many in a second. */
const made = fc.oneof(
  { weight: 3, arbitrary: fc.constant(undefined) },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 12 }) },
  { weight: 1, arbitrary: fc.integer({ min: 13, max: 70 }) },
);

const layout: fc.Arbitrary<Second[]> = fc.array(
  fc.record({ gap: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 4 })), count, made }),
  { maxLength: 12 },
);

/** How many types, users and inboxes there are, and which of them are known: all, none, or all but one. */
const values = fc.record({
  types: fc.constantFrom(1, 2, 5),
  users: fc.constantFrom(1, 3),
  inboxes: fc.constantFrom(1, 3),
  known: fc.constantFrom('all', 'all', 'none', 'a user less', 'a type less'),
});
type Values = typeof values extends fc.Arbitrary<infer V> ? V : never;

function cutsOf({ types, users, inboxes, known }: Values): Cuts | undefined {
  const upTo = (n: number) => Array.from({ length: n }, (_, i) => String(i));
  if (known === 'none') return undefined;
  return {
    types: upTo(known === 'a type less' ? types - 1 : types),
    users: upTo(known === 'a user less' ? users - 1 : users),
    inboxes: upTo(inboxes),
  };
}

/** By how much a count is wrong. */
const miscounted = fc.oneof(
  { weight: 2, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.integer({ min: -100, max: 100 }) },
  { weight: 1, arbitrary: fc.array(fc.integer({ min: -100, max: 100 }), { minLength: 2, maxLength: 3 }) },
);

export const changes = (lookbackMs: number): fc.Arbitrary<Change[]> =>
  fc.array(
    fc.record({
      skip: fc.integer({ min: 0, max: 6 }),
      kind: fc.constantFrom('update', 'update', 'twice', 'bulk', 'create', 'delete', 'future'),
      pick: fc.nat({ max: 200 }),
      count: fc.oneof(
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 40, max: 70 }).filter(n => n !== depth),
      ),
      lateMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: lookbackMs })),
    }),
    { maxLength: 40 },
  );

/** From a network that takes no time to a wait for credits. */
const pace = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: fc.integer({ min: 0, max: 400 }) },
    { weight: 3, arbitrary: fc.integer({ min: 0, max: 2500 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 60_000 }) },
  ),
  { minLength: 1, maxLength: 9 },
);

export interface Scenario {
  readonly model: ModelOptions;
  readonly options: ReadingOptions;
}

export function scenario(ties: readonly Ties[], more: Partial<ModelOptions> = {}): fc.Arbitrary<Scenario> {
  return fc.constantFrom(0, 1000, 3000, 20_000, 120_000).chain(lookbackMs =>
    fc
      .record({
        inclusive: fc.boolean(),
        ties: fc.constantFrom(...ties),
        capped: fc.boolean(),
        miscounted,
        layout,
        values,
        ageMs: fc.oneof(fc.integer({ min: 0, max: 5000 }), fc.integer({ min: 0, max: 300_000 })),
        pace,
        changes: changes(lookbackMs),
      })
      .map(({ values: has, ...model }) => ({
        model: { ...model, ...has, depth, ...more },
        options: { lookbackMs, perPage, depth, cuts: cutsOf(has) },
      })),
  );
}
