/** The name of a source, which is that of its schema too. */
import { UsageError } from '../../errors.ts';
import { columnNameOf } from '../record/record.ts';

/** Schemas that are there already. */
export const takenSchema = /^(sync|safe|analytics|internal|lake|public|information_schema|pg_.*)$/;
export const longestName = 40;
export const isName = (name: string) =>
  /^[a-z][a-z0-9_]*$/.test(name) && columnNameOf(name) === name && name.length <= longestName;

/** Throws UsageError if no source can have this name beside the others. */
export function refuseName(name: string, others: readonly { readonly name: string }[]): void {
  if (!isName(name))
    throw new UsageError(
      `${name} is no name of a source`,
      `Take small letters, digits and underscores, at most ${longestName}, and no word that SQL reserves.`,
    );
  if (takenSchema.test(name) || others.some(one => one.name === name))
    throw new UsageError(`a schema ${name} is there already`, 'Give the source another name.');
}
