/** The facts about a ticket or a stream as a masked reader sees them: ids, times, states and numbers, without texts. */
import type { StreamStatus } from '../status/streams.ts';

/** How texts and changed fields are shown. */
export interface Shown {
  text<T extends string | null>(text: T): T;
  /** Old and new values by column. */
  fields(fields: Record<string, [unknown, unknown]>): Record<string, [unknown, unknown]>;
}

const hidden = 'masked';

/** Whether the values of a column are neither names of people nor texts. All other columns are hidden. */
const isPlain = (column: string) =>
  /(^|_)(id|ids|at|after|until|of|by)$/.test(column) || ['state', 'type', 'direction', 'position'].includes(column);
const isBare = (value: unknown) =>
  value === null || value === undefined || typeof value === 'boolean' || typeof value === 'number';

export const masked: Shown = {
  text: text => (text === null || text === '' ? text : (hidden as typeof text)),
  fields: fields =>
    Object.fromEntries(
      Object.entries(fields).map(([column, values]) => {
        const [before, after] = values.map(value => (isPlain(column) || isBare(value) ? value : hidden));
        return [column, [before, after]];
      }),
    ),
};

export const unmasked: Shown = { text: text => text, fields: fields => fields };

/** An error may quote the source. */
export const statusShown = (streams: readonly StreamStatus[], { text }: Shown): StreamStatus[] =>
  streams.map(one => ({
    ...one,
    last_error: text(one.last_error),
    gaps: one.gaps.map(gap => ({ ...gap, reason: text(gap.reason) })),
  }));
