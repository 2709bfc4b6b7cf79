/** The limits of a stream in words, derived from its declaration. */
import type { Stream } from './source.ts';

/** Sentences, such as `Deletions of crm.contacts are not known: the list hides archived contacts.` */
export function cannotOf(stream: Stream): string[] {
  const { key, jobs } = stream;
  const deletions = stream.kind === 'list' ? stream.deletions : 'whole list';
  return [
    ...(typeof deletions === 'object' ? [`Deletions of ${key} are not known: ${deletions.unknown}.`] : []),
    ...(deletions === 'verify' ? [`Deletions of ${key} show in \`verify --full\` only.`] : []),
    ...(jobs.verify === undefined ? [`Rows of ${key} cannot be compared with the source.`] : []),
  ];
}
