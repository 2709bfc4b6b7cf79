/** The rotation of re-reading: edits and deletions that nothing announces are found by day, within a share of the credits. */
import { expect, test } from 'vitest';
import { auditStream } from '../../jobs/audit-stream.ts';
import { periodsOf, rotationOf } from '../../src/engine/deletions/rotation.ts';
import { keepRereading } from '../../src/engine/queue/reread.ts';
import { type InProcess, inProcess } from '../support/in-process.ts';

const minuteMs = 60_000;

test('together the readings cost the share, and a dear list is read less often', () => {
  const costs = [1, 100, 400];
  const perMs = 9 / minuteMs;
  const periods = periodsOf(costs, perMs);
  expect(periods.map(ms => ms / minuteMs)).toEqual([15, (10 * 31) / 9, (20 * 31) / 9]);
  expect(periodsOf([], perMs)).toEqual([]);
});

/** A mirror whose source allows `credits` a minute. */
async function mirrored(credits: number, tickets: number): Promise<InProcess> {
  const s = await inProcess({ tickets, seed: 3, sweep: { ageMs: 7 * 86_400_000, mostDeleted: 0.2, share: 0.1 } });
  const limits = { credits, periodMs: minuteMs, requestsPerSecond: 100, reserve: 0 };
  const source = { ...s.ctx.sources.get('helpdesk')!, limits, audit: { ticketsPerHour: 0, messagesAgeMs: undefined } };
  s.ctx = { ...s.ctx, sources: new Map([['helpdesk', source]]) };
  await s.sync();
  return s;
}

/** Runs what is open, and returns its credits. */
async function work(s: InProcess): Promise<number> {
  const waiting = await s.rows(
    `select run_id::int as run, stream, r.kind from sync.stored_run_streams t join sync.stored_runs r on r.id = t.run_id
     where t.state = 'waiting' order by run_id, stream`,
  );
  let credits = 0;
  for (const { run, stream, kind } of waiting) {
    if (kind === 'audit')
      await auditStream.run(s.ctx, { account: 'default', run: run as number, stream: stream as string });
    else credits += (await s.goOn(run as number, stream as string)).credits;
  }
  return credits;
}

test('edits and deletions of every kind are found within the period of their list, and the credits stay within the share', async () => {
  await using s = await mirrored(4, 400);
  const { world } = s;
  const rereading = keepRereading(s.ctx, 0);
  const source = s.ctx.sources.get('helpdesk')!;
  const periods = new Map((await rotationOf(s.ctx, source)).map(one => [`${one.stream} ${one.list}`, one.everyMs]));
  const longestMs = Math.max(...periods.values());
  expect(longestMs).toBeLessThan(60 * minuteMs);
  const [begunMs, untilMs] = [s.nowMs, s.nowMs + 12 * 60 * minuteMs];
  const open: { at: number; isSeen: () => Promise<boolean> }[] = [];
  const seen: number[] = [];
  let credits = 0;
  const has = async (table: string, id: string, what: string) =>
    (await s.rows(`select ${what} as is from ${table} where id = $1`, id))[0]!.is === true;
  for (let n = 0; s.nowMs < untilMs; n++) {
    s.nowMs += minuteMs;
    if (n % 9 === 0) {
      const ticket = [...world.tickets.values()][(n * 7) % world.tickets.size]!;
      world.patchTicket(ticket.id, { subject: `Edited ${n}` }, { quiet: true });
      open.push({
        at: s.nowMs,
        isSeen: () => has('helpdesk.tickets', ticket.id, `subject = 'Edited ${n}' or _deleted_at is not null`),
      });
      const gone = [...world.tickets.values()][(n * 5 + 3) % world.tickets.size]!;
      world.deleteTicket(gone.id);
      open.push({ at: s.nowMs, isSeen: () => has('helpdesk.tickets', gone.id, '_deleted_at is not null') });
      const customer = [...world.customers.values()][n % world.customers.size]!;
      world.customers.patch(customer.id, { first_name: `Ada ${n}` });
      open.push({ at: s.nowMs, isSeen: () => has('helpdesk.customers', customer.id, `first_name = 'Ada ${n}'`) });
    }
    await rereading.look();
    credits += await work(s);
    for (const one of [...open])
      if (await one.isSeen()) {
        seen.push(s.nowMs - one.at);
        open.splice(open.indexOf(one), 1);
      }
  }
  expect(seen.length).toBeGreaterThan(200);
  expect(Math.max(...seen, ...open.map(({ at }) => s.nowMs - at))).toBeLessThanOrEqual(longestMs + 5 * minuteMs);
  console.log(periods, credits, Math.max(...seen) / minuteMs, seen.length);
  const confirmed = 80;
  expect(credits).toBeLessThanOrEqual(0.1 * 4 * ((s.nowMs - begunMs) / minuteMs) + confirmed);
});
