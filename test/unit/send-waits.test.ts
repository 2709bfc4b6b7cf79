/** What a source says of its waits: for credits, before the next try, and nothing while a request is on its way. */
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { Clock } from '../../src/clock.ts';
import type { Awaited, Budget } from '../../src/engine/budget/budget.ts';
import { bearerDialect } from '../../src/engine/http/bearer-dialect.ts';
import { fixedToken } from '../../src/engine/http/dialect.ts';
import type { RawReply } from '../../src/engine/http/fetch.ts';
import { makeSend } from '../../src/engine/http/send.ts';

const pass = () => new Promise(done => setImmediate(done));

function opened(awaits: Awaited = 'credits') {
  let nowMs = 0;
  let wake = () => {};
  let tell = () => {};
  let reply: (with_: RawReply | Error) => void = () => {};
  const replies: (typeof reply)[] = [];
  const clock: Clock = {
    now: () => nowMs,
    monotonic: () => nowMs,
    sleep: () => new Promise(done => (wake = done)),
  };
  const budget: Budget = {
    async acquire(cost, lane, signal, onWait) {
      if (nowMs < 31_000) {
        tell = () => onWait?.(31_000 - nowMs, awaits);
        tell();
        await clock.sleep(31_000 - nowMs, signal);
      }
      return { id: 'one', lane, cost };
    },
    settle: async () => ({}),
    book: async () => {},
    thaw: async () => {},
  };
  const send = makeSend({
    source: 'helpdesk',
    ...{ clock, budget, baseUrl: new URL('http://crm.example/'), token: fixedToken('x') },
    ...{ dialect: bearerDialect({ address: 'A', token: 'B' }), random: () => 1, log: pino({ level: 'silent' }) },
    fetch: () =>
      new Promise((done, failed) => {
        reply = given => (given instanceof Error ? failed(given) : done(given));
        replies.push(reply);
      }),
  });
  return {
    send,
    replies,
    at(ms: number) {
      nowMs = ms;
    },
    wake: () => wake(),
    tell: () => tell(),
    reply: (given: RawReply | Error) => reply(given),
  };
}

test('credits are counted with the reply: one that is refused later takes back none that were taken for another', async () => {
  const { send, at, replies } = opened();
  at(31_000);
  const request = (cost: number) =>
    ({
      path: '/x',
      query: {},
      cost,
      kind: 'things',
      shape: 'single',
      record: z.looseObject({ id: z.string() }),
    }) as const;
  const one = send(request(4), { lane: 'backfill', tries: 1 }).catch(error => error);
  const other = send(request(2), { lane: 'fresh' });
  await pass();
  const headers = { date: new Date().toUTCString() };
  replies[1]!({ status: 200, headers, text: '{"id":"a"}' });
  await other;
  expect(send.takeCredits()).toBe(2);
  replies[0]!({ status: 429, headers, text: '{}' });
  expect(await one).toBeInstanceOf(Error);
  expect(send.takeCredits()).toBe(0);
});

test('a wait for the reply to another request is told, and how long it has lasted; the log hears of it once it lasts', async () => {
  const { send, at, tell } = opened('reply');
  const heard: (string | null)[] = [];
  const asked = send.apart(one => heard.push(one.says));
  const request = {
    ...({ path: '/x', query: {}, cost: 1, kind: 'things', shape: 'single' } as const),
    record: z.looseObject({ id: z.string() }),
  };
  void asked(request, { lane: 'fresh' });
  await pass();
  expect(send.waits()).toMatchObject({ ms: 31_000, wholeMs: 0 });
  at(2000);
  tell();
  const why = 'waiting for the reply to another request';
  expect(send.waits()).toEqual({ why, ends: 'resumes within', ms: 29_000, wholeMs: 2000, isRetry: false });
  at(3000);
  tell();
  expect(heard).toEqual([`${why}, resumes within 29 s`]);
});

test('waits for credits and for the next try are told, with what is left of them', async () => {
  const { send, at, wake, reply } = opened();
  expect(send.waits()).toBeUndefined();
  const request = {
    path: '/x',
    query: {},
    cost: 1,
    kind: 'things',
    shape: 'single',
    record: z.looseObject({ id: z.string() }),
  } as const;
  const sent = send(request, { lane: 'fresh' });
  await pass();
  at(11_000);
  expect(send.apart().waits()).toEqual({
    ...{ why: 'waiting for credits', ends: 'resumes in', ms: 20_000, wholeMs: 31_000, isRetry: false },
  });
  at(31_000);
  wake();
  await pass();
  expect(send.waits()).toBeUndefined();
  reply(Object.assign(new Error('no'), { code: 'ECONNREFUSED' }));
  await pass();
  expect(send.waits()).toEqual({
    ...{
      why: 'retrying (connection refused), try 2',
      ends: 'next in',
      ms: expect.any(Number),
      wholeMs: 100,
      isRetry: true,
    },
  });
  expect(send.waits()!.ms).toBeGreaterThan(0);
  wake();
  await pass();
  expect(send.waits()).toBeUndefined();
  reply({ status: 503, headers: { date: new Date().toUTCString() }, text: '' });
  await pass();
  expect(send.waits()).toMatchObject({ why: 'retrying (503), try 3' });
  wake();
  await pass();
  reply({ status: 200, headers: { date: new Date().toUTCString() }, text: '{"id":"a"}' });
  expect((await sent).records).toEqual([{ id: 'a' }]);
  expect(send.waits()).toBeUndefined();
});
