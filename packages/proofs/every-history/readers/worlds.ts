/** The small worlds whose histories are played: for each reader, by how much happens in them. */
import {
  all,
  apartWorlds,
  creationWorlds,
  layouts,
  movingWorlds,
  type Size,
  type SmallWorld,
  shelfWorld,
  shelfWorlds,
  upTo,
  wholeWorld,
  wholeWorlds,
} from './small-worlds.ts';
import { undated, year1970 } from './world.ts';

export const nameOf = ({ reader, title }: SmallWorld): string => `${reader}: ${title}`;

/** What a minute is enough for: few records and changes, and what each planted mistake needs to be found. */
export function* slice(): Generator<SmallWorld> {
  yield* movingWorlds({
    times: [...upTo(4), [0, 0, 0, 0, 0], [1, 1, 1, 3, 3], [0, 0, 1, 1, 1, 1]],
    changes: 0,
    ticks: 1,
    made: ['then', 'together', 'apart'],
    ties: ['id'],
  });
  yield* movingWorlds({ times: upTo(2), changes: 1, ticks: 1, kills: 1 });
  yield* movingWorlds({
    times: [
      [0, 0, 0],
      [0, 1, 2],
      [1, 1, 2],
    ],
    changes: 1,
    ticks: 1,
    kills: 1,
    ties: ['id'],
  });
  yield* movingWorlds({ times: [[3, 3, 3]], changes: 1, ticks: 2, kinds: ['late'], ties: ['id'], pages: [3] });
  yield* movingWorlds({
    times: [[0, 1]],
    changes: 2,
    ticks: 2,
    kinds: ['touch', 'create', 'late'],
    ties: ['id'],
    pages: [3],
  });
  yield* movingWorlds({
    times: [
      [0, 0, 0],
      [0, 0, 0, 0, 0],
    ],
    changes: 2,
    kinds: ['touch', 'behind'],
    ties: ['id'],
    pages: [3],
  });
  // Pages of four are read backwards by three, so that pages overlap. What overlaps nothing needs three changes to be lost.
  yield* movingWorlds({
    ...{ times: [[0, 0, 0, 0, 0]], each: 4, pages: [2], changes: 3 },
    ...{ kinds: ['touch', 'delete', 'behind'], ties: ['id'], date: ['down'] },
  });
  yield* movingWorlds({
    ...{ times: [[0, 0, 0, 0, 0, 0, 0]], each: 4, pages: [2], changes: 2 },
    ...{ kinds: ['touch', 'behind'], ties: ['id'], date: ['down'] },
  });
  yield* movingWorlds({
    times: [[0, 0, 0, 0]],
    changes: 1,
    ticks: 2,
    kinds: ['touch', 'late'],
    pages: [2],
    made: ['apart'],
    ties: ['id'],
  });
  const deep: Size = { times: [[0, 0, 0, 0]], changes: 0, pages: [2], made: ['apart'], ties: ['id'] };
  yield* movingWorlds({ ...deep, ticks: 1, kills: 1 });
  yield* movingWorlds({ ...deep, kills: 1, beside: 'backfill' });
  // A walk by creation that an earlier run has left: it is resumed where it proves more.
  for (const updatedSince of [-2, -1, 0, 1])
    for (const asOf of [0, 1, 2, 3])
      yield* movingWorlds({
        ...{
          times: [
            [0, 1],
            [0, 0, 0],
            [0, 0, 0, 0],
          ],
          changes: 0,
          kills: 1,
          ties: ['id'],
          pages: [2],
        },
        ...{ made: ['then', 'apart'], date: ['up'], walk: { updatedSince, asOf } },
      });
  // A tie beyond paging that is too young to be claimed, and one behind it whose order does not stand still.
  yield* movingWorlds({
    ...{ times: [[3, 3, 3, 3]], changes: 1, ticks: 3, kinds: ['late'], late: [1, 2] },
    ...{ ties: ['id'], pages: [2], made: ['apart'] },
  });
  // One that cannot be walked, is too young to be claimed, and has another one behind it that can be walked.
  yield* movingWorlds({
    ...{
      times: [
        [2, 2, 2, 2, 2, 4, 4, 4, 4, 4],
        [2, 2, 2, 2, 2, 3, 3, 3, 3, 3],
      ],
      changes: 0,
      ticks: 4,
    },
    ...{ ties: ['id'], pages: [2], made: ['apart, the first second together'] },
  });
  yield* movingWorlds({ times: [[0, 2, 2, 2, 4]], changes: 0, ticks: 4, ties: ['id, turning'], pages: [3] });
  yield* movingWorlds({ ...deep, times: [[1, 1, 1, 1]], beside: 'backfill' });
  const behind = [
    [0, 0, 0, 0, 1],
    [0, 0, 0, 0, 1, 1],
    [0, 0, 0, 0, 1, 1, 1, 1],
    [1, 1, 1, 1, 2, 2, 3],
    [2, 2, 2, 4, 4, 4, 4],
  ];
  yield* movingWorlds({ times: behind, changes: 0, ticks: 2, ties: ['id'], pages: [2], made: ['apart', 'together'] });
  yield* movingWorlds({
    ...{
      times: [
        [3, 3, 3, 3, 4, 4, 4],
        [3, 3, 3, 3, 5, 5, 5],
      ],
      changes: 0,
      ticks: 4,
    },
    ...{ ties: ['id, turning'], pages: [2], made: ['apart'] },
  });
  // Times ahead of the clock, on several pages.
  const ahead = [[6], [6, 6, 6], [1, 6, 6, 6], [4, 5, 6, 7], [0, 0, 0, 6, 6, 6], [5, 5, 5, 5, 5]];
  yield* movingWorlds({ times: ahead, changes: 0, ticks: 1, ties: ['id'] });
  // Pages in no order, and pages of records that cannot be read.
  const some = [
    [0, 1],
    [0, 0, 1],
    [0, 0, 0],
    [0, 1, 2],
    [0, 0, 0, 1],
    [0, 1, 1, 2, 2],
  ];
  yield* movingWorlds({ times: some, changes: 2, kinds: ['shuffled'], ticks: 1, ties: ['id'] });
  yield* movingWorlds({ times: some, changes: 0, faults: { reversed: true }, ties: ['id'] });
  for (const unreadable of [[0], [1], [0, 1], [2], [2, 3]])
    yield* movingWorlds({ times: some, changes: 0, faults: { unreadable }, ties: ['id'] });
  // Times with a fraction, of the source and of what is wanted.
  const fraction = { ...{ changes: 0, ticks: 1, kills: 1 }, date: ['with a fraction'], ties: ['id'] } as const;
  const few = [[], [1], [0, 0], [0, 2], [0, 0, 0], [0, 1, 3], [0, 0, 0, 0], [0, 0, 2, 2]];
  yield* movingWorlds({ ...fraction, times: [...few, [3, 3, 3, 3]], made: ['then', 'apart'] });
  yield* movingWorlds({ ...fraction, times: few, made: ['then', 'apart'], ticks: 0, beside: 'backfill' });
  yield* movingWorlds({ ...fraction, times: few, beside: 'backfill' }, 'walk by pages');
  yield* creationWorlds({ ...fraction, times: few });
  yield* creationWorlds({ ...fraction, times: few, changes: 1 }, { updatedSince: 1 });
  // A second whose order does not stand still: it must not be believed.
  yield* movingWorlds({
    times: [
      [0, 0, 0],
      [0, 0, 0, 0, 0],
      [0, 0, 0, 1, 1],
    ],
    ...{ changes: 0, ticks: 3, ties: ['id, turning'], pages: [2, 3] },
  });
  yield* movingWorlds({ times: upTo(2), changes: 1, ticks: 1, ties: ['id'], beside: 'sync', pages: [2] });
  yield* movingWorlds({ times: upTo(3), changes: 1, ticks: 1, ties: ['id'], beside: 'backfill', pages: [2] });
  yield* movingWorlds({ times: layouts(5), changes: 0, ties: ['id'], pages: [2] }, 'walk by pages');
  yield* movingWorlds({ times: upTo(3), changes: 1, ticks: 1, kills: 1, ties: ['id'] }, 'walk by pages');
  // More than paging reaches: in the very first second, with a walk behind it, and in several.
  yield* movingWorlds(
    {
      times: [
        [0, 0, 0, 0, 0, 1, 1],
        [0, 0, 1, 3],
      ],
      ...{ changes: 0, ticks: 1, kills: 1, ties: ['id'] },
    },
    'walk by pages',
  );
  yield* movingWorlds(
    {
      times: [...layouts(4), ...layouts(5, 2), ...layouts(6, 2)],
      changes: 0,
      kills: 1,
      ties: ['id'],
      beside: 'backfill',
    },
    'walk by pages',
  );
  yield* movingWorlds(
    { times: layouts(3, 2), changes: 1, ticks: 1, ties: ['id'], beside: 'backfill', pages: [2] },
    'walk by pages',
  );
  // Counts that stop at what paging reaches.
  yield* movingWorlds(
    { times: [...layouts(4, 2), [0, 0, 0, 0, 1, 2]], changes: 0, ties: ['id'], stops: true, beside: 'backfill' },
    'walk by pages',
  );
  // Ten records of a walk, so that a tenth is one of them.
  const tenth = [
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2],
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2],
    [0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2],
    [0, 0, 0, 0, 0, 0, 1, 1, 1, 3, 3, 3],
  ];
  yield* movingWorlds({ times: tenth, changes: 0, ticks: 1, ties: ['id'], pages: [5] }, 'walk by pages');
  yield* creationWorlds({ times: upTo(3), changes: 1, ticks: 1, ties: ['id'] });
  yield* creationWorlds(
    { times: [[0, 2, 2, 2]], made: ['together'], changes: 2, kinds: ['touch', 'delete'], ties: ['id'] },
    { updatedSince: 1 },
  );
  yield* creationWorlds({
    ...{ times: [[0, 0, 3, 3]], made: ['then'], changes: 2, ticks: 1 },
    ...{ kinds: ['touch', 'delete'], ties: ['change'], pages: [2] },
  });
  // A part of the list.
  for (const part of [{ until: 2 }, { from: 1, until: 3 }, { from: 2 }, { from: 1, until: 2 }]) {
    yield* creationWorlds({ ...{ times: upTo(4), changes: 0, ticks: 1 }, ties: ['id'], date: ['up'] }, part);
    yield* creationWorlds(
      {
        ...{
          times: [
            [1, 1, 1],
            [0, 1, 2],
            [2, 2, 2, 2],
          ],
          changes: 1,
          kinds: ['touch', 'delete'],
        },
        ties: ['id'],
      },
      part,
    );
  }
  // Two ties beyond paging, one behind the other; and ties in no order, before the end of what is wanted.
  yield* creationWorlds({
    times: [
      [0, 0, 0, 0, 1, 1, 1, 1],
      [0, 0, 0, 0, 2, 2, 2, 2],
    ],
    ...{ changes: 0, ticks: 1, ties: ['id'], pages: [2] },
  });
  for (const part of [{}, { until: 2 }, { until: 3 }])
    yield* creationWorlds(
      {
        times: [
          [0, 0, 0],
          [1, 1, 1],
          [0, 2, 2, 2],
        ],
        ...{ changes: 0, ticks: 3, ties: ['id, turning'] },
      },
      part,
    );
  // A first page without a time of creation, and what is older than 1970 behind it.
  const old = [
    [undated, undated],
    [undated, undated, year1970 - 1],
    [undated, undated, year1970 - 1, 0],
    [undated, year1970 - 1, year1970, year1970 + 1],
    [year1970, year1970, year1970 + 1, 0],
    [year1970 - 2, year1970 - 1, year1970 - 1],
    [undated, undated, undated, undated, year1970 - 1, 0],
  ];
  yield* creationWorlds({ times: old, changes: 1, kinds: ['touch', 'delete', 'behind'], ties: ['id'] });
  yield* movingWorlds({
    times: [
      [0, 0, 0, 0, 0],
      [0, 0, 0, 0, 0, 1],
    ],
    ...{ made: ['apart, three of them long ago'], changes: 1, kinds: ['touch', 'delete'], ties: ['id'], pages: [2] },
  });
  yield* apartWorlds(0, 0, all, [
    [0, 0, 0, 0],
    [0, 0, 0, 1, 1],
    [0, 0, 1, 1, 8],
    [0, 0, 1, 1, 8, 8, 9],
    [0, 1, 2, 3, 0, 1],
    [0, 0, 0, 2, 2, 2, 1],
    [0, 0, 0, 4, 4, 4, 1],
    [0, 0, 0, 0, 0, 1],
    [0, 0, 8, 8, 8, 9],
    [0, 1, 1, 1, 8, 8],
    [0, 0, 1, 1, 8, 16],
    [0, 0, 1, 1, 16, 16, 16],
  ]);
  yield* apartWorlds(0, 0, all, [[0, 0, 2, 2, 1]], [[1, 2, 1]]);
  yield* apartWorlds(0, 0, all, [[0, 0, 0, 1, 1, 1, 1]], [[2, 1, 1]], 3);
  yield* apartWorlds(2, 0, ['delete'], [[0, 0, 1, 1, 2, 2, 8]], [[2, 2, 1]]);
  yield* apartWorlds(
    1,
    1,
    ['turn', 'delete', 'touch'],
    [
      [0, 0, 1, 1],
      [0, 0, 0, 1, 1],
    ],
  );
  // A record of the second behind leaves its part before that is read.
  yield* apartWorlds(1, 0, ['turn'], [[0, 1, 2, 3, 8, 8, 9]], [[2, 2, 1]]);
  // What is claimed as of a later reply than the one that showed it would lack this change.
  yield* apartWorlds(1, 3, ['touch'], [[0, 0, 1, 1, 1]], [[2, 1, 1]]);
  for (let n = 0; n <= 4; n++) yield* wholeWorlds(n, 3);
  yield wholeWorld(7, 5, 'place, overlapping', { shrinks: true });
  for (const n of [9, 10, 11, 20]) yield wholeWorld(n, 1, 'number, ten at once', { perPage: 20 });
  for (let n = 0; n <= 3; n++) yield* shelfWorlds(n, 2);
  // One is put in front and taken away in turn: two readings show the same, and lack it.
  for (const counted of [false, true])
    yield shelfWorld({ volumes: [0, 1, 2], known: undefined, look: false, counted, changes: 4, ends: true });
  // One that moves in each reading; and one of which nothing is known that could be looked at.
  for (const known of [undefined, [0]])
    yield shelfWorld({ volumes: [0], known, look: false, counted: false, changes: 5, ends: true });
  for (const known of [undefined, [0, 1, 0]])
    for (const look of known ? [false, true] : [false])
      for (const counted of [false, true])
        yield shelfWorld({ volumes: [0, 1, 0], known, look, counted, changes: 0, twice: true });
  yield shelfWorld({ volumes: [0], known: undefined, look: false, counted: false, changes: 0, pages: 'endless' });
  const ignored = { known: undefined, look: false, counted: false, changes: 0, pages: 'ignored' } as const;
  yield shelfWorld({ ...ignored, volumes: [0, 1], unreadable: 1 });
  yield shelfWorld({ volumes: [0, 1], known: undefined, look: true, counted: false, changes: 1 });
}

/** All worlds, each once: those of the slice, and larger ones. */
export function* worlds(): Generator<SmallWorld> {
  const known = new Set<string>();
  for (const world of [...slice(), ...larger()]) {
    const name = nameOf(world);
    if (!known.has(name)) yield world;
    known.add(name);
  }
}

export function* larger(): Generator<SmallWorld> {
  const every = ['id', 'id down', 'change'] as const;
  yield* movingWorlds({
    times: [...upTo(4), ...layouts(5)],
    changes: 0,
    ticks: 2,
    made: ['then', 'together', 'apart'],
    ties: every,
  });
  yield* movingWorlds({
    times: upTo(4),
    changes: 1,
    ticks: 2,
    kills: 1,
    late: [1, 2],
    ahead: [1, 3],
    made: ['then', 'apart'],
  });
  yield* movingWorlds({ times: upTo(3), changes: 2, ticks: 1, kills: 1 });
  yield* movingWorlds({ times: [...layouts(2), [0, 0, 0], [0, 1, 1], [1, 2, 3]], changes: 2, ticks: 2, kills: 1 });
  yield* movingWorlds({
    times: [
      [0, 0, 0],
      [1, 2, 3],
    ],
    changes: 3,
    ties: ['id'],
  });
  yield* movingWorlds({
    times: [[], [1], [0, 1], [0, 0, 1]],
    changes: 4,
    kinds: ['touch', 'create', 'delete'],
    ties: ['id'],
  });
  yield* movingWorlds({
    times: [
      [0, 0, 0, 0],
      [1, 1, 1, 1],
    ],
    changes: 2,
    ticks: 1,
    kills: 1,
    pages: [2],
    made: ['apart'],
    ties: ['id'],
  });
  yield* movingWorlds({ times: upTo(3), changes: 1, ticks: 1, kills: 1, beside: 'sync', ties: ['id'] });
  yield* movingWorlds({ times: upTo(4), changes: 1, ticks: 1, kills: 1, beside: 'backfill', ties: ['id'] });
  yield* movingWorlds({ times: upTo(4), changes: 2, ticks: 1, kills: 1, ties: ['id'] }, 'walk by pages');
  yield* movingWorlds({ times: layouts(4), changes: 3, ties: ['id'] }, 'walk by pages');
  yield* creationWorlds({ times: upTo(4), changes: 2, ticks: 1, late: [1, 2] });
  yield* creationWorlds({ times: layouts(3), changes: 2, ticks: 1, ties: ['id'] }, { updatedSince: 1 });
  for (let n = 0; n <= 6; n++) yield* wholeWorlds(n, 4);
  for (let n = 0; n <= 4; n++) yield* shelfWorlds(n, n < 2 ? 4 : 3);
  yield shelfWorld({ volumes: [0, 1], known: undefined, look: false, counted: true, changes: 4 });
}
