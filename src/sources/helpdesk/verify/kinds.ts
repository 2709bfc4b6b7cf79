/** Names the kinds of difference between stored messages and replies. */

import type { Merge } from '../../../engine/commit/merge.ts';
import type { Differing } from '../../../engine/verify/comparison-sql.ts';
import { kindOfEdit, kindsOfQuiet } from '../../../engine/verify/difference-kinds.ts';

export function kindOfMessages(
  merge: Merge,
  found: readonly Differing[],
  isNote: (message: string) => boolean,
): string {
  const kind = kindOfEdit(merge, found, '');
  if (kind !== '') return kind;
  const edits = found.map(one => {
    if (isNote(one.id) || typeOf(one) === 'note') return 'note edits';
    return one.at === 'row' ? 'messages' : 'message edits';
  });
  return kindsOfQuiet(edits, 'updated_at');
}

const typeOf = ({ at, theirs, ours }: Differing): unknown =>
  at === 'row' ? ((theirs ?? ours) as { type?: unknown } | null)?.type : undefined;
