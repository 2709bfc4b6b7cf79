/** The two readers of messages, of the backlog and of what is fresh, and a ticket that both of them find. */
import { once } from 'node:events';
import { expect, test } from 'vitest';
import type { Lane } from '../../../src/engine/budget/budget.ts';
import type { Context } from '../../../src/engine/context.ts';
import { readDetails } from '../../../src/engine/details/read-details.ts';
import type { Send } from '../../../src/engine/http/send.ts';
import { messages } from '../../../src/sources/helpdesk/messages/messages.ts';
import { helpdeskOf } from '../../../src/sources/helpdesk/open.ts';
import { iso, message, scripted, ticket } from '../../support/scripted.ts';

const hourS = 3600;

type Answer = ReturnType<Send>;

/** The same context, where `ask` sends each request for messages. */
function through(ctx: Context, ask: (lane: Lane, signal: AbortSignal, send: () => Answer) => Answer): Context {
  const source = helpdeskOf(ctx);
  const asking = (...[request, options]: Parameters<Send>) =>
    ask(options.lane, options.signal!, () => source.send(request, options));
  const send = Object.assign(asking, source.send) as Send;
  return { ...ctx, sources: new Map([['helpdesk', { ...source, send }]]) };
}

/** When the ticket changes: before or after the help desk answers the request of the backlog, which may be withdrawn before. */
const cases = [
  ['waits for a credit: it is withdrawn', 'unsent', ['fresh']],
  ['is on its way, and shows the change: it is the only one', 'before', ['backfill']],
  ['is on its way, and does not show the change: there is another one', 'after', ['backfill', 'fresh']],
] as const;

test.for(cases)('a ticket changes while its request in the backlog %s', async ([, changes, expected]) => {
  await using s = await scripted({ lookbackMs: 1000 });
  const changed = ticket('t1', { updated_at: iso(2 * hourS), subject: 'changed' });
  let shown = ticket('t1');
  s.lists.tickets = () => [shown];
  s.details['/tickets/t1'] = () => ({ ...shown, messages: [message('m1')] });
  s.goTo(2 * hourS - 10);
  await s.sync('tickets');
  const asked: string[] = [];
  const fresh = Promise.withResolvers<void>();
  const ctx = through(s.ctx, async (lane, signal, answer) => {
    const send = () => {
      asked.push(lane);
      return answer();
    };
    if (lane === 'fresh') {
      fresh.resolve();
      return send();
    }
    const early = changes === 'after' ? await send() : undefined;
    shown = changed;
    s.goTo(2 * hourS + 10);
    await s.sync('tickets');
    // The reader of fresh changes comes to this ticket.
    if (!signal.aborted) await Promise.race([once(signal, 'abort'), fresh.promise]);
    if (changes === 'unsent') signal.throwIfAborted();
    return early ?? send();
  });
  await readDetails(ctx, await s.claim('messages'), messages);
  expect(asked).toEqual(expected);
  expect(await s.rows('select _messages_as_of >= updated_at as current from helpdesk.tickets')).toEqual([
    { current: true },
  ]);
  expect(await s.rows('select id from helpdesk.inboxes where _observed_at is null')).toEqual([]);
});
