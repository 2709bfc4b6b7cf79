/** `source new`: writes the draft of a source into the folder of the sources. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join, parse, relative } from 'node:path';
import type { Command } from 'commander';
import { folderOfSources } from '../../app/environment.ts';
import { UsageError } from '../../errors.ts';
import { sources } from '../../sources/index.ts';
import { refuseName } from '../../sources/service/names.ts';
import { count } from '../../words.ts';
import type { Act, Deps } from '../command.ts';
import { print, say } from '../output/terminal.ts';

/** Where sources stand if no setting says so. */
const usualFolder = 'sources';

export function addNewSource(source: Command, _deps: Deps, act: Act): void {
  source
    .command('new')
    .description('write a draft of a source, with a question wherever only the service can answer')
    .argument('<name>', 'name of the source, and of its schema: small letters, digits and underscores')
    .action(
      act(async (name: string) => {
        refuseName(name, sources);
        const { folder = usualFolder } = folderOfSources() ?? {};
        const { fileOf, questionsIn } = await import('../../sources/skeleton/draft.ts');
        const { smallDraft } = await import('../../sources/skeleton/small.ts');
        const { namesOnce } = await import('../../sources/skeleton/names.ts');
        const text = fileOf(smallDraft(name, namesOnce()(name)));
        const file = write(folder, name, text);
        print(file);
        say(
          `${count(questionsIn(text), 'question')} in it, each behind "// ?". The guide: docs/how-to/add-a-source.md`,
        );
        if (folderOfSources() === undefined)
          say(`Set SHELFDESK_SOURCES=${usualFolder} in .env, so that the folder is read.`);
        say(
          `Then set ${name.toUpperCase()}_BASE_URL and ${name.toUpperCase()}_KEY, and see what a sync takes: \`shelfdesk plan\`.`,
        );
      }),
    );
}

/** Throws UsageError if the folder has a file of this name. */
function write(folder: string, name: string, text: string): string {
  mkdirSync(folder, { recursive: true });
  const there = readdirSync(folder).find(file => parse(file).name === name);
  if (there !== undefined)
    throw new UsageError(
      `${join(folder, there)} is there already`,
      'Give the source another name, or move the file away.',
    );
  const file = join(folder, `${name}.ts`);
  writeFileSync(file, text, { flag: 'wx' });
  return relative(process.cwd(), file);
}
