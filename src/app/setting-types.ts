/** The kinds of values that settings take. Pure. */
import { z } from 'zod';

/** A setting: what it takes, its default as people write it, and what it means. */
export interface Setting {
  readonly schema: z.ZodType;
  readonly default?: string;
  /** One or two sentences for people. */
  readonly says: string;
  /** No message, log or page shows its value. */
  readonly secret?: boolean;
  /** An empty value switches it off. Else an empty value is none. */
  readonly emptyIsValue?: boolean;
  /** It may stand in the accounts file: as it is, or only as a reference. Without it the setting belongs to the process. */
  readonly inFile?: 'plain' | 'reference';
}

/** The values of a table of settings. */
export type ValuesOf<T extends Readonly<Record<string, Setting>>> = { [N in keyof T]: z.infer<T[N]['schema']> };

/** This machine itself, and names without a dot: those of a private network, such as `sandbox` in docker-compose.yml. */
const withoutTls = /^([\w-]+|127(\.\d+){3}|\[::1\])$/;

export const address = z
  .string()
  .refine(value => URL.canParse(value), { error: 'is no URL' })
  .transform(value => new URL(value.replace(/\/+$/, '')))
  .refine(url => url.protocol === 'https:' || (url.protocol === 'http:' && withoutTls.test(url.hostname)), {
    error: 'must begin with https:// (http:// only to this machine itself, or to a name without a dot)',
  })
  .refine(url => url.username === '' && url.password === '', { error: 'must not carry a user name or password' });

export const baseUrl = (end: string) =>
  address.refine(url => url.href.endsWith(end), {
    error: `must end in ${end}`,
  });

export const credential = z
  .string()
  .regex(/^[\x21-\x7e]+$/, { error: 'must be printable text without spaces' })
  .optional();

export const count = (least: number) =>
  z
    .string()
    .refine(value => /^\d+$/.test(value) && Number(value) >= least && Number.isSafeInteger(Number(value)), {
      error: `must be a whole number, ${least} or more`,
    })
    .transform(Number);

export const percent = count(1).refine(value => value <= 100, { error: 'must be 100 or less' });

/** In ms. A day, or a time with its offset: without one it would mean another moment on each machine. */
export const moment = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], { error: 'must be a time such as 2024-01-01T00:00:00Z' })
  .transform(value => Date.parse(value));
