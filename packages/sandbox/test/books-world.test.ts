import { describe, expect, test } from 'vitest';
import { ODDITIES } from '../src/books/content/content.ts';
import type { WorldShelf } from '../src/books/records.ts';
import { askingBooks, emptyBooks, ME, someBooks } from './books-in-process.ts';
import { rng } from './in-process.ts';

const BEGUN = '2024-05-01T12:00:00.000Z';
const LATER = '2024-05-01T12:00:05.000Z';

describe('a generated catalog', () => {
  test('the same seed gives the same one, another seed another one', () => {
    const shown = (seed: number) => JSON.stringify([...someBooks({ seed }).world.volumes.values()]);
    expect(shown(7)).toBe(shown(7));
    expect(shown(7)).not.toBe(shown(8));
  });

  test('volumes, readers and shelves as they are out there', () => {
    const { world } = someBooks();
    expect(world.volumes.size).toBe(300);
    expect([...world.volumes.keys()].every(id => /^[\w-]{12}$/.test(id))).toBe(true);
    expect([...world.users.keys()]).toContain(ME);
    expect(world.users.size).toBe(5);
    for (const user of world.users.values()) {
      expect([...user.shelves.keys()].slice(0, 9)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
      for (const shelf of user.shelves.values()) {
        expect(shelf.volumes.every(id => world.volumes.has(id))).toBe(true);
        expect(new Set(shelf.volumes).size).toBe(shelf.volumes.length);
        expect([shelf.created, shelf.volumesLastUpdated, shelf.updated].toSorted()[0]).toBe(shelf.created);
        expect(shelf.updated < BEGUN).toBe(true);
      }
    }
    expect(world.shelf(ME, 1001).volumes.length).toBeGreaterThan(200);
    const open = [...world.users.values()].map(({ shelves }) => [...shelves.values()].some(s => s.access === 'PUBLIC'));
    expect(open).toContain(false);
  });

  test('as many volumes as were ordered', () => {
    expect(someBooks({ volumes: 3 }).world.volumes.size).toBe(3);
    expect(someBooks({ volumes: 0 }).world.volumes.size).toBe(0);
  });

  describe('every oddity is in the text of one of the first volumes', () => {
    const { world } = someBooks();
    const { get } = askingBooks(world);
    const texts = [...world.volumes.keys()].slice(0, ODDITIES.length).map(id => get(`/volumes/${id}`).text);
    test.each<[what: string, pattern: RegExp]>([
      ['no authors', /^(?!.*"authors")/],
      ['a century', /"publishedDate":"19\?\?"/],
      ['a year', /"publishedDate":"1999"/],
      ['a month', /"publishedDate":"1999-05"/],
      ['a day', /"publishedDate":"2019-10-03"/],
      ['a time with offset', /"publishedDate":"2019-10-03T00:00:00\+02:00"/],
      ['no date', /^(?!.*"publishedDate")/],
      ['unknown pages', /"pageCount":0,/],
      ['no pages', /^(?!.*"pageCount")/],
      ['a price with exponent', /"amount":1\.334E7,/],
      ['a price beyond int32', /"amount":21474836470,/],
      ['a price beyond what a double holds', /"amount":9007199254740993,/],
      ['a price with a zero at its end', /"amount":0\.10,/],
      ['micros beyond int32', /"amountInMicros":1\.334E13/],
      ['no sale', /^(?!.*"saleInfo")/],
      ['characters beyond the first plane', /𠮷野川/],
      ['from right to left', /حارس المنارة/],
      ['with vowel points', /שִׁירָה/],
      ['emoji with joiners', /👩‍👩‍👧‍👦/],
      ['a series', /"seriesInfo":\{"kind":"books#volume_series_info","bookDisplayNumber":"2"/],
      ['half a volume', /"bookDisplayNumber":"10½"/],
      ['another identifier', /"industryIdentifiers":\[\{"type":"OTHER"/],
      ['an ISBN with X', /"identifier":"155404295X"/],
      ['no identifiers', /^(?!.*"industryIdentifiers")/],
      ['lines and quotes', /A line\.\\r\\n\\tAnother one, \\"quoted\\" \\\\ with <b>/],
      ['a long description', /"description":"(What the tide[^".]*\. ){60}"/],
      ['no description', /^(?!.*"description")/],
      ['a long title', /"title":"(A Very Long Title and ){40}/],
      ['an empty title', /"title":""/],
      ['an author twice', /"authors":\["N\.N\.","N\.N\."\]/],
      ['half a star', /"averageRating":4\.5/],
      ['no cover', /^(?!.*"imageLinks")/],
    ])('%s', (_, pattern) => {
      expect(texts.some(text => pattern.test(text))).toBe(true);
    });

    test('and none of them is null', () => {
      for (const text of texts) expect(text).not.toMatch(/:null|\[null/);
    });
  });

  test('ISBNs have right check digits', () => {
    const all = [...someBooks().world.volumes.values()].flatMap(({ info }) => info.industryIdentifiers ?? []);
    const numbers = all.filter(({ type }) => type === 'ISBN_13').map(({ identifier }) => identifier);
    expect(numbers.length).toBeGreaterThan(100);
    const sum = (isbn: string) => [...isbn].reduce((sum, digit, at) => sum + +digit * (at % 2 ? 3 : 1), 0);
    expect(numbers.filter(isbn => sum(isbn) % 10 !== 0)).toEqual([]);
    const tens = all.filter(({ type }) => type === 'ISBN_10').map(({ identifier }) => identifier);
    const weighed = (isbn: string) =>
      [...isbn].reduce((sum, digit, at) => sum + (digit === 'X' ? 10 : +digit) * (10 - at), 0);
    expect(tens.filter(isbn => weighed(isbn) % 11 !== 0)).toEqual([]);
  });

  test('naughty: text that databases refuse, and only where it was ordered', () => {
    const odd = (naughty: number) => {
      const { world } = someBooks({ naughty });
      const texts = [...world.volumes.values()].map(({ info }) => info.title + (info.description ?? ''));
      return texts.filter(text => text.includes('\0') || !text.isWellFormed()).length;
    };
    expect(odd(0)).toBe(0);
    expect(odd(1)).toBe(300);
    expect(odd(0.1)).toBeGreaterThan(10);
  });
});

describe('operations', () => {
  type Act = (world: ReturnType<typeof emptyBooks>['world']) => unknown;
  const same = { updated: BEGUN, volumesLastUpdated: BEGUN };
  const moved = { updated: LATER, volumesLastUpdated: LATER };
  test.each<[what: string, act: Act, after: Partial<WorldShelf>]>([
    ['add in front', w => w.add(ME, 0, 'c'), { volumes: ['c', 'a', 'b'], ...moved }],
    ['add in the middle', w => w.add(ME, 0, 'c', 1), { volumes: ['a', 'c', 'b'], ...moved }],
    ['add behind the end', w => w.add(ME, 0, 'c', 9), { volumes: ['a', 'b', 'c'], ...moved }],
    ['add what is there', w => w.add(ME, 0, 'b'), { volumes: ['a', 'b'], ...same }],
    ['move', w => w.move(ME, 0, 'b', 0), { volumes: ['b', 'a'], ...moved }],
    ['move to where it is', w => w.move(ME, 0, 'b', 7), { volumes: ['a', 'b'], ...same }],
    ['remove', w => w.remove(ME, 0, 'a'), { volumes: ['b'], ...moved }],
    ['clear', w => w.clear(ME, 0), { volumes: [], ...moved }],
    ['clear an empty one', w => w.clear(ME, 1), { volumes: ['a', 'b'], ...same }],
    ['a volume changes', w => w.changeVolume('a', { title: 'B' }), { volumes: ['a', 'b'], ...same }],
    ['a volume goes', w => w.deleteVolume('a'), { volumes: ['b'], ...moved }],
    [
      'another title and access',
      w => w.changeShelf(ME, 0, { title: 'Best', access: 'PRIVATE' }),
      { title: 'Best', access: 'PRIVATE', volumes: ['a', 'b'], updated: LATER, volumesLastUpdated: BEGUN },
    ],
  ])('%s', (_, act, after) => {
    const { world, clock } = emptyBooks();
    for (const id of 'abc') world.addVolume({ id });
    for (const id of 'ba') world.add(ME, 0, id);
    const before = structuredClone(world.shelf(ME, 0));
    expect(before).toMatchObject({ volumes: ['a', 'b'], ...same });
    clock.ms += 5000;
    act(world);
    expect(world.shelf(ME, 0)).toStrictEqual({ ...before, ...after });
  });

  test('moveShows: a move that nothing tells of', () => {
    const { world, clock } = emptyBooks({ moveShows: false });
    for (const id of 'ab') world.add(ME, 0, world.addVolume({ id }).id);
    clock.ms += 5000;
    expect(world.move(ME, 0, 'a', 0)).toMatchObject({ volumes: ['a', 'b'], ...same });
  });

  test('shelves of one’s own begin above 1000, and no id is taken twice', () => {
    const { world } = emptyBooks();
    expect([world.createShelf(ME).id, world.createShelf(ME).id]).toEqual([1001, 1002]);
    world.deleteShelf(ME, 1001);
    expect(world.createShelf(ME).id).toBe(1003);
    world.addUser('7');
    expect(world.createShelf('7').id).toBe(1001);
    expect(() => world.createShelf(ME, { id: 1003 })).toThrow('has a shelf 1003 already');
    expect(() => world.deleteShelf(ME, 4)).toThrow('Shelf 4 belongs to every user');
  });

  test('a field of a volume that is set to undefined goes away', () => {
    const { world } = emptyBooks();
    world.addVolume({ id: 'a', info: { title: 'A', subtitle: 'S' } });
    expect(world.changeVolume('a', { subtitle: undefined, pageCount: 0 }).info).toStrictEqual({
      title: 'A',
      pageCount: 0,
    });
  });

  test('what is not there is an error', () => {
    const { world } = emptyBooks();
    expect(() => world.add('8', 0, 'a')).toThrow('There is no user 8');
    expect(() => world.add(ME, 1001, 'a')).toThrow('has no shelf 1001');
    expect(() => world.add(ME, 0, 'a')).toThrow('There is no volume a');
    world.addVolume({ id: 'a' });
    expect(() => world.remove(ME, 0, 'a')).toThrow('Shelf 0 does not hold the volume a');
    expect(() => world.addVolume({ id: 'a' })).toThrow('There is a volume a already');
    expect(() => world.addUser(ME)).toThrow('There is a user');
  });
});

describe('life', () => {
  test('thousands of changes: every kind comes, times tell of each, and the catalog stays whole', () => {
    const { world, clock } = someBooks({ volumes: 60 });
    const shelves = () => [...world.users.values()].flatMap(({ shelves }) => [...shelves.values()]);
    const chance = rng(3);
    const kinds = new Set<string>();
    for (let n = 0; n < 2500; n++) {
      clock.ms += 250;
      const before = new Map(shelves().map(shelf => [shelf, [shelf.volumesLastUpdated, shelf.volumes.join()]]));
      kinds.add(world.mutate(chance).kind);
      const untold = shelves().filter(shelf => {
        const [time, volumes] = before.get(shelf) ?? [];
        return before.has(shelf) && (time === shelf.volumesLastUpdated) !== (volumes === shelf.volumes.join());
      });
      expect(untold).toEqual([]);
    }
    expect(kinds.size).toBe(14);
    for (const { volumes } of shelves()) expect(new Set(volumes).size).toBe(volumes.length);
    expect(shelves().every(({ volumes }) => volumes.every(id => world.volumes.has(id)))).toBe(true);
    expect(shelves().filter(({ volumes }) => volumes.length > 0).length).toBeGreaterThan(10);
  });

  test('a kind that is left out does not come; in an empty catalog something happens too', () => {
    const { world } = emptyBooks();
    const chance = rng(4);
    const kinds = Array.from({ length: 300 }, () => world.mutate(chance, ['moved', 'shelf created']).kind);
    expect(kinds).not.toContain('moved');
    expect(kinds).not.toContain('shelf created');
    expect(world.volumes.size).toBeGreaterThan(5);
  });
});
