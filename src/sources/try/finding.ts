/** What a try of a source finds, and how it is noted. A finding names fields, types and ids, and no other value of a record. */
import { z } from 'zod';

/**
 * `wrong`: the service does otherwise than declared, and the mirror would be wrong. `note`: the declaration can be better.
 * `seen`: what the service does, as declared or of its own choice. `open`: what its records do not tell. `untried`: a stream that the
 * service does not show.
 */
export type Weight = 'wrong' | 'note' | 'seen' | 'open' | 'untried';

/** How the service behaves, for `source test`, which reads it from a file. What is left out nothing tells. */
export const tells = z.strictObject({
  order: z.enum(['declared', 'id', 'descending']).exactOptional(),
  since: z.literal('ignored').exactOptional(),
  /** Whether the start of a list includes its own time. */
  inclusive: z.boolean().exactOptional(),
  /** Times are compared in whole steps of this. */
  grainMs: z.number().exactOptional(),
  /** A list begins so much earlier than it is asked for. */
  slackMs: z.number().exactOptional(),
  /** The largest page, as a share of what is declared. */
  cap: z.number().exactOptional(),
});
export type Tells = Readonly<z.infer<typeof tells>>;

export interface Finding {
  readonly weight: Weight;
  /** Undefined: it is of the service. */
  readonly stream: string | undefined;
  readonly what: string;
  /** The line of the declaration, as `sources/crm.ts:34`. */
  readonly at?: string | undefined;
  /** The line to write there. */
  readonly change?: string | undefined;
  readonly tells?: Tells | undefined;
}

/** Notes findings of one stream. */
export interface Notes {
  wrong(what: string, at: string | undefined, change: string, tells?: Tells): void;
  note(what: string, at: string | undefined, change: string): void;
  seen(what: string, tells?: Tells): void;
  open(what: string): void;
  untried(what: string): void;
}

export function notesOf(all: Finding[], stream: string | undefined): Notes {
  return {
    wrong: (what, at, change, tells) => void all.push({ weight: 'wrong', stream, what, at, change, tells }),
    note: (what, at, change) => void all.push({ weight: 'note', stream, what, at, change }),
    seen: (what, tells) => void all.push({ weight: 'seen', stream, what, tells }),
    open: what => void all.push({ weight: 'open', stream, what }),
    untried: what => void all.push({ weight: 'untried', stream, what }),
  };
}
