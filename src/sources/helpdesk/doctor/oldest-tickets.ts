/** The tickets with the oldest updates: one request for all checks, which also proves that the help desk answers. */
import type { Reply } from '../../../engine/http/request.ts';
import type { SourceContext } from '../../../ops/doctor/checks/check.ts';
import { listTickets, paging } from '../endpoints.ts';
import { helpdeskOf } from '../open.ts';
import type { Ticket } from '../records.ts';

const replies = new WeakMap<SourceContext<object>, Promise<Reply<Ticket>>>();

/** Sends the request once for each examination. Every check gets the same reply, or the same error. */
export function oldestTickets(context: SourceContext<object>): Promise<Reply<Ticket>> {
  const reply = replies.get(context) ?? ask(context);
  replies.set(context, reply);
  return reply;
}

async function ask(context: SourceContext<object>): Promise<Reply<Ticket>> {
  const { send } = helpdeskOf(await context.ctx());
  const request = listTickets({ sort: 'updated_at', page: 1, per_page: paging.perPage });
  return send(request, { lane: 'interactive', signal: context.signal, tries: 1 });
}
