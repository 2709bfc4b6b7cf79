/** Every history of the budget: all that processes, replies and clocks can do in small worlds, against the real ledger. */
import * as product from '../../../src/engine/budget/ledger.ts';
import { type Explored, explore, type SearchOptions } from './ledger/breadth-first.ts';
import { compared } from './ledger/compared.ts';
import { stateWrong } from './ledger/judge.ts';
import { keyOf, momentOf, type Now } from './ledger/state.ts';
import { begin, type Ledger, stepsOf } from './ledger/steps.ts';
import { type World, worlds } from './ledger/worlds.ts';

export { worlds };

export interface LedgerOptions {
  /** Only worlds whose name has this in it. */
  readonly only?: string;
  /** Ends each world after this many states. */
  readonly mostStates?: number;
  /** The functions that are examined; default: those of the product. */
  readonly ledger?: Ledger;
  readonly worlds?: readonly World[];
  /** For the proof that the reductions lose nothing. */
  readonly symmetric?: boolean;
  readonly remembers?: boolean;
}

export interface ExploredWorld extends Explored {
  readonly world: string;
}

export function exploreWorld(
  world: World,
  examined: Ledger = product,
  options: SearchOptions & { symmetric?: boolean } = {},
): Explored {
  const ledger = compared(examined);
  const advanced = (state: Now) => ledger.cancel(state.ledger, momentOf(world, state), '', world.rules);
  let first = begin(world, ledger);
  for (const text of world.after ?? []) {
    const step = [...stepsOf(world, ledger, first)].find(({ says }) => says.includes(text));
    if (!step) throw new Error(`${world.name}: nothing that may come next is "${text}"`);
    first = step.state;
  }
  return explore<Now>(
    {
      begin: first,
      *steps(state) {
        for (const step of stepsOf(world, ledger, state)) yield { ...step, wrong: step.wrong ?? ledger.difference() };
      },
      wrong: state => stateWrong(world, ledger, state) ?? ledger.difference(),
      key: state => keyOf(world, state, advanced(state), options.symmetric),
    },
    options,
  );
}

/** World after world. Stops at the first complaint of each. */
export function* exploreLedger(
  options: LedgerOptions = {},
  onProgress?: (world: string, states: number, transitions: number, depth: number) => void,
): Generator<ExploredWorld> {
  for (const world of options.worlds ?? worlds) {
    if (!world.name.includes(options.only ?? '')) continue;
    const { mostStates, symmetric, remembers } = options;
    const explored = exploreWorld(world, options.ledger, {
      ...(mostStates !== undefined && { mostStates }),
      ...(symmetric !== undefined && { symmetric }),
      ...(remembers !== undefined && { remembers }),
      onProgress: (...told) => onProgress?.(world.name, ...told),
    });
    yield { world: world.name, ...explored };
  }
}
