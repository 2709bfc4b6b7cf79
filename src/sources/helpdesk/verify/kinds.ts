/** Names the kinds of difference between stored rows and replies. */

import type { Merge } from '../../../engine/commit/merge.ts';
import type { StreamKey } from '../../../engine/database/stream-key.ts';
import type { Differing } from '../../../engine/verify/comparison-sql.ts';
import { kindOfEdit } from '../../../engine/verify/difference-kinds.ts';

const states = new Set(['state', 'snoozed_until']);

/** Update times of a ticket in ms: the stored one and the one in the reply. */
export interface Versions {
  readonly ours: number | null;
  readonly theirs: number;
}

export function kindOf(
  stream: StreamKey,
  merge: Merge,
  found: readonly Differing[],
  { versions, isNote = () => false }: { versions?: Versions; isNote?: (message: string) => boolean } = {},
): string {
  const kind = kindOfEdit(
    merge,
    found,
    ({ 'helpdesk.customers': 'customer edited', 'helpdesk.users': 'user edited' } as Record<string, string>)[stream] ??
      '',
  );
  if (kind !== '') return kind;
  if (versions?.ours != null && versions.theirs > versions.ours) return 'a change was missed';
  const quiet = (what: string) => `${what} do not move updated_at`;
  const kinds = new Set(
    found.map(one => {
      if (stream === 'helpdesk.messages') {
        if (isNote(one.id) || typeOf(one) === 'note') return quiet('note edits');
        return one.at === 'row' ? quiet('messages') : quiet('message edits');
      }
      if (one.field === 'label_ids') return quiet('label edits');
      return quiet(states.has(one.field) ? 'state changes' : 'edits');
    }),
  );
  return [...kinds].sort().join('; ');
}

const typeOf = ({ at, theirs, ours }: Differing): unknown =>
  at === 'row' ? ((theirs ?? ours) as { type?: unknown } | null)?.type : undefined;
