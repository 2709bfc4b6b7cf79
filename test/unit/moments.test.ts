/** Which changes a reader of details may read already: those of seconds that are over at the source. */
import { expect, test } from 'vitest';
import type { Context, OpenSource } from '../../src/engine/context.ts';
import { moments } from '../../src/engine/details/two-readers.ts';
import { farFuture } from '../../src/engine/reading/reading.ts';

const nowMs = Date.UTC(2026, 2, 1);

function at(sourceMs: number | undefined, isApart: boolean) {
  const send = { sourceNow: () => sourceMs, latencyMs: () => 50 };
  const source = { send, lookbackMs: 120_000 } as unknown as OpenSource;
  const ctx = { clock: { now: () => nowMs }, sources: new Map([['crm', source]]) } as unknown as Context;
  return moments(ctx, { source: 'crm', isApart }, nowMs);
}

test('before the first reply of a source, members with their record are read at once, and members alone wait for their second', () => {
  expect(at(undefined, false)).toMatchObject({ ripeMs: farFuture, futureMs: farFuture });
  expect(at(undefined, true)).toMatchObject({ ripeMs: nowMs - 2050, futureMs: nowMs + 120_000 });
  for (const isApart of [false, true])
    expect(at(nowMs - 10_000, isApart)).toMatchObject({ ripeMs: nowMs - 12_050, futureMs: nowMs + 110_000 });
});
