/** Hand-offs without a database: the signature, the retries, the certificate, and the settings. */
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { expect, test } from 'vitest';
import { readConfig } from '../../src/app/config.ts';
import { certify } from '../../src/engine/runs/certificate.ts';
import { headersOf, retryMs, signatureOf } from '../../src/ops/hand-offs/message.ts';

test('the signature is that of Standard Webhooks: its published example', () => {
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
  const id = 'msg_p5jXN8AQM9LWM0D4loKWxJek';
  expect(signatureOf(secret, id, 1_614_265_330, '{"test": 2432232314}')).toBe(
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  );
  const headers = headersOf(secret, 'handoff_1', '{}', 1_614_265_330_999);
  expect(headers).toEqual({
    'content-type': 'application/json',
    'webhook-id': 'handoff_1',
    'webhook-timestamp': '1614265330',
    'webhook-signature': `v1,${createHmac('sha256', Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64')).update('handoff_1.1614265330.{}').digest('base64')}`,
  });
});

test('retries come soon at first, and in the end once an hour', () => {
  expect([1, 2, 3, 4, 5, 6, 7, 8, 100].map(failed => retryMs(failed) / 1000)).toEqual([
    5, 30, 120, 300, 900, 1800, 3600, 3600, 3600,
  ]);
});

test('a certificate is complete up to the least of its streams, and sums their rows', () => {
  const rows = { seen: 3, inserted: 1, updated: 1, unchanged: 1, deleted: 0, rejected: 0 };
  const stream = {
    ...{
      stream: 'a.b',
      complete_from: null,
      complete_through: new Date(2000),
      gaps: 0,
      open_rejects: 0,
      rows,
      credits: 2,
    },
    ...{ deletions_checked_at: null, unchecked_since: null, differ_at_most_percent: null, differ_as_of: null },
  };
  const handed = {
    ...{ run: 7, account: 'acme', kind: 'sync', queue: '0a-1b' },
    ...{ started_at: new Date(3000), ended_at: new Date(4000) },
  };
  const made = certify(
    handed,
    [stream, { ...stream, stream: 'a.c', complete_from: new Date(500), complete_through: new Date(1000) }],
    new Date(5000),
  );
  expect(made).toMatchObject({
    type: 'hand_off.complete',
    id: 'handoff_0a1b_7_3000',
    timestamp: '1970-01-01T00:00:05.000Z',
  });
  expect(made.data).toMatchObject({
    ...{ run: 7, complete_from: '1970-01-01T00:00:00.500Z', complete_through: '1970-01-01T00:00:01.000Z', credits: 4 },
    rows: { seen: 6, inserted: 2, updated: 2, unchanged: 2, deleted: 0, rejected: 0 },
  });
  expect(made.data.streams.map(one => one.complete_through)).toEqual([
    '1970-01-01T00:00:02.000Z',
    '1970-01-01T00:00:01.000Z',
  ]);
});

test('the guide shows a message as it is sent', () => {
  const guide = readFileSync(new URL('../../docs/how-to/hand-off.md', import.meta.url), 'utf8');
  const shown = JSON.parse(/```json\n([\s\S]*?)```/.exec(guide)![1]!);
  const [stream] = shown.data.streams;
  const at = (text: string) => new Date(text);
  const handed = { ...shown.data, started_at: at(shown.data.started_at), ended_at: at(shown.data.ended_at) };
  const streams = [
    {
      ...stream,
      complete_through: at(stream.complete_through),
      deletions_checked_at: at(stream.deletions_checked_at),
      unchecked_since: at(stream.unchecked_since),
      differ_as_of: at(stream.differ_as_of),
    },
  ];
  const made = certify({ ...handed, queue: '5f0c6d2a-b7e9-4f3f-8d0f-5b1c9e7a4d21' }, streams, at(shown.timestamp));
  const keysOf = (one: unknown): unknown =>
    Array.isArray(one)
      ? one.map(keysOf)
      : one !== null && typeof one === 'object'
        ? Object.entries(one).map(([name, value]) => [name, keysOf(value)])
        : typeof one;
  expect(keysOf(made)).toEqual(keysOf(shown));
  expect(made.id).toBe(shown.id);
});

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const read = (values: Record<string, string>) => readConfig(tmpdir(), values).handOff;

test('settings: a webhook needs its secret, and a wrong one is not shown', () => {
  expect(read({})).toBeUndefined();
  const usual = { runs: ['nightly', 'sync', 'backfill'], rejectsAllowed: 0 };
  const none = { webhook: undefined, command: undefined, notify: undefined, due: undefined };
  expect(read({ HANDOFF_WEBHOOK_URL: 'https://x.example/hook', HANDOFF_SECRET: secret })).toEqual({
    ...{ ...none, ...usual },
    webhook: { url: new URL('https://x.example/hook'), secret },
  });
  expect(read({ HANDOFF_DUE: '06:30', HANDOFF_RUNS: 'fresh' })).toMatchObject({
    due: { by: '06:30' },
    runs: ['fresh'],
  });
  expect(read({ HANDOFF_DUE: '26h' })).toMatchObject({ due: { withinMs: 26 * 3_600_000 } });
  // Hand-offs are kept for 35 days.
  expect(read({ HANDOFF_DUE: '34d' })).toMatchObject({ due: { withinMs: 34 * 24 * 3_600_000 } });
  expect(() => read({ HANDOFF_DUE: '35d' })).toThrow('34d or less');
  // PostgreSQL reads the sign the other way round.
  for (const zone of ['+02:00', '-0330', '+02'])
    expect(() => read({ SCHEDULE_TIME_ZONE: zone })).toThrow('SCHEDULE_TIME_ZONE is no time zone');
  expect(() => read({ HANDOFF_WEBHOOK_URL: 'https://x.example/hook' })).toThrow('HANDOFF_SECRET is not');
  for (const [name, value] of [
    ['HANDOFF_SECRET', 'hunter2'],
    ['HANDOFF_WEBHOOK_URL', 'http://hunter2.example'],
    ['HANDOFF_DUE', '25:00'],
    ['HANDOFF_DUE', '0h'],
    ['HANDOFF_RUNS', 'weekly'],
    ['HANDOFF_NOTIFY', 'Load done'],
  ] as const) {
    expect(() => read({ [name]: value })).toThrow(name);
    expect(() => read({ [name]: value })).not.toThrow('hunter2');
  }
});
