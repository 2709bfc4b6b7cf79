/** Refuses declarations that would keep personal data readable, that erasure would not find, or that fail later. */
import { fieldOf } from '../engine/commit/merge.ts';
import { nearest } from '../engine/http/rules/parse-field-rules.ts';
import { lacksVersion, readMovingList } from '../engine/reading/moving-list.ts';
import { UsageError } from '../errors.ts';
import type { Declared, ListStream, Row } from './source.ts';

type Checked = Pick<Declared, 'source' | 'key' | 'merge' | 'personal' | 'unsaid' | 'fields' | 'rowFacts'> &
  Partial<Pick<ListStream<Row>, 'read'>> & { readonly get?: unknown };

/** Throws UsageError that names the source, the stream and the column. */
export function checkDeclarations(streams: readonly Checked[]): void {
  for (const { source, key, merge, personal, unsaid = [], fields, read, get, rowFacts } of streams) {
    const refuse = (what: string, remedy: string) => new UsageError(`source ${source}: stream ${key} ${what}`, remedy);
    const columns = [merge.declared.root, ...merge.declared.others].flatMap(table => table.columns);
    const told = [
      ['columns', 'column', columns.map(({ name }) => name)],
      ['contacts', 'field', [...fields, ...columns.map(fieldOf)]],
    ] as const;
    for (const [list, one, names] of told) {
      const wrong = personal?.[list].find(name => !names.includes(name));
      if (wrong !== undefined)
        throw refuse(
          `has no ${one} ${wrong}, which its personal.${list} name; the nearest is ${nearest(wrong, names)}`,
          `Correct personal.${list} of ${key}.`,
        );
    }
    if (rowFacts && get === undefined)
      throw refuse('declares rowFacts and no get, by which deletions are confirmed', `Declare get of ${key}.`);
    if (rowFacts && merge.declared.root.name !== key)
      throw refuse(
        `declares rowFacts of the table ${merge.declared.root.name}`,
        `Give the table the name of the stream, ${key}.`,
      );
    if (read === readMovingList && merge.declared.root.version === undefined) throw lacksVersion(key);
    if (unsaid[0] !== undefined)
      throw refuse(
        `does not say whether the text column ${unsaid[0]} is personal`,
        `Name it in personal.columns of ${key}, or declare it as plain(…) if it tells of nobody.`,
      );
  }
}
