import { explore } from './explore.ts';
import { planted, withPlanted } from './planted.ts';
import { slice } from './worlds.ts';

const skip = process.argv[2];
for (const one of planted) {
  if (skip && !`${one.reader} ${one.what}`.includes(skip)) continue;
  const t = performance.now();
  let states = 0;
  console.log(
    one.reader,
    '|',
    one.what,
    '|',
    await withPlanted(one, readers => {
      for (const world of [...slice()]) {
        if (world.reader !== one.reader) continue;
        const { found, states: n } = explore(world.game(readers), { mostStates: 300_000 });
        states += n;
        if (found) return `${found.wrong} | ${world.title} | ${found.story.length}`;
      }
      return 'NOT FOUND';
    }),
    states,
    Math.round(performance.now() - t),
  );
}
