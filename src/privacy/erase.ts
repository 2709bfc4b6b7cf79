/**
 * Erases people in one transaction. Their rows stay in redacted form, as a later sync would write them, so that a sync
 * changes nothing. The lock of the account excludes concurrent writers; earlier writers have committed.
 */

import type { Client } from '../engine/database/pool.ts';
import { command } from '../engine/runs/pauses.ts';
import { UsageError } from '../errors.ts';
import { formsIn } from './contact-normalisation.ts';

import {
  changesNaming,
  cutOlderWords,
  emptyAudit,
  emptyChanges,
  emptyDrift,
  emptyRejects,
} from './personal-data-scan.ts';
import type { Clues, People, Personal } from './redact.ts';

export interface Removed {
  /** Erased people: the requested person first, then people who share a contact value. */
  readonly customers: readonly string[];
  /** Number of redacted, emptied or deleted rows per kind. */
  readonly rows: Readonly<Record<string, number>>;
}

/** All streams, with their rules. */
export type Streams = readonly { readonly personal?: Personal }[];

/** The people of the first source that knows people by id. Every version of Shelfdesk has such a source. */
const peopleIn = (streams: Streams): People => streams.flatMap(({ personal }) => personal?.people ?? [])[0]!;

/** Whether an id belongs to a stored or an erased person. */
async function isKnown(client: Client, account: string, people: People, id: string): Promise<boolean> {
  const { rowCount } = await client.query('select from sync.erased where account_id = $1 and customer_id = $2', [
    account,
    id,
  ]);
  return rowCount === 1 || people.isKnown(client, account, id);
}

/** Whether the account mirrors, or has mirrored, the source of these people. */
async function hasPeople(client: Client, account: string, { source }: People): Promise<boolean> {
  const { rows } = await client.query<{ bound: boolean }>(
    `select exists (select from sync.sources where (account_id, source) = ($1, $2))
       or exists (select from sync.coverage where (account_id, source) = ($1, $2)) as bound`,
    [account, source],
  );
  return rows[0]!.bound;
}

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
  if ('contact' in whom) {
    if ((await formsIn(client, [whom.contact])).length === 0)
      throw new UsageError(
        'the contact value identifies nobody',
        'Give an e-mail address, a phone number or a name of an account.',
      );
    const found = { customers: [], tickets: [], contacts: [whom.contact] };
    const { customers, rows } = await eraseMore(client, account, found, now, streams);
    return { customers, rows: { ...rows, failures: await cutOlderWords(client, account) } };
  }
  const { customer } = whom;
  const people = peopleIn(streams);
  if (!(await isKnown(client, account, people, customer))) {
    if (!(await hasPeople(client, account, people)))
      throw new UsageError(
        `account '${account}' mirrors nothing of ${people.label}, and an erasure names a person by an id there`,
        `Name the person by an address: ${command(account, 'erase --contact <address>')}. Or set ${people.requires}, run ${command(account, 'sync')}, and erase then: the rows of all sources with an address of that person are cleared too.`,
      );
    throw new UsageError(
      `nothing is here of a customer ${customer}`,
      `${people.whereIds} What is not here yet, ${command(account, 'sync customers')} brings.`,
    );
  }
  await alone(client, account);
  const forms = await formsIn(client, await people.contactsOf(client, account, [customer]));
  const same = await sharing(client, account, people, forms);
  const customers = [customer, ...same.filter(id => id !== customer)];
  const kept = await note(client, account, { customers, asked: [customer], forms }, now);
  const { rows } = await remove(client, account, { customers, tickets: [], forms, kept, people, streams }, now);
  return { customers, rows: { ...rows, failures: await cutOlderWords(client, account) } };
}

/**
 * Erases people who reappeared under other ids or with further contact values. Blocks the contact values in
 * `found`. Other contact values of these people are not blocked, because a shared value would spread to ever more people.
 */
export async function eraseMore(
  client: Client,
  account: string,
  found: Clues,
  now: Date,
  streams: Streams,
): Promise<Removed> {
  const people = peopleIn(streams);
  await alone(client, account);
  const forms = await formsIn(client, found.contacts);
  const customers = [...new Set([...found.customers, ...(await sharing(client, account, people, forms))])];
  const kept = await note(client, account, { customers, asked: [], forms }, now);
  return remove(client, account, { customers, tickets: found.tickets, forms, kept, people, streams }, now);
}

/**
 * Takes the exclusive lock; sync.any_erased takes the shared one. The setting tells the triggers of the lake that this
 * transaction erases (internal.note_erased).
 */
async function alone(client: Client, account: string): Promise<void> {
  await client.query(
    `select pg_advisory_xact_lock(1397245266, hashtext($1)), set_config('shelfdesk.erasing', 'on', true)`,
    [account],
  );
}

const sharing = async (client: Client, account: string, people: People, forms: readonly string[]): Promise<string[]> =>
  forms.length === 0 ? [] : people.sharing(client, account, forms);

/** Returns the number of contact values that are blocked from now on. */
async function note(
  client: Client,
  account: string,
  { customers, asked, forms }: { customers: readonly string[]; asked: readonly string[]; forms: readonly string[] },
  now: Date,
): Promise<number> {
  await client.query(
    `insert into sync.erased (account_id, customer_id, erased_at, found_again)
     select $1, w.id, $3, w.id <> all ($4) from unnest($2::text[]) w (id) on conflict do nothing`,
    [account, customers, now, asked],
  );
  const { rowCount } = await client.query(
    `insert into sync.secret_erased (account_id, contact_hash, erased_at)
     select $1, sync.contact_hash(w.form), $3 from unnest($2::text[]) w (form) on conflict do nothing`,
    [account, forms, now],
  );
  return rowCount ?? 0;
}

interface Whom extends Pick<Clues, 'customers' | 'tickets'> {
  readonly forms: readonly string[];
  /** Number of newly blocked values. */
  readonly kept: number;
  readonly people: People;
  readonly streams: Streams;
}

async function remove(client: Client, account: string, whom: Whom, now: Date): Promise<Removed> {
  const { customers, tickets, forms, people, streams } = whom;
  const rules = streams.flatMap(({ personal }) => personal ?? []);
  const addressed = rules.flatMap(one => one.declared?.addressed ?? []);
  const naming = await changesNaming(client, account, forms, [...new Set([...people.addressed, ...addressed])]);
  const theirs = await people.remove(client, account, { customers, tickets, forms, changes: naming }, now);
  const counts: Record<string, number> = { ...theirs.rows };
  const traces = { changes: 0, comparisons: 0, rejects: 0 };
  for (const { declared } of rules) {
    if (declared === undefined) continue;
    const cleared = await declared.clear(client, account, forms, now);
    Object.assign(counts, cleared.rows);
    traces.changes += cleared.changes;
    traces.comparisons += cleared.comparisons;
    traces.rejects += cleared.rejects;
  }
  const changes = [...new Set([...theirs.changes, ...naming])];
  counts.changes = traces.changes + (await emptyChanges(client, changes, theirs.keptInChanges));
  counts.comparisons = traces.comparisons + (await emptyAudit(client, account, theirs.audits, forms));
  counts.rejects = traces.rejects;
  for (const rejects of theirs.rejects) counts.rejects += await emptyRejects(client, account, rejects, forms);
  const keys = rules.map(({ stream }) => stream);
  counts['samples of drift'] = await emptyDrift(client, account, keys, forms);
  counts['contact values kept out'] = whom.kept;
  return { customers, rows: counts };
}
