/** Hostile records among ordinary ones: a hundred with every test run, 300 in CI, 4,000 with `npm run prove`, any number with `npm run fuzz`. See docs/contributing/breaking-it.md. */
import { expect, test } from 'vitest';
import { amount } from '../../../test/support/long.ts';
import { freshDatabase } from '../../../test/support/postgres.ts';
import { Fuzz } from './commit.ts';
import { inOneWorld, runWorld } from './over-http.ts';

const cases = amount(4_000, 300, 100);
const worlds = amount(5, 1);

test.for([{ erased: false }, { erased: true }])(
  `${cases / 2} hostile records cost no other record anything (somebody was erased: $erased)`,
  async ({ erased }) => {
    const db = await freshDatabase();
    await using fuzz = await Fuzz.open(db, { erased });
    const complaints: string[] = [];
    for (let seed = erased ? 2 : 1; seed <= cases; seed += 2)
      complaints.push(...(await fuzz.run(seed)).map(what => `seed ${seed}: ${what}`));
    expect([...complaints, ...(await fuzz.readViews())]).toEqual([]);
  },
);

test.for(Array.from({ length: worlds }, (_, n) => 1 + n * inOneWorld))(
  'in a whole help desk, from seed %i on',
  async seed => {
    expect(await runWorld(seed)).toEqual([]);
  },
);
