/**
 * What checks a record, made of its declaration: a schema for each record, the fields and values that the specification names, and
 * the lists whose ids are unique. Optional fields may be null or absent; unknown fields and values pass.
 */
import { z } from 'zod';
import { ExactNumber } from '../../engine/exact-json.ts';
import { type AnyRecord, type Facts, fieldsThatAre, type SqlType, type Value } from './record.ts';

/**
 * Ids are opaque text. Text that PostgreSQL cannot store or index is rejected, because a cleaned or truncated id might
 * equal another record's id. `.` and `..` would change the path of a URL.
 */
const id = z
  .string()
  .min(1)
  .max(500)
  .refine(value => value.isWellFormed() && !value.includes('\0') && !/^\.\.?$/.test(value), { error: 'not an id' });

/**
 * ISO 8601 time in UTC. Offsets and fractions are accepted; a time without an offset is UTC. Impossible dates are
 * rejected.
 */
const time = z.string().refine(value => !Number.isNaN(timeOf(value)), { error: 'not an ISO 8601 time' });

/** An integer of any size. A double may round it; PostgreSQL reads the digits of the reply. */
const integer = z.number().refine(Number.isInteger, 'expected an integer');

/** One key with the id of another record is made of it. A number beyond 2^53 has lost digits. */
const numberId = z.union([
  id.refine(({ length }) => length <= 100, { error: 'not an id' }),
  z
    .number()
    .refine(Number.isSafeInteger, { error: 'not an id' })
    .transform(value => String(value)),
]);

const schemas = {
  text: z.string(),
  'text[]': z.array(z.string()),
  bigint: integer,
  numeric: z.number(),
  boolean: z.boolean(),
  timestamptz: time,
  date: z.iso.date(),
} as const;
/** The columns of a lenient record read what they can of a number or time. */
const roughly = { ...schemas, bigint: z.number(), timestamptz: z.string(), date: z.string() } as const;

/** A service may write its ids as numbers. Each digit of them stays: an integer that a double would change is an ExactNumber. */
const digits = (value: unknown): unknown =>
  typeof value === 'number' || value instanceof ExactNumber ? String(value) : value;
const written = {
  asTexts: { id, ...schemas },
  asNumbers: {
    ...schemas,
    id: z.preprocess(digits, id),
    text: z.preprocess(digits, schemas.text),
    'text[]': z.array(z.preprocess(digits, z.string())),
  },
} as const;

/** How a source writes ids, and other texts; `lenient`: as it likes. */
type Manner = keyof typeof written | 'lenient';

const shapeOf = (fields: object, manner: Manner) =>
  Object.fromEntries(
    Object.entries(fields as Record<string, Facts>).flatMap(([name, facts]) =>
      facts.is === 'embedded' ? [] : [[name, schemaOf(facts, manner)]],
    ),
  );

function schemaOf(facts: Facts, manner: Manner): z.ZodType {
  const { type, isId, isNumber, required, record, fields = {} } = facts;
  const isLenient = manner === 'lenient';
  if (isId && isLenient) return z[isNumber ? 'number' : 'string']().optional();
  const value = (): z.ZodType => {
    if (facts.is === 'children') return z.array(checkOf(record!));
    if (facts.is === 'texts by name') return z.record(z.string(), z.string());
    if (facts.is === 'object') return z.looseObject(shapeOf(fields, manner));
    if (facts.is === 'objects') return z.array(z.looseObject(shapeOf(fields, manner)));
    if (isLenient) return roughly[type];
    return isId && isNumber ? numberId : written[manner][isId ? 'id' : type];
  };
  if (isLenient) return value().optional();
  return required ? value() : value().nullish();
}

/**
 * The fields of a record itself: records of other streams in it are not looked at. Of a lenient record only the id. The schema copies
 * what it reads, which costs as much as parsing its JSON, so it judges only what is not plainly right.
 */
export function checkOf<R extends AnyRecord>({ fields, lenient, mayBeNumbers }: R): z.ZodObject & z.ZodType<Value<R>> {
  const of = lenient ? { id: fields.id } : fields;
  const schema = z.looseObject(shapeOf(of, mayBeNumbers ? 'asNumbers' : 'asTexts'));
  const [isRight, judge] = [plainObject(of), schema.safeParse];
  schema.safeParse = raw => (isRight(raw) ? { success: true, data: raw } : judge(raw));
  return schema as unknown as z.ZodObject & z.ZodType<Value<R>>;
}

/** True only of what the schema takes as it is. */
type Plain<T = unknown> = (value: unknown) => value is T;
const never = (_: unknown): _ is never => false;
const isText = (value: unknown) => typeof value === 'string';
const listOf =
  (is: Plain): Plain =>
  (value): value is unknown =>
    Array.isArray(value) && value.every(is);
const plainly: Readonly<Record<SqlType, Plain>> = {
  text: isText,
  'text[]': listOf(isText),
  bigint: (value): value is number => Number.isInteger(value),
  numeric: (value): value is number => Number.isFinite(value),
  boolean: value => typeof value === 'boolean',
  timestamptz: (value): value is string => isText(value) && !Number.isNaN(timeOf(value)),
  date: never,
};
const isPlainId = (value: unknown): value is string => isText(value) && /^[\w-]{1,500}$/.test(value);

function plainObject(fields: object): Plain<Record<string, unknown>> {
  const all = Object.entries(fields as Record<string, Facts>).flatMap(([name, facts]) =>
    facts.is === 'embedded' ? [] : [{ name, isRequired: facts.required, is: plainValue(facts) }],
  );
  return (value): value is Record<string, unknown> => {
    if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof ExactNumber)
      return false;
    return all.every(({ name, isRequired, is }) => {
      const one = (value as Record<string, unknown>)[name];
      return is(one) || (!isRequired && (one === null || one === undefined));
    });
  };
}

function plainValue({ is, type, isId, isNumber, record, fields = {} }: Facts): Plain {
  if (is === 'children') return record!.lenient ? never : listOf(plainObject(record!.fields));
  if (is === 'texts by name') return never;
  if (is === 'object') return plainObject(fields);
  if (is === 'objects') return listOf(plainObject(fields));
  return isId ? (isNumber ? never : isPlainId) : plainly[type];
}

/** What the specification says of a stream's records: any other field or value is drift, and so is an id that is repeated. */
export const factsOf = (of: AnyRecord) => ({
  fields: new Set(
    Object.entries(of.fields as Record<string, Facts>).flatMap(([name, { unasked }]) => (unasked ? [] : [name])),
  ),
  ...(of.lenient && { expected: z.looseObject(shapeOf(of.fields, 'lenient')) }),
  enumerations: enumerationsOf(of),
  sets: setsOf(of),
});

/** The values in the specification, by field. */
const enumerationsOf = (of: AnyRecord): Record<string, readonly string[]> =>
  Object.fromEntries([
    ...fieldsThatAre(of, 'column').flatMap(([path, { values }]) => (values ? [[path, values]] : [])),
    ...fieldsThatAre(of, 'children').flatMap(([path, { record }]) =>
      Object.entries(enumerationsOf(record!)).map(([inner, values]) => [`${path}.${inner}`, values]),
    ),
  ]);

/** Paths of ids that are unique in a page: the record's own, lists of ids, and those of its children. */
const setsOf = (of: AnyRecord): string[] => [
  'id',
  ...fieldsThatAre(of, 'column').flatMap(([path, { type, of: stream }]) => (type === 'text[]' && stream ? [path] : [])),
  ...fieldsThatAre(of, 'children').map(([path]) => `${path}.id`),
];

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
