/** What the program uses of this package. */
import { askLake, askOnce } from './ask.ts';
import { compareLake } from './compare.ts';
import { hasFiles, isBucket, type Lake, makeFolder, openForQuestions, openLake } from './duckdb.ts';
import { hideBounds } from './erase-files.ts';
import { exportTo, stagePart } from './export.ts';
import type { Program } from './program.ts';
import { tidy } from './tidy.ts';

/** The lake of one program. */
export const lakeOf = (program: Program) => ({
  ...{ hasFiles, isBucket, exportTo, stagePart, compareLake, tidy, hideBounds },
  openLake: openLake.bind(null, program),
  openForQuestions: openForQuestions.bind(null, program),
  makeFolder: makeFolder.bind(null, program),
  askOnce: <T>(lake: Lake, question: string) => askOnce<T>(program, lake, question),
  askLake: askLake.bind(null, program),
});
