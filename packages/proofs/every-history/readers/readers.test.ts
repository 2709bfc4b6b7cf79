/** The saving of the search loses nothing, planted mistakes are found, and the readers hold in every history of the slice. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { amount, long } from '../../../../test/support/long.ts';
import { someOf } from '../planted.ts';
import { explore } from './explore.ts';
import { planted, withPlanted } from './planted.ts';
import { movingWorlds, readers } from './small-worlds.ts';
import { worlds as all, larger, nameOf, slice } from './worlds.ts';

const worlds = [...slice()];
const bySize = worlds.toSorted((a, b) => a.size - b.size);
const kinds = [...new Set(worlds.map(({ reader }) => reader))];

const page = readFileSync(new URL('../../../../docs/contributing/every-history.md', import.meta.url), 'utf8');

/** The table of the page: the mistake, and the world that finds it. */
const told = new Map(
  [...page.matchAll(/^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$/gm)].map(([, reader, what, title]) => [
    `${reader!.trim()}: ${what!.trim()}`,
    title!.trim(),
  ]),
);

describe('the worlds', () => {
  test('are those of the slice, and more', () => {
    const names = new Set([...all()].map(nameOf));
    expect(worlds.map(nameOf).filter(name => !names.has(name))).toEqual([]);
    expect(names.size).toBeGreaterThan(2 * worlds.length);
  });

  test('are told by their titles: worlds with one title are made alike', () => {
    const alike = [...Map.groupBy([...slice(), ...larger()], nameOf)];
    const differ = alike.filter(([, some]) => new Set(some.map(({ parts }) => JSON.stringify(parts))).size > 1);
    expect(differ.map(([name]) => name)).toEqual([]);
  });
});

describe('every history', () => {
  test.each(kinds)('of the smallest worlds: %s', reader => {
    const small = bySize.filter(world => world.reader === reader).slice(0, 40);
    expect(small.length).toBeGreaterThan(3);
    for (const { title, game } of small) expect(explore(game(readers)).found, title).toBeUndefined();
  });

  test.each(kinds)('of the slice: %s', long, reader => {
    let histories = 0;
    const some = worlds.filter(world => world.reader === reader).filter((_, n) => n % amount(1, 5) === 0);
    for (const { title, game } of some) {
      const explored = explore(game(readers));
      expect(explored.found, title).toBeUndefined();
      histories += explored.histories;
    }
    expect(histories).toBeGreaterThan(100);
  });

  test('is counted as the page says', () => {
    const told = [...page.matchAll(/^\| (\d+) +\| (\d+) +\| (\d+) +\| (\d+) +\|$/gm)].map(([, ...row]) =>
      row.map(Number),
    );
    expect(told.length).toBeGreaterThan(3);
    for (const [changes, ticks, kills, histories] of told) {
      const [world] = movingWorlds({
        times: [[1]],
        changes: changes!,
        ticks: ticks!,
        kills: kills!,
        ties: ['id'],
        pages: [2],
      });
      expect(explore(world!.game(readers), { again: true }).histories, world!.title).toBe(histories);
    }
  });

  test('is counted, though no state is played twice: without the saving there are as many', () => {
    for (const reader of kinds) {
      const world = bySize.filter(one => one.reader === reader)[4];
      const once = explore(world!.game(readers));
      const again = explore(world!.game(readers), { again: true });
      expect(again.histories, world!.title).toBe(once.histories);
      expect(again.states).toBeGreaterThanOrEqual(once.states);
    }
  });
});

describe('planted mistakes', () => {
  test('stand in the table of the page, each with the world that finds it', () => {
    expect(planted.length).toBeGreaterThan(20);
    for (const { reader, what } of planted)
      expect(worlds.map(({ title }) => title)).toContain(told.get(`${reader}: ${what}`));
  });

  test.each(someOf(planted).map(one => [`${one.reader}: ${one.what}`, one] as const))('%s', long, async (name, one) => {
    const world = worlds.find(({ reader, title }) => reader === one.reader && title === told.get(name))!;
    const found = await withPlanted(one, mistaken => explore(world.game(mistaken)).found);
    expect(found?.story.length, 'steps of the story').toBeGreaterThan(0);
    expect(explore(world.game(readers)).found).toBeUndefined();
  });
});
