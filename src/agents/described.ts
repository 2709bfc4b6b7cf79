/** The dictionary, as short text: what is there, and the columns of one relation. */
import { nameOf, type Schema } from '../analytics/catalog.ts';
import { UsageError } from '../errors.ts';
import { brief } from './guide.ts';

export function describeAll(schemas: readonly Schema[]): string {
  return schemas
    .map(({ name, comment, relations }) =>
      [`## ${name}: ${comment}`, ...relations.map(one => `- ${nameOf(one)}: ${brief(one.comment)}`)].join('\n'),
    )
    .join('\n\n');
}

/** `name` may lack its schema. Throws UsageError if there is no such relation. */
export function describeOne(schemas: readonly Schema[], name: string): string {
  const all = schemas.flatMap(({ relations }) => relations);
  const found = all.find(one => nameOf(one) === name) ?? all.find(one => one.name === name);
  if (found === undefined)
    throw new UsageError(`there is no relation ${name}`, 'Call dictionary without a relation to see all.');
  const { kind, comment, columns, key } = found;
  const keys = key.length > 0 ? ` Key: ${key.join(', ')}.` : '';
  return [
    `# ${nameOf(found)} (${kind})`,
    `${comment}${keys}`,
    ...columns.map(one => `- ${one.name} (${one.type}): ${one.comment}`),
  ].join('\n');
}
