/**
 * Sources that do what no specification says, end to end. Each of these once lost something, paid for ever, hung, or said
 * what it must not.
 */

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import type { SandboxOptions, startSandbox } from '../../packages/sandbox/src/server.ts';
import { runSweep } from '../../src/cli/work/sweep.ts';
import { makePool } from '../../src/engine/database/pool.ts';
import { openQueue } from '../../src/engine/queue/queue.ts';
import { exitCodes } from '../../src/errors.ts';
import { syncAlone } from '../support/alone.ts';
import { long, proof } from '../support/long.ts';
import { configFor, differences, jobs, verifyOnce } from '../support/mirror.ts';
import { openSandbox } from '../support/open-sandbox.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';

type Sandbox = Awaited<ReturnType<typeof startSandbox>>;

async function given(
  options: SandboxOptions,
  act: (sandbox: Sandbox, db: TestDatabase) => Promise<void>,
): Promise<void> {
  await using db = await freshDatabase();
  await using sandbox = await openSandbox({ ...options });
  await act(sandbox, db);
}

test('a ticket that answers with another one is a reject of its own, and not asked for for ever', async () => {
  let asked = 0;
  let merged = '';
  let into = '';
  const fault: SandboxOptions['fault'] = request => {
    if (request.path !== `/tickets/${merged}`) return undefined;
    asked++;
    return { kind: 'body', edit: json => ({ ...(json as object), id: into }) };
  };
  await given({ tickets: 5, fault }, async (sandbox, db) => {
    merged = sandbox.world.byUpdated.at(2)!.id;
    into = sandbox.world.byUpdated.at(4)!.id;
    const result = await syncAlone(configFor(db.url, sandbox));
    expect(result.exitCode).toBe(3);
    // For its messages, at the end again, and for the names that it mentions.
    expect(asked).toBeLessThanOrEqual(3);
    const { rows } = await db.pool.query('select ask_id, reason from sync.rejects where cleared_at is null');
    expect(rows).toEqual([{ ask_id: merged, reason: `the source answered with ticket ${into}` }]);
    expect((await differences(db.pool, sandbox.world)).filter(line => line.startsWith('tickets'))).toEqual([]);
  });
});

test('a new message comes in although an older one of its ticket can never be read', async () => {
  let broken = '';
  const edit = (json: unknown): unknown => {
    const { messages, ...ticket } = json as { messages?: { id: string }[] };
    return messages ? { ...ticket, messages: messages.map(m => (m.id === broken ? { ...m, body: 5 } : m)) } : json;
  };
  await given({ tickets: 5, fault: () => ({ kind: 'body', edit }) }, async (sandbox, db) => {
    const ticket = sandbox.world.byUpdated.at(2)!;
    broken = ticket.messages[0]!.id;
    expect((await syncAlone(configFor(db.url, sandbox))).exitCode).toBe(3);
    sandbox.world.addMessage(ticket.id, { body: 'after that' });
    await syncAlone(configFor(db.url, sandbox));
    const missing = (await differences(db.pool, sandbox.world)).filter(line => line.endsWith('missing'));
    expect(missing).toEqual([`messages ${broken}: missing`]);
  });
});

test('records without an id, another one in each reading: what one reading showed whole is there', async () => {
  let n = 0;
  const slip = (all: unknown[]) => (all.length === 0 ? all : all.with(n++ % all.length, 42));
  const fault: SandboxOptions['fault'] = request =>
    request.path === '/tickets' || request.path === '/customers' || request.path === '/users'
      ? { kind: 'body', edit: json => slip(json as unknown[]) }
      : undefined;
  await given({ tickets: 40, customers: 30, fault }, async (sandbox, db) => {
    await syncAlone(configFor(db.url, sandbox));
    expect(await differences(db.pool, sandbox.world)).toEqual([]);
  });
});

test('a token that the source echoes is shown and stored nowhere', async () => {
  await using db = await freshDatabase();
  const token = 'hush-hush-4711';
  const server = createServer((request, response) => {
    response.writeHead(401, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ message: `Bad credentials: ${request.headers.authorization}` }));
  });
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done));
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1`;
    const result = await syncAlone(configFor(db.url, { url, token }));
    expect(result.exitCode).toBe(4);
    expect(result.streams[0]).toMatchObject({
      error: expect.stringMatching(
        /the source does not accept the token.*401|401.*the source does not accept the token/,
      ),
      remedy: expect.stringContaining('HELPDESK_TOKEN'),
    });
    expect(JSON.stringify(result)).not.toContain(token);
    const { rows } = await db.pool.query('select * from sync.status');
    expect(JSON.stringify(rows)).not.toContain(token);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('a value nested deeper than PostgreSQL goes is one reject, and its page is stored', async () => {
  const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
  let victim = '';
  const edit = (text: string) => text.replace(`"id":"${victim}"`, `"id":"${victim}","deep":${deep}`);
  await given({ tickets: 5, fault: () => ({ kind: 'text', edit }) }, async (sandbox, db) => {
    victim = sandbox.world.byUpdated.at(2)!.id;
    const result = await syncAlone(configFor(db.url, sandbox), ['tickets']);
    expect(result.exitCode).toBe(3);
    const { rows } = await db.pool.query('select id from helpdesk.tickets order by id');
    const others = [...sandbox.world.tickets.keys()].filter(id => id !== victim).sort();
    expect(rows.map(row => row.id)).toEqual(others);
  });
});

/** A ticket and a customer for each of these ids: lists show the odd one instead of theirs. */
const withOddIds = async (ids: readonly unknown[]) => {
  const odd = new Map<string, unknown>();
  const edit = (json: unknown): unknown => {
    if (Array.isArray(json)) return json.map(edit);
    const { id } = json as { id: string };
    return odd.has(id) ? { ...(json as object), id: odd.get(id) } : json;
  };
  await given({ tickets: 12, customers: 8, fault: () => ({ kind: 'body', edit }) }, async (sandbox, db) => {
    const { world } = sandbox;
    const config = configFor(db.url, sandbox);
    expect((await syncAlone(config)).exitCode).toBe(0);
    const tickets = [...world.tickets.values()];
    const customers = [...world.customers.values()];
    for (const [n, id] of ids.entries()) for (const one of [tickets[n]!, customers[n]!]) odd.set(one.id, id);
    const [changed, edited] = [tickets.at(-1)!, customers.at(-1)!];
    world.patchTicket(changed.id, { subject: `${'a'.repeat(999)}😀 silent` }, { quiet: true });
    await db.pool.query('update helpdesk.customers set first_name = $2 where id = $1', [edited.id, 'wrong']);
    const pool = makePool(db.url);
    const warehouse = {
      url: db.url,
      pg: pool,
      ledger: pool,
      folder: undefined,
      [Symbol.asyncDispose]: () => pool.end(),
    };
    await using _ = warehouse;
    const { signal } = new AbortController();
    const verified = await verifyOnce(config);
    expect(verified.streams.map(({ stream, state }) => [stream, state])).not.toContainEqual([
      expect.anything(),
      'failed',
    ]);
    expect(verified.differences.map(({ record }) => record).sort()).toEqual([changed.id, edited.id].sort());
    const streams = ['helpdesk.customers', 'helpdesk.tickets'] as const;
    const swept = await runSweep(config, warehouse, streams, { acceptDeletions: false }, { jobs, signal });
    expect([exitCodes.ok, exitCodes.partial]).toContain(swept.exitCode);
    await verifyOnce(config, { repair: true });
    expect(await differences(pool, world)).toEqual([]);
  });
};

test('odd ids in each list: sweeps and verifications go on, and judge everything else', long, () =>
  withOddIds(['a\0b', '..', 'a\ud800b', 'x'.repeat(1000), '']),
);

// A reply by id that shows no id as text is requested ten times.
test('ids that are no texts, in each list', proof, () => withOddIds([42, { id: 'x' }]));

test('another help desk behind the same account is refused before anything is read', async () => {
  await given({ tickets: 5 }, async (sandbox, db) => {
    await syncAlone(configFor(db.url, sandbox));
    const elsewhere = configFor(db.url, { url: 'https://desk.example/api/v1', token: 'x' });
    await expect(syncAlone(elsewhere)).rejects.toThrow(/holds account 'default' of 127\.0\.0\.1.*desk\.example/);
  });
});

test('a ticket dated in the future by a slip is corrected when it gets its right date', async () => {
  let later = 0;
  await given({ tickets: 5, now: () => Date.now() + later }, async (sandbox, db) => {
    const { id } = sandbox.world.byUpdated.at(2)!;
    sandbox.world.touch(id, '2099-01-01T00:00:00Z');
    await syncAlone(configFor(db.url, sandbox));
    later = 10_000;
    sandbox.world.patchTicket(id, { subject: 'right again' });
    sandbox.world.touch(id);
    await syncAlone(configFor(db.url, sandbox));
    expect(await differences(db.pool, sandbox.world)).toEqual([]);
  });
});

test('an unreachable Redis is said at once, with a remedy', async () => {
  const at = { name: 'x', redisUrl: 'redis://127.0.0.1:1', databaseUrl: '' };
  await expect(openQueue(at)).rejects.toMatchObject({ remedy: expect.stringContaining('REDIS_URL') });
});
