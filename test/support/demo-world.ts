/**
 * A warehouse with three months of life in it, for questions and pictures: a small shop's help desk and its shelves, read
 * three times a day on a clock that only the test moves. The same seed gives the same rows.
 */

import { BOOKS_BASE } from '../../packages/sandbox/src/books/service.ts';
import { castOf, makeOutbound } from '../../packages/sandbox/src/helpdesk/content/content.ts';
import type { Message } from '../../packages/sandbox/src/helpdesk/records.ts';
import type { WorldTicket } from '../../packages/sandbox/src/helpdesk/world/rows.ts';
import { makeRng, type Rng } from '../../packages/sandbox/src/random.ts';
import { readDetails } from '../../src/engine/details/read-details.ts';
import { fixedToken } from '../../src/engine/http/dialect.ts';
import { makeSend } from '../../src/engine/http/send.ts';
import { runStream } from '../../src/engine/load/run-stream.ts';
import { booksDialect } from '../../src/sources/books/dialect.ts';
import { readShelves } from '../../src/sources/books/shelves/shelf-loop.ts';
import { volumes } from '../../src/sources/books/volumes/volumes.ts';
import { type InProcess, inProcess } from './in-process.ts';
import { openBooks, sourcesOf } from './sources.ts';

const dayMs = 86_400_000;
/** When the three readings of a day are, in hours after noon. */
const hours = [0, 6, 20];

/** `days` of it, after so many tickets of before; the questions look back over 90. */
export async function demoWorld(days = 92, tickets = 300): Promise<InProcess> {
  const here = await inProcess({
    seed: 8,
    tickets,
    activity: 0.02,
    rhythm: 'office',
    ours: () => 0,
    inTurn: true,
    books: { volumes: 60 },
  });
  await here.pool.query(office);
  await here.pool.query('call analytics.recompute()');
  withBooks(here);
  const begun = here.nowMs;
  const chance = makeRng(8);
  for (let day = 0; day < days; day++) {
    for (const hour of hours) {
      here.nowMs = Math.max(here.nowMs, begun + day * dayMs + hour * 3_600_000);
      work(here, chance);
      await here.sync(hour === 0 ? ['users', 'customers', 'tickets', 'messages'] : ['tickets', 'messages']);
    }
    if (day % 7 === 0) await readBooks(here);
    // Some minutes later: how long the readings before it took depends on the machine.
    if (day % 7 === 6) {
      here.nowMs = Math.max(here.nowMs, begun + day * dayMs + 20.5 * 3_600_000);
      await here.run('sweep', ['tickets']);
    }
  }
  // As autovacuum does, which the server of the tests has not: without statistics a question takes seconds.
  await here.pool.query('analyze');
  return here;
}

/** Nine to six in Berlin, closed on two days. A response within four hours, a resolution within a week. */
const office = `
  insert into analytics.calendars (name, time_zone) values ('office', 'Europe/Berlin');
  insert into analytics.calendar_hours (calendar, weekday, opens, closes)
  select 'office', day, time '09:00', time '18:00' from generate_series(1, 5) day;
  insert into analytics.calendar_holidays (calendar, day, name) values ('office', '2026-04-03', 'Good Friday'), ('office', '2026-04-06', 'Easter Monday');
  insert into internal.stored_calendar_assignments (account_id, inbox_id, calendar) values ('default', null, 'office');
  insert into internal.stored_service_targets (account_id, metric, target_seconds, valid_from, valid_to)
  values ('default', 'first_response', 5 * 3600, null, '2026-05-01'), ('default', 'first_response', 4 * 3600, '2026-05-01', null),
    ('default', 'next_reply', 9 * 3600, null, null), ('default', 'resolution', 45 * 3600, null, null),
    ('default', 'resolution_without_hold', 36 * 3600, null, null)`;

function withBooks(here: InProcess): void {
  const { services, ctx } = here;
  const { key } = services.books;
  const { clock, log } = ctx;
  const send = makeSend({
    source: 'helpdesk',
    baseUrl: new URL(`https://books.example${BOOKS_BASE}`),
    dialect: booksDialect({ apiKey: key, hasToken: true }),
    token: fixedToken(services.books.tokens.token),
    budget: {
      acquire: async (cost, lane) => ({ id: '', cost, lane }),
      settle: async () => ({}),
      book: async () => {},
      thaw: async () => {},
    },
    clock,
    random: () => 0,
    log,
    fetch: async (url, headers) => {
      here.nowMs += 40;
      const asked = { method: 'GET', url: url.pathname + url.search, headers: { ...headers, host: url.host } };
      const { status, text, headers: said } = services.handle(asked);
      const lower = Object.fromEntries(Object.entries(said).map(([name, value]) => [name.toLowerCase(), value]));
      return { status, headers: lower, text };
    },
  });
  here.ctx = {
    ...ctx,
    sources: new Map([
      ...ctx.sources,
      ...sourcesOf(
        openBooks(send, {
          owners: [...services.books.world.users.keys(), 'mylibrary'],
          shelfAgeMs: dayMs,
          volumeAgeMs: 90 * dayMs,
        }),
      ),
    ]),
  };
}

async function readBooks(here: InProcess): Promise<void> {
  const run = await here.open('sync', ['shelves', 'volumes']);
  const work = { account: here.ctx.account, run };
  await runStream(here.ctx, { ...work, stream: 'books.shelves' }, { read: readShelves });
  await runStream(
    here.ctx,
    { ...work, stream: 'books.volumes' },
    { read: (ctx, claim) => readDetails(ctx, claim, volumes) },
  );
}

const most = 3;

/** The sandbox's people answer whatever they come across; of a shop's it is expected that they answer who waits, and then close. */
function work({ services, world, nowMs }: InProcess, chance: Rng): void {
  if ([0, 6].includes(new Date(nowMs).getUTCDay())) return;
  services.catchUp();
  const recent = Array.from({ length: 60 }, (_, n) => world.byUpdated.at(world.byUpdated.length - 1 - n));
  const open = recent.filter(ticket => ticket?.state === 'open').map(ticket => ticket!);
  const lastOf = (ticket: WorldTicket) => ticket.messages.at(-1);
  const isInbound = (message: Message | undefined) => message?.type === 'reply' && message.direction === 'in';
  for (const ticket of open.filter(one => isInbound(lastOf(one))).slice(0, most)) {
    const customer = world.customers.get(ticket.customer_id);
    const last = lastOf(ticket);
    if (!customer || last?.type !== 'reply') continue;
    const since = Date.parse(last.created_at!) + 60_000;
    const at = Math.min(nowMs - 1000, since + Math.floor(chance() ** 2 * (nowMs - since)));
    if (at > since) world.addMessage(ticket.id, makeOutbound(chance, castOf(world), ticket, customer, last), { at });
  }
  const done = open.filter(one => !isInbound(lastOf(one)) && Date.parse(one.updated_at) < nowMs - dayMs);
  for (const ticket of done.slice(0, most)) world.patchTicket(ticket.id, { state: 'closed' });
}
