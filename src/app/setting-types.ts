/** Types of setting values. Pure. */
import { z } from 'zod';

/** A setting: its type, its default as text, and its description. */
export interface Setting {
  readonly schema: z.ZodType;
  readonly default?: string;
  /** Description: one or two sentences. */
  readonly says: string;
  /** The required end of an address. */
  readonly end?: string;
  /** No message, log or page shows its value. */
  readonly secret?: boolean;
  /** An empty value switches the setting off. Without this, an empty value counts as unset. */
  readonly emptyIsValue?: boolean;
  /** The machine sets it for all programs, in capitals or in small letters. Commands of the operator get it. */
  readonly ofMachine?: boolean;
  /** The whole process has one value, so the accounts file has none. */
  readonly ofProcess?: boolean;
  /** It lets people in, so the accounts file has no value of it, only a reference. */
  readonly onlyByReference?: boolean;
}

/** Value types of a table of settings. */
export type ValuesOf<T extends Readonly<Record<string, Setting>>> = { [N in keyof T]: z.infer<T[N]['schema']> };

/**
 * Hosts that need no TLS: this machine, and names without a dot in private networks, such as `sandbox` in
 * docker-compose.yml.
 */
const withoutTls = /^([\w-]+|127(\.\d+){3}|\[::1\])$/;

export const address = z
  .string()
  .refine(value => URL.canParse(value), { error: 'is no URL' })
  .transform(value => new URL(value.replace(/\/+$/, '')))
  .refine(url => url.protocol === 'https:' || (url.protocol === 'http:' && withoutTls.test(url.hostname)), {
    error: 'must begin with https:// (http:// only to this machine itself, or to a name without a dot)',
  })
  .refine(url => url.username === '' && url.password === '', { error: 'must not carry a user name or password' });

/** The address of a proxy, with or without a scheme, a user and a password. */
export const proxy = z
  .string()
  .transform(value => (/^[a-z\d]+:\/\//i.test(value) ? value : `http://${value}`))
  .refine(value => URL.canParse(value) && isDecodable(new URL(value)), { error: 'is no URL', abort: true })
  .transform(value => new URL(value))
  .refine(({ protocol }) => protocol === 'http:' || protocol === 'https:', {
    error: 'must begin with http:// or https://',
  })
  .optional();

function isDecodable({ username, password }: URL): boolean {
  try {
    decodeURIComponent(`${username}${password}`);
    return true;
  } catch {
    return false;
  }
}

export const baseUrl = (end: string) =>
  address.refine(url => url.href.endsWith(end), {
    error: `must end in ${end}`,
  });

/** Adds the scheme and the end that are missing in a typed address. A text that is no address stays unchanged. */
export function completeAddress(typed: string, end: string): string {
  const isWhole = /^[a-z][a-z0-9+.-]*:\/\//i.test(typed);
  const url = URL.parse(isWhole ? typed : `https://${typed}`);
  if (url === null) return typed;
  if (!isWhole && withoutTls.test(url.hostname)) url.protocol = 'http:';
  if (url.pathname === '/' && url.search === '' && url.hash === '') url.pathname = end;
  return url.href;
}

export const matching = (form: RegExp, error: string) => z.string().regex(form, { error });

export const credential = matching(/^[\x21-\x7e]+$/, 'must be printable text without spaces').optional();

export const count = (least: number, most = Number.MAX_SAFE_INTEGER) =>
  z
    .string()
    .refine(value => /^\d+$/.test(value) && Number(value) >= least && Number.isSafeInteger(Number(value)), {
      error: `must be a whole number, ${least} or more`,
      abort: true,
    })
    .transform(Number)
    .refine(value => value <= most, { error: `must be ${most} or less` });

export const percent = count(1, 100);

/** In ms. A day, or a time with an offset: a time without one would depend on the machine's time zone. */
export const moment = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], { error: 'must be a time such as 2024-01-01T00:00:00Z' })
  .transform(value => Date.parse(value));

/** A key or a token of a source, which an accounts file only refers to. */
export const secret = (says: string) => ({ schema: credential, says, secret: true, onlyByReference: true }) as const;

/** One of these words. */
export const choice = <const V extends readonly [string, ...string[]]>(...values: V) =>
  z.enum(values, { error: `must be ${values.slice(0, -1).join(', ')} or ${values.at(-1)}` });

/** A value that counts if none is set, as people write it. */
export const usually = <S extends z.ZodType>(text: string, schema: S) =>
  ({ schema: z.prefault(schema, text as z.input<S>), default: text }) as const;

/** A whole number of a source. */
export const amount = (least: number, usual: number, says: string) =>
  ({ ...usually(String(usual), count(least)), says }) as const;
