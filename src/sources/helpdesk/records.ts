/**
 * Schemas of the help desk's records (spec, Resources and their fields). Optional fields may be null or absent; unknown
 * fields and unknown enumeration values pass. Fields that identify and order a record are required. Without a valid
 * value the record is rejected.
 */
import { z } from 'zod';

/**
 * Ids are opaque text. Text that PostgreSQL cannot store or index is rejected, because a cleaned or truncated id might
 * equal another record's id. `.` and `..` would change the path of a URL.
 */
const id = z
  .string()
  .min(1)
  .max(500)
  .refine(value => value.isWellFormed() && !value.includes('\0') && !/^\.\.?$/.test(value), { error: 'not an id' });
const text = z.string().nullish();
const flag = z.boolean().nullish();

/**
 * ISO 8601 time in UTC. Offsets and fractions are accepted; a time without an offset is UTC. Impossible dates are
 * rejected.
 */
const time = z.string().refine(value => !Number.isNaN(timeOf(value)), { error: 'not an ISO 8601 time' });

const withOffset = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)$/i;
const withoutOffset = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?$/i;

/** Range of times with a four-digit year, because requests carry times in that format. */
const [earliest, latest] = [Date.parse('0000-01-01T00:00:00Z'), Date.parse('9999-12-31T23:59:59.999Z')];

/** Parses a time to ms since 1970. NaN for invalid times, and for times outside the four-digit years in UTC. */
export function timeOf(text: string): number {
  const offset = withOffset.test(text) ? '' : 'Z';
  if (offset !== '' && !withoutOffset.test(text)) return Number.NaN;
  const ms = Date.parse(text + offset);
  return ms >= earliest && ms <= latest ? ms : Number.NaN;
}

/** An integer of any size. A double may round it; PostgreSQL reads the digits of the reply. */
const integer = z.number().refine(Number.isInteger, 'expected an integer');

export const ticket = z.looseObject({
  id,
  number: integer.nullish(),
  customer_id: text,
  user_id: text,
  inbox_id: text,
  label_ids: z.array(z.string()).nullish(),
  state: text,
  snoozed_until: time.nullish(),
  subject: text,
  type: text,
  spam: flag,
  trash: flag,
  updated_at: time,
  created_at: time.nullish(),
  reply_to: text,
  reply_cc: text,
  summary: text,
});

export const attachment = z.looseObject({
  id,
  name: text,
  size: integer.nullish(),
  type: text,
});

export const message = z.looseObject({
  id,
  type: text,
  direction: text,
  user_id: text,
  from_name: text,
  from: text,
  to: text,
  body: text,
  more_body: text,
  htmlized: flag,
  created_at: time.nullish(),
  attachments: z.array(attachment).nullish(),
});

export const name = z.looseObject({ id, name: text });

/**
 * A ticket with embedded records. Messages and names are checked one by one, so that one invalid record does not reject
 * the others.
 */
export const ticketInDetail = ticket.extend({
  messages: z.array(z.unknown()),
  labels: z.unknown().optional(),
  inbox: z.unknown().optional(),
});

export const user = z.looseObject({ id, first_name: text, last_name: text, email: text });

export const contact = z.looseObject({ id, type: text, value: text });

export const customer = z.looseObject({
  id,
  first_name: text,
  last_name: text,
  summary: text,
  contacts: z.array(contact).nullish(),
});

export type Ticket = z.infer<typeof ticket>;
export type TicketInDetail = z.infer<typeof ticketInDetail>;
export type Message = z.infer<typeof message>;
export type User = z.infer<typeof user>;
export type Customer = z.infer<typeof customer>;

/** The enumerations in the spec. Any other value is drift: counted, never rejected. */
export const known = {
  tickets: {
    state: ['open', 'hold', 'closed', 'snoozed', 'archived'],
    type: [
      'email',
      'twitter',
      'twitter_dm',
      'phone',
      'chat',
      'web',
      'sms',
      'whatsapp',
      'fb_messenger',
      'instagram_dm',
      'call',
    ],
  },
  messages: { type: ['reply', 'note'], direction: ['in', 'out'] },
  contacts: { type: ['email', 'twitter', 'phone'] },
} as const;
