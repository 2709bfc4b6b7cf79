/** `source new`: writes the draft of a source into the folder of the sources. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join, parse, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { folderOfSources } from '../../app/environment.ts';
import { UsageError } from '../../errors.ts';
import { sources } from '../../sources/index.ts';
import { refuseName } from '../../sources/service/names.ts';
import type { Draft } from '../../sources/skeleton/draft.ts';
import { count } from '../../words.ts';
import { type Act, type Deps, note } from '../command.ts';
import { print, say } from '../output/terminal.ts';

/** Where sources stand if no setting says so. */
const usualFolder = 'sources';

export function addNewSource(source: Command, deps: Deps, act: Act): void {
  source
    .command('new')
    .description('write a draft of a source, with a question wherever only the service can answer')
    .argument('<name>', 'name of the source, and of its schema: small letters, digits and underscores')
    .option(
      '--openapi <file>',
      'file or address of an OpenAPI 3 or Swagger 2 document, JSON or YAML, to take lists and records from',
    )
    .addHelpText('after', note('An existing file is never overwritten.'))
    .action(
      act(async (name: string, { openapi }: { openapi?: string }) => {
        refuseName(name, sources);
        const { folder = usualFolder } = folderOfSources() ?? {};
        const { fileOf, questionsIn } = await import('../../sources/skeleton/draft.ts');
        const text = fileOf(openapi === undefined ? await emptyDraft(name) : await draftFrom(openapi, name, deps));
        const file = write(folder, name, text);
        print(file);
        say(
          `${count(questionsIn(text), 'question')} in it, each behind "// ?". The guide: ${inDocs('how-to/add-a-source.md')}`,
        );
        if (folderOfSources() === undefined)
          say(`Set SHELFDESK_SOURCES=${usualFolder} in .env, so that the folder is read.`);
        say(`For an agent that fills it in: ${inDocs('skills/shelfdesk-source/SKILL.md')}`);
        say(
          `Then set ${name.toUpperCase()}_BASE_URL and ${name.toUpperCase()}_KEY, and see whether the service does so: \`shelfdesk source try ${name}\`.`,
        );
      }),
    );
}

/** A document of the clone, or of the package. */
const inDocs = (name: string): string =>
  relative(process.cwd(), fileURLToPath(new URL(`../../../docs/${name}`, import.meta.url)));

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

async function emptyDraft(name: string): Promise<Draft> {
  const { smallDraft } = await import('../../sources/skeleton/small.ts');
  const { namesOnce } = await import('../../sources/skeleton/names.ts');
  return smallDraft(name, namesOnce()(name));
}

async function draftFrom(place: string, name: string, deps: Deps): Promise<Draft> {
  const { readDocument, shownPlace } = await import('../../app/files/read-document.ts');
  const { documentOf } = await import('../../sources/skeleton/openapi/document.ts');
  const { draftOf } = await import('../../sources/skeleton/openapi/from-document.ts');
  const document = documentOf(await readDocument(place, () => deps.fleet().proxies));
  if (document === undefined)
    throw new UsageError(
      `${shownPlace(place)} is no OpenAPI document`,
      'Name one of OpenAPI 3 or Swagger 2, with its paths.',
    );
  const draft = draftOf(document, name);
  if (draft.streams.length > 0) return draft;
  throw new UsageError(
    `${shownPlace(place)} has no list of records with an id`,
    `Write it by hand: \`npx shelfdesk source new ${name}\` without --openapi.`,
  );
}
