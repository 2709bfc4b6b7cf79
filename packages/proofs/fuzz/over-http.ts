/**
 * Hostile records in a whole help desk and a catalog, over real HTTP: by lists, in detail, by a sweep, by a verification, and when
 * what was set aside is replayed. No run fails, and nothing but the hostile records differs from the world.
 */

import { runSweep } from '../../../src/cli/work/sweep.ts';
import { systemClock } from '../../../src/clock.ts';
import { listRejects } from '../../../src/engine/commit/rejects.ts';
import { makePool } from '../../../src/engine/database/pool.ts';
import { isObject } from '../../../src/engine/http/request.ts';
import { replay } from '../../../src/engine/load/replay.ts';
import { exitCodes } from '../../../src/errors.ts';
import { streams } from '../../../src/sources/index.ts';
import { booksConfig } from '../../../test/support/books.ts';
import { configFor, differences, jobs, noSandboxLimits, syncOnce, verifyOnce } from '../../../test/support/mirror.ts';
import { freshDatabase } from '../../../test/support/postgres.ts';
import { startSandbox } from '../../sandbox/src/server.ts';
import { Chance, hostile, textOf } from './records.ts';

/** Hostile records of one world. */
export const inOneWorld = 8;

export async function runWorld(firstSeed: number): Promise<string[]> {
  await using db = await freshDatabase();
  const spoiled = new Map<string, number>();
  let isOn = true;
  const edit = (text: string) => (isOn ? textOf(spoil(JSON.parse(text), spoiled)) : text);
  const fault = () => ({ kind: 'text' as const, edit });
  const sandbox = await startSandbox({
    ...noSandboxLimits,
    tickets: 24,
    seed: firstSeed,
    fault,
    books: { fault, volumes: 12, requestsPerDay: 1e6, requestsPerSecond: 1e6 },
  });
  const pool = makePool(db.url);
  try {
    const { world } = sandbox;
    const chance = new Chance(firstSeed);
    const tickets = [...world.tickets.values()].filter(({ messages }) => messages.length > 0);
    const ofKind = [
      () => chance.pick(tickets).id,
      () => chance.pick(chance.pick(tickets).messages).id,
      () => chance.pick([...world.customers.values()]).id,
      () => chance.pick([...world.users.values()]).id,
    ];
    for (let n = 0; n < inOneWorld; n++) spoiled.set(ofKind[n % ofKind.length]!(), firstSeed + n);
    const [volume] = sandbox.books.world.volumes.keys();
    spoiled.set(volume!, firstSeed);
    const config = configFor(db.url, sandbox, { books: booksConfig(sandbox) });
    const warehouse = { url: db.url, pg: pool, ledger: pool, folder: undefined, [Symbol.asyncDispose]: async () => {} };
    const complaints: string[] = [];
    const told = (
      what: string,
      result: { exitCode: number; streams: readonly { stream: string; state: string; error?: string | null }[] },
    ) => {
      if (
        result.exitCode === exitCodes.ok ||
        result.exitCode === exitCodes.partial ||
        result.exitCode === exitCodes.differs
      )
        return;
      for (const { stream, state, error } of result.streams)
        if (state === 'failed') complaints.push(`${what}, ${stream}: ${error}`);
      complaints.push(`${what} ended with ${result.exitCode}`);
    };
    const judge = async (what: string) => {
      const contacts = [...world.customers.values()].filter(({ id }) => spoiled.has(id)).flatMap(one => one.contacts);
      const tainted = [...spoiled.keys(), ...hangingOn(tickets, spoiled), ...contacts.map(({ id }) => id)];
      for (const line of await differences(pool, world))
        if (!tainted.some(id => line.includes(id)) && !isNew(line)) complaints.push(`after ${what}: ${line}`);
    };
    told('the sync', await syncOnce(config));
    await judge('the sync');
    const { signal } = new AbortController();
    told(
      'the sweep',
      await runSweep(
        config,
        warehouse,
        ['helpdesk.customers', 'helpdesk.tickets'],
        { acceptDeletions: false },
        { jobs, signal },
      ),
    );
    told('the verification', await verifyOnce(config, { repair: true }));
    await judge('the verification');
    for (const { id } of await listRejects(pool, 'default'))
      await replay({ pg: pool, account: 'default', clock: systemClock }, streams, id).catch((error: Error) =>
        complaints.push(`replay of ${id}: ${error.stack}`),
      );
    await judge('the replay');
    // None is lost: when the records are right again, all of it is here.
    isOn = false;
    told('the repair', await verifyOnce(config, { repair: true }));
    told('the last sync', await syncOnce(config));
    for (const line of await differences(pool, world))
      if (!line.endsWith('too many')) complaints.push(`once it is right again: ${line}`);
    return complaints;
  } finally {
    await pool.end();
    await sandbox.close();
  }
}

/** Records whose ids came of a hostile one are no ordinary ones, and a name may be one that only a hostile ticket can tell. */
const isNew = (line: string) => line.endsWith('too many') || /^(labels|inboxes) /.test(line);

/** Messages and files of tickets that are hostile, or one of whose messages is: a set that cannot be read whole is not replaced. */
function hangingOn(
  tickets: readonly { id: string; messages: readonly { id: string; attachments: readonly { id: string }[] }[] }[],
  spoiled: ReadonlyMap<string, number>,
): string[] {
  return tickets.flatMap(({ id, messages }) =>
    spoiled.has(id)
      ? messages.flatMap(one => [one.id, ...one.attachments.map(file => file.id)])
      : messages.filter(one => spoiled.has(one.id)).flatMap(one => one.attachments.map(file => file.id)),
  );
}

/** Wherever a record with such an id is, it is the hostile one. */
function spoil(value: unknown, spoiled: ReadonlyMap<string, number>): unknown {
  if (Array.isArray(value)) return value.map(one => spoil(one, spoiled));
  if (!isObject(value)) return value;
  const whole = Object.fromEntries(Object.entries(value).map(([name, one]) => [name, spoil(one, spoiled)]));
  const seed = spoiled.get(value.id as string);
  return seed === undefined ? whole : hostile(whole, seed);
}
