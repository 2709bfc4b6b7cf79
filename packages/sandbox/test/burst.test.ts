/** Two hundred concurrent clients over real connections: no reply is lost, and every credit is counted once. */

import { Agent, request } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { startSandbox } from '../src/server.ts';

test('two hundred connections, reading and writing, on a budget that does not last: the credits add up exactly', async () => {
  const sandbox = await startSandbox({ tickets: 50, credits: 3000, periodSeconds: 3600, requestsPerSecond: 1e6 });
  onTestFinished(() => sandbox.close());
  const agent = new Agent({ connections: 200 });
  onTestFinished(() => agent.destroy());
  const headers = { authorization: `Bearer ${sandbox.token}`, 'content-type': 'application/json' };
  const before = sandbox.world.customers.size;
  const [id] = sandbox.world.tickets.keys();
  const asked = [
    ['GET', '/tickets?count=true&per_page=3', 2],
    ['GET', `/tickets/${id}?embed=labels,customer`, 3],
    ['GET', '/customers?per_page=1', 1],
    ['POST', '/customers', 1],
    ['GET', '/tickets/none', 1],
  ] as const;

  const seen = await Promise.all(
    Array.from({ length: 200 }, async (_, client) => {
      const got: { status: number; used: number; cost: number; created: boolean }[] = [];
      for (let n = 0; n < 10; n++) {
        const [method, path, cost] = asked[(client + n) % asked.length]!;
        const body = method === 'POST' ? JSON.stringify({ first_name: `${client}/${n}` }) : null;
        const reply = await request(sandbox.url + path, { method, headers, body, dispatcher: agent });
        await reply.body.dump();
        const used = Number(reply.headers['rate-limit-used']);
        got.push({ status: reply.statusCode, used, cost, created: reply.statusCode === 201 });
      }
      return got;
    }),
  );
  const replies = seen.flat();

  expect(replies).toHaveLength(2000);
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200, 201, 404, 429]));
  // Headers, totals and budget agree. At the end at most two credits are left: too few for the dearest request.
  const used = replies.reduce((sum, reply) => sum + reply.used, 0);
  expect(used).toBe(sandbox.totals.credits);
  expect(used).toBeGreaterThan(3000 - 3);
  expect(used).toBeLessThanOrEqual(3000);
  expect(replies.every(({ status, used, cost }) => used === (status === 429 ? 0 : cost))).toBe(true);
  expect(sandbox.totals.refused).toBe(replies.filter(({ status }) => status === 429).length);
  // Every 201 has created a customer.
  expect(sandbox.world.customers.size - before).toBe(replies.filter(({ created }) => created).length);
});
