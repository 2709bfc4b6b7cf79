/** Replies and notes, whole: what a caller leaves out is there all the same, as null. */
import type { Note, Reply } from './records.ts';

export type NewReply = Partial<Omit<Reply, 'type'>>;
export type NewNote = Partial<Omit<Note, 'type'>>;

/** A reply with everything that was not given: unset fields are null. (Written out: spread objects take more memory.) */
export function wholeReply(reply: NewReply, id: string, created_at: string): Reply {
  return {
    id,
    type: 'reply',
    direction: reply.direction ?? 'in',
    from_name: reply.from_name ?? null,
    from: reply.from ?? null,
    to: reply.to ?? null,
    body: reply.body ?? null,
    more_body: reply.more_body ?? null,
    htmlized: reply.htmlized ?? false,
    attachments: reply.attachments ?? [],
    user_id: reply.user_id ?? null,
    created_at: reply.created_at ?? created_at,
  };
}

export function wholeNote(note: NewNote, id: string, created_at: string): Note {
  return {
    id,
    type: 'note',
    from_name: note.from_name ?? null,
    body: note.body ?? null,
    htmlized: note.htmlized ?? false,
    attachments: note.attachments ?? [],
    user_id: note.user_id ?? null,
    created_at: note.created_at ?? created_at,
  };
}
