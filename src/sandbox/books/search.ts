/** `q`: words and "phrases", all of which have to occur; a prefix such as `inauthor:` says where. */
import type { WorldVolume } from './records.ts';

type Where = (volume: WorldVolume) => (string | undefined)[];

const FIELDS: Record<string, Where> = {
  intitle: ({ info }) => [info.title, info.subtitle],
  inauthor: ({ info }) => info.authors ?? [],
  inpublisher: ({ info }) => [info.publisher],
  subject: ({ info }) => info.categories ?? [],
  isbn: ({ info }) => (info.industryIdentifiers ?? []).map(({ identifier }) => identifier),
};
const ANYWHERE: Where = volume => [volume.info.description, ...Object.values(FIELDS).flatMap(where => where(volume))];

export function matcher(q: string): (volume: WorldVolume) => boolean {
  const terms = [...q.matchAll(/(?:(\w+):)?(?:"([^"]*)"|(\S+))/g)].map(([all, field = '', phrase, word]) => {
    const where = FIELDS[field];
    return { where: where ?? ANYWHERE, text: (where ? (phrase ?? word)! : (phrase ?? all)).toLowerCase() };
  });
  return volume =>
    terms.every(({ where, text }) => where(volume).some(value => value?.toLowerCase().includes(text) ?? false));
}
