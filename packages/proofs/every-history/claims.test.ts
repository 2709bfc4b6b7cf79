/** A slice of every history of the claims, and that each planted mistake is found. The whole: `npm run every-history`. */
import { describe, expect, test } from 'vitest';
import * as workers from '../../../src/engine/runs/workers.ts';
import * as living from '../../../src/status/workers.ts';
import { long } from '../../../test/support/long.ts';
import { freshDatabase } from '../../../test/support/postgres.ts';
import { plantedInClaims, plantedInPresence } from './claims/planted.ts';
import { playPresence, presencePlays } from './claims/presence.ts';
import { claimsWorlds, exploreClaims, loadProduct, raceClaims } from './claims.ts';
import { someOf, withMistake } from './planted.ts';

const quickRaces = [
  'after nothing: worker 1 takes up tickets of run 1 as job a, while a person ends run 1',
  'worker 1 claims the slot of nightly at minute -60, while worker 2 claims the slot of nightly at minute 0',
  'worker 1 finishes tickets of run 1 under token 1, while worker 2 finishes books.shelves of run 1 under token 1',
];
const complaintsOf = async (url: string, options: Parameters<typeof exploreClaims>[1]) => {
  const complaints = [];
  for await (const { complaint } of exploreClaims(url, options)) if (complaint) complaints.push(complaint);
  return complaints;
};
/** What is wrong with each pair of acts. */
const racesOf = async (url: string, options: Parameters<typeof raceClaims>[1]) => {
  const complaints = [];
  for await (const { complaint } of raceClaims(url, options)) complaints.push(complaint);
  return complaints;
};

describe('every history of the claims', () => {
  test.for(claimsWorlds.map(({ name }) => name))('nothing is wrong in: %s', async name => {
    await using db = await freshDatabase();
    expect(await complaintsOf(db.url, { only: name, mostStates: 50 })).toEqual([]);
  });

  test.for(quickRaces)('two at once, in every order of the statements, %s', async only => {
    await using db = await freshDatabase();
    expect(await racesOf(db.url, { only })).toEqual([undefined]);
  });

  test.for(someOf(Object.entries(plantedInClaims)))('is wrong where %s', long, async ([, { mistakes, foundIn }]) => {
    await using db = await freshDatabase();
    using mistaken = await withMistake('src/engine/runs/claims.ts', mistakes);
    const product = await loadProduct(mistaken.load);
    const complaints =
      'race' in foundIn
        ? (await racesOf(db.url, { product, only: foundIn.race })).filter(complaint => complaint !== undefined)
        : await complaintsOf(db.url, { product, only: foundIn.world, mostStates: 1500 });
    expect(complaints).not.toEqual([]);
  });
});

describe('every history of who lives', () => {
  const product = { ...workers, ...living };

  test('nothing is wrong after one event', async () => {
    await using db = await freshDatabase();
    expect(await playPresence(db.url, product, { most: 1 })).toEqual({ histories: 7 });
  });

  test.for(presencePlays.slice(1, -1))('nothing is wrong after more: %j', long, async plays => {
    await using db = await freshDatabase();
    expect(await playPresence(db.url, product, plays)).not.toHaveProperty('complaint');
  });

  test.for(someOf(Object.entries(plantedInPresence)))('is wrong where %s', long, async ([, { mistakes, foundIn }]) => {
    await using db = await freshDatabase();
    using mistaken = await withMistake<typeof workers>('src/engine/runs/workers.ts', mistakes);
    const read: typeof living = await mistaken.load('src/status/workers.ts');
    expect(await playPresence(db.url, { ...mistaken.module, ...read }, foundIn)).toHaveProperty('complaint');
  });
});
