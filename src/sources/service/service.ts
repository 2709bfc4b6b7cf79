/**
 * A service, declared in one file: how it is reached, its limits, how its lists are paged, and its streams. Settings, connection,
 * tables, field rules and forecast follow from that.
 */
import { address, count, credential, moment, usually } from '../../app/setting-types.ts';
import type { StreamKey } from '../../engine/database/stream-key.ts';
import { partsOfWholeLists } from '../../engine/forecast/plan-whole-lists.ts';
import { bearerDialect } from '../../engine/http/bearer-dialect.ts';
import { type Dialect, fixedToken } from '../../engine/http/dialect.ts';
import { isAudited } from '../../engine/verify/audit/audited.ts';
import { lakeTablesOf } from '../record/lake.ts';
import { contactsOf } from '../record/personal.ts';
import type { Connection, Source, SourceTable, Uses } from '../source.ts';
import type { DeclaredStream, Shared } from './declared.ts';
import { forecastOf } from './details.ts';
import {
  type Limit,
  lengthMs,
  limitName,
  limitSettings,
  limitsOf,
  longestOf,
  perHourOf,
  rateOf,
  type Values,
} from './limits.ts';
import { refuseWrong } from './refuse.ts';
import { streamsOf, tablesOfService } from './streams.ts';

export interface Service<N extends string> extends Omit<Shared, 'name'> {
  /** Name of the source and of its schema, and in capitals the beginning of its settings. */
  readonly name: N;
  /** Comment of the schema. */
  readonly says: string;
  /** One for each time. Headers tell of the longest one. A 429 with `Retry-After` is believed in any case. */
  readonly limits: readonly Limit[];
  /** Header that carries the key. Default: `Authorization: Bearer KEY`. */
  readonly keyHeader?: string;
  /** The longest time that a change needs to appear in a list, in seconds. Default: 10. */
  readonly lookbackSeconds?: number;
  /** What the service does in a way of its own. */
  readonly dialect?: Partial<Dialect>;
  readonly streams: readonly DeclaredStream[];
}

/** The configuration of a service within an account: its connection, under its name. */
type Part<N extends string> = { readonly [K in N]?: Connection | undefined };

export function defineService<const N extends string>(service: Service<N>): Source<Part<N>> {
  const { name, label, says, streams: declared } = service;
  refuseWrong(service);
  const prefix = name.toUpperCase();
  const names = {
    address: `${prefix}_BASE_URL`,
    key: `${prefix}_KEY`,
    since: `${prefix}_SINCE`,
    lookback: `${prefix}_LOOKBACK_SECONDS`,
    audit: `${prefix}_AUDIT_RECORDS_PER_HOUR`,
  };
  const streams = streamsOf(service, declared);
  const audited = streams.filter(isAudited).map(stream => stream.name);
  const tables = tablesOfService(name, declared);
  const source: Source<Part<N>> = {
    ...{ name, label, unit: 'request', address: names.address, requires: `${names.address} and ${names.key}` },
    settings: {
      [names.address]: {
        schema: address.optional(),
        says: `Base address of ${label}.`,
        secret: true,
      },
      [names.key]: { schema: credential, says: `Key of ${label}.`, secret: true, onlyByReference: true },
      [names.since]: {
        schema: moment.default(0),
        default: 'everything',
        says: `Start of the mirror: records of ${label} that were last changed before are not read, where a list can be asked for changes.`,
      },
      [names.lookback]: {
        ...usually(String(lookbackSecondsOf(service)), count(0)),
        says: `Longest time that a change of ${label} needs to appear in its lists.`,
      },
      ...limitSettings(service),
      ...(audited.length > 0 && {
        [names.audit]: {
          schema: count(0).optional(),
          default: String(auditedPerHour(service, audited)),
          says: `Random records per hour of each of ${audited.join(', ')} that \`start\` re-reads and compares while requests are idle; 0: none. A lower limit lowers the default.`,
        },
      }),
    },
    streams,
    uses: usesOf(tables),
    tables,
    lakeTables: lakeTablesOf(tables),
    schema: { says },
    configure: values => ({ [name]: connectionOf(service, values, names, audited) }) as Part<N>,
    contradictions: () => [],
    connect: config => config[name],
    identityOf: config => {
      const connection: Connection | undefined = config[name];
      return connection?.token && JSON.stringify([connection.baseUrl.href, connection.token.secrets()]);
    },
    forecast: async (planning, question) => {
      const wanted = streams.filter(({ key }) => question.streams.includes(key));
      const lists = wanted.filter(stream => stream.kind === 'list');
      const news = new Map<StreamKey, number>();
      const parts = await partsOfWholeLists(planning, question.kind, lists, news);
      for (const stream of wanted)
        if (stream.kind === 'detail') parts.push(await forecastOf(planning, question, stream, news));
      return parts;
    },
  };
  services.set(source, service);
  return source;
}

/** Without a setting: no more records of a stream than of the tickets of a help desk, and a twentieth of what the limits allow. */
const auditedPerHour = (service: Service<string>, audited: readonly string[], values?: Values): number =>
  Math.min(50, Math.round(perHourOf(service, values) / 20 / audited.length));

/** How late a change may be listed, without a setting. */
export const lookbackSecondsOf = ({ lookbackSeconds = 10 }: Pick<Service<string>, 'lookbackSeconds'>): number =>
  lookbackSeconds;

const services = new WeakMap<object, Service<string>>();

/** The declaration of a source; undefined if it is made in another way. */
export const serviceOf = (source: object): Service<string> | undefined => services.get(source);

function connectionOf(
  service: Service<string>,
  values: Values,
  names: Readonly<Record<'address' | 'key' | 'since' | 'lookback' | 'audit', string>>,
  audited: readonly string[],
): Connection | undefined {
  const baseUrl = values[names.address] as URL | undefined;
  const key = values[names.key] as string | undefined;
  if (baseUrl === undefined || key === undefined) return undefined;
  const longest = longestOf(service.limits);
  const isLong = longest !== undefined && lengthMs[longest.per] > lengthMs.minute;
  return {
    baseUrl,
    dialect: dialectOf(service, names, longest && (values[limitName(service.name, longest)] as number)),
    token: fixedToken(key),
    limits: limitsOf(service, values),
    lookbackMs: (values[names.lookback] as number) * 1000,
    sinceMs: values[names.since] as number,
    ...(audited.length > 0 && {
      audit: { perHour: (values[names.audit] as number | undefined) ?? auditedPerHour(service, audited, values) },
    }),
    ...(isLong && { longestWaitMs: 60_000 }),
  };
}

function dialectOf(
  { limits, keyHeader, dialect }: Service<string>,
  { address, key }: { readonly address: string; readonly key: string },
  credits: number | undefined,
): Dialect {
  const told = limits.find(({ remaining }) => remaining !== undefined);
  return {
    ...bearerDialect({ address, token: key }),
    ...(keyHeader !== undefined && { authorization: (token: string) => ({ [keyHeader.toLowerCase()]: token }) }),
    ...(told && { rate: header => rateOf(told, header, credits) }),
    ...dialect,
  };
}

/** A record of a service is recognised as that of an erased person by its addresses alone. */
const usesOf = (tables: readonly SourceTable[]): Uses => {
  const contacts = tables.flatMap(({ record }) =>
    contactsOf(record).map(({ field }) => ({ name: record.name, field: field.split('.')[0]! })),
  );
  const fields = [...new Set(contacts.map(({ field }) => field))];
  return Object.fromEntries(
    fields.map(field => [
      `erasure of people by their ${field}`,
      Object.fromEntries(contacts.filter(one => one.field === field).map(({ name }) => [name, [field]])),
    ]),
  );
};
