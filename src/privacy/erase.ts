/**
 * Erases people in one transaction. Their rows stay in redacted form, as a later sync would write them, so that a sync
 * changes nothing. The lock of the account excludes concurrent writers; earlier writers have committed.
 */

import { add } from '../engine/commit/page.ts';
import { forgetAllStored } from '../engine/commit/stored-sets.ts';
import type { Client } from '../engine/database/pool.ts';
import { query, raw, sql } from '../engine/database/sql.ts';
import type { StreamKey } from '../engine/database/stream-key.ts';
import { command } from '../engine/runs/pauses.ts';
import { UsageError } from '../errors.ts';
import { formsIn } from './contact-normalisation.ts';
import { changesNaming, emptyDrift, emptyTraces, forgetRequests } from './personal-data-scan.ts';
import { type Clues, noClues, type People, type Personal, type Who } from './redact.ts';

export interface Removed {
  /** Erased people: the requested person first, then people who share a contact value. */
  readonly customers: readonly string[];
  /** Number of redacted, emptied or deleted rows per kind. */
  readonly rows: Readonly<Record<string, number>>;
}

/** All streams, with their rules. */
export type Streams = readonly { readonly key: StreamKey; readonly personal?: Personal }[];

/** The people of the first source that knows people by id. Every version of Shelfdesk has such a source. */
const peopleIn = (streams: Streams): People => streams.flatMap(({ personal }) => personal?.people ?? [])[0]!;

/** Whether an id belongs to a stored or an erased person. */
async function isKnown(client: Client, account: string, people: People, id: string): Promise<boolean> {
  const { rowCount } = await client.query(sql`
    select from sync.erased where account_id = ${account} and customer_id = ${id}`);
  return rowCount === 1 || people.isKnown(client, account, id);
}

/** Whether the account mirrors, or has mirrored, the source of these people. */
const hasPeople = (client: Client, account: string, { source }: People): Promise<boolean> =>
  query(client).value`
    select exists (select from sync.sources where (account_id, source) = (${account}, ${source}))
    or exists (select from sync.coverage where (account_id, source) = (${account}, ${source})) as bound`;

/** A customer of the help desk, or everybody with a contact value, in any source. */
export type Named = { readonly customer: string } | { readonly contact: string };

/**
 * Erases a person that an operator names, everybody who shares a contact value with them, and their messages. Throws
 * UsageError if the name matches nobody.
 */
export async function eraseNamed(
  client: Client,
  account: string,
  whom: Named,
  now: Date,
  streams: Streams,
): Promise<Removed> {
  const people = peopleIn(streams);
  if ('contact' in whom) await requireMeaning(client, whom.contact);
  else await requireKnown(client, account, people, whom.customer);
  await alone(client, account);
  await requireRules(client, account, streams);
  const asked = 'contact' in whom ? [] : [whom.customer];
  const contacts = 'contact' in whom ? [whom.contact] : await people.contactsOf(client, account, asked);
  await forgetRequests(client, account);
  return eraseThem(client, account, { asked, found: { ...noClues, contacts } }, now, streams);
}

/**
 * Erases people who reappeared under other ids or with further contact values. Blocks the contact values in
 * `found`. Other contact values of these people are not blocked, because a shared value would spread to ever more people.
 * Refused like an erasure that is asked for: then the page is not stored, and the run of its stream fails.
 */
export async function eraseMore(
  client: Client,
  account: string,
  found: Clues,
  now: Date,
  streams: Streams,
): Promise<Removed> {
  await alone(client, account);
  await requireRules(client, account, streams);
  return eraseThem(client, account, { asked: [], found }, now, streams);
}

async function requireMeaning(client: Client, contact: string): Promise<void> {
  if ((await formsIn(client, [contact])).length > 0) return;
  const remedy = 'Give an e-mail address, a phone number or a name of an account.';
  throw new UsageError('the contact value identifies nobody', remedy);
}

async function requireKnown(client: Client, account: string, people: People, customer: string): Promise<void> {
  if (await isKnown(client, account, people, customer)) return;
  if (await hasPeople(client, account, people))
    throw new UsageError(
      `nothing is here of a customer ${customer}`,
      `${people.whereIds} What is not here yet, ${command(account, 'sync customers')} brings.`,
    );
  throw new UsageError(
    `account '${account}' mirrors nothing of ${people.label}, and an erasure names a person by an id there`,
    `Name the person by an address: ${command(account, 'erase --contact <address>')}. Or set ${people.requires}, run ${command(account, 'sync')}, and erase then: the rows of all sources with an address of that person are cleared too.`,
  );
}

/** Nothing says what of the rows of an unknown stream is of whom. A source of one's own may be declared elsewhere, or no more. */
async function requireRules(client: Client, account: string, streams: Streams): Promise<void> {
  const { rows: unknown } = await client.query<{ key: string }>(sql`
    select stream_key as key from sync.streams
    where personal and stream_key <> all (${streams.map(({ key }) => key)}) and to_regclass(stream_key) is not null order by place`);
  for (const { key } of unknown) {
    const { rowCount } = await client.query(sql`select from ${raw(key)} where account_id = ${account} limit 1`);
    if (rowCount === 0) continue;
    throw new UsageError(
      `${key} has rows, and no source that is known here declares them: they might keep data of the person`,
      'Let SHELFDESK_SOURCES name the folder of that source here, as for every process of the warehouse. If it is declared no more, delete its rows first.',
    );
  }
}

/**
 * Takes the exclusive lock; sync.any_erased takes the shared one. The setting tells the triggers of the lake that this
 * transaction erases (internal.note_erased).
 */
async function alone(client: Client, account: string): Promise<void> {
  await client.query(sql`
    select pg_advisory_xact_lock(1397245266, hashtext(${account})), set_config('shelfdesk.erasing', 'on', true)`);
}

/** Erases these people, those who are asked for first, and everybody who shares a contact value with them. */
async function eraseThem(
  client: Client,
  account: string,
  { asked, found }: { readonly asked: readonly string[]; readonly found: Clues },
  now: Date,
  streams: Streams,
): Promise<Removed> {
  const forms = await formsIn(client, found.contacts);
  const same = forms.length === 0 ? [] : await peopleIn(streams).sharing(client, account, forms);
  const customers = [...new Set([...asked, ...found.customers, ...same])];
  const kept = await note(client, account, { customers, asked, forms }, now);
  await forgetAllStored(client, account);
  const rows = await remove(client, account, { customers, tickets: found.tickets, forms }, now, streams);
  return { customers, rows: { ...rows, 'contact values kept out': kept } };
}

/** Returns the number of contact values that are blocked from now on. */
async function note(
  client: Client,
  account: string,
  { customers, asked, forms }: { customers: readonly string[]; asked: readonly string[]; forms: readonly string[] },
  now: Date,
): Promise<number> {
  await client.query(sql`
    insert into sync.erased (account_id, customer_id, erased_at, found_again)
    select ${account}, w.id, ${now}, w.id <> all (${asked}) from unnest(${customers}::text[]) w (id) on conflict do nothing`);
  return query(client).count`
    insert into sync.secret_erased (account_id, contact_hash, erased_at)
    select ${account}, sync.contact_hash(${account}, w.form), ${now} from unnest(${forms}::text[]) w (form) on conflict do nothing`;
}

/** Returns the number of redacted, emptied or deleted rows per kind. */
async function remove(
  client: Client,
  account: string,
  who: Omit<Who, 'changes'>,
  now: Date,
  streams: Streams,
): Promise<Record<string, number>> {
  const { forms } = who;
  const rules = streams.flatMap(({ personal }) => personal ?? []);
  const theirs = [peopleIn(streams), ...rules.flatMap(one => one.rows ?? [])];
  const addressed = [...new Set(theirs.flatMap(one => one.addressed))];
  const changes = await changesNaming(client, account, forms, addressed);
  const rows: Record<string, number> = {};
  const traces = { changes: 0, comparisons: 0, rejects: 0 };
  for (const one of theirs) {
    const remains = await one.remove(client, account, { ...who, changes }, now);
    Object.assign(rows, remains.rows);
    add(traces, await emptyTraces(client, account, remains, forms));
  }
  const keys = rules.map(({ stream }) => stream);
  return { ...rows, ...traces, 'samples of drift': await emptyDrift(client, account, keys, forms) };
}
