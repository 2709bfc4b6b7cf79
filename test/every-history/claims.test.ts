/** A slice of every history of the claims, and that each planted mistake is found. The whole: `npm run every-history`. */
import { describe, expect, test } from 'vitest';
import { long } from '../support/long.ts';
import { freshDatabase } from '../support/postgres.ts';
import { plantedInClaims } from './claims/planted.ts';
import { claimsWorlds, exploreClaims, loadProduct, raceClaims } from './claims.ts';
import { withMistake } from './planted.ts';

const complaintsOf = async (url: string, options: Parameters<typeof exploreClaims>[1]) => {
  const complaints = [];
  for await (const { complaint } of exploreClaims(url, options)) if (complaint) complaints.push(complaint);
  return complaints;
};
const complaintsOfRaces = async (url: string, options: Parameters<typeof raceClaims>[1]) => {
  const complaints = [];
  for await (const { complaint } of raceClaims(url, options)) if (complaint) complaints.push(complaint);
  return complaints;
};

describe('every history of the claims', () => {
  test.for(claimsWorlds.map(({ name }) => name))('nothing is wrong in: %s', async name => {
    await using db = await freshDatabase();
    expect(await complaintsOf(db.url, { only: name, mostStates: 60 })).toEqual([]);
  });

  test('a stream that ends while it is taken up, in every order of the statements', async () => {
    await using db = await freshDatabase();
    const only = 'after nothing: worker 1 takes up tickets of run 1 as job a, while a person ends run 1';
    expect(await complaintsOfRaces(db.url, { only })).toEqual([]);
  });

  test.for(Object.entries(plantedInClaims))('is wrong where %s', long, async ([, { mistakes, foundIn }]) => {
    await using db = await freshDatabase();
    using mistaken = await withMistake('src/engine/runs/claims.ts', mistakes);
    const product = await loadProduct(mistaken.load);
    const complaints =
      'race' in foundIn
        ? await complaintsOfRaces(db.url, { product, only: foundIn.race })
        : await complaintsOf(db.url, { product, only: foundIn.world, mostStates: 1500 });
    expect(complaints).not.toEqual([]);
  });
});
