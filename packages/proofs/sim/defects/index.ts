/**
 * Mistakes that are easily made, planted on purpose: the simulation has to catch each of them. They are wrappers of what the
 * product is given, or stand in place of one of its pure functions; the product itself knows nothing of them.
 */

import type { Clock } from '../../../../src/clock.ts';
import { laterVersion } from '../../../../src/engine/commit/merge.ts';
import type { Reply } from '../../../../src/engine/http/request.ts';
import type { Send } from '../../../../src/engine/http/send.ts';
import {
  covering,
  floorSecond,
  type Page,
  type Proof,
  type ReadingOptions,
  type Step,
} from '../../../../src/engine/reading/reading.ts';
import { helpdeskDialect } from '../../../../src/sources/helpdesk/dialect.ts';
import { tickets } from '../../../../src/sources/helpdesk/tickets.ts';
import type { Statement } from '../database.ts';
import type { Plan } from '../plan.ts';
import type { Defect } from '../process.ts';
import { beside } from './beside.ts';

export interface Planted {
  readonly defect: Defect;
  /** What has to complain: another complaint does not catch it. */
  readonly by: RegExp;
  /** A seed that has caught it, for `npm test`, with more of what it takes than seeds have as a rule. */
  readonly recorded: { readonly seed: number; readonly sharpened?: (plan: Plan) => Partial<Plan> };
}

/** Page after page over a list that moves while it is read. */
function* pageAfterPage(
  from: number,
  { perPage, lookbackMs, depth, until = Infinity }: ReadingOptions,
): Generator<Step, Proof, Page> {
  const since = Math.max(0, floorSecond(from) - 1000);
  let asOf = Infinity;
  for (let page = 1; page * perPage <= depth; page++) {
    const got: Page = yield { ask: { since, page, perPage }, proof: {} };
    asOf = Math.min(asOf, got.asOf);
    if (got.arrived < perPage) return covering(floorSecond(from), Math.min(until, floorSecond(asOf - lookbackMs)));
  }
  return {};
}

function readingWith(read: typeof tickets.read): Defect {
  const stream = tickets as { read: typeof tickets.read };
  return {
    install() {
      const before = stream.read;
      stream.read = read;
      return () => {
        stream.read = before;
      };
    },
  };
}

/** Rewrites the statements that hold a text. Where the product says it in other words by now, nothing is caught. */
function rewriting(text: string, other: string): Defect {
  return {
    rewrite: statement =>
      statement.text.includes(text) ? { ...statement, text: statement.text.replace(text, other) } : statement,
  };
}

const isCover = ({ text }: Statement) => text.startsWith('update sync.coverage set covered = covered +');

/** Replies are told with other times. */
function telling(send: Send, told: (reply: Reply<unknown>, send: Send) => Partial<Reply<unknown>>): Send {
  const { sourceNow, dateBehindMs, latencyMs, book, takeCredits } = send;
  const sending: Parameters<typeof Object.assign>[0] = async (...args: Parameters<Send>) => {
    const reply = await send(...args);
    return { ...reply, ...told(reply, send) };
  };
  return Object.assign(sending, {
    sourceNow,
    dateBehindMs,
    latencyMs,
    book,
    takeCredits,
    apart: () => telling(send.apart(), told),
  }) as Send;
}

/** A reply is true as of our own clock. */
const byOurClock = (send: Send, clock: Clock) =>
  telling(send, () => ({ asOf: clock.now() - 1000, trueBy: clock.now() + 1000, shownBy: clock.now() + 1000 }));

/** What a reply shows had happened by the time as of which it is complete, which is early on purpose. */
const byAsOf = (send: Send) => telling(send, ({ asOf }) => ({ trueBy: asOf, shownBy: asOf }));

/** A reply is as of its Date, whatever our clock and the stamps say. */
const byDate = (send: Send) =>
  telling(send, ({ trueBy }, { latencyMs }) => ({ asOf: trueBy - 2000 - Math.ceil(latencyMs() / 1000) * 1000 }));

/** A reply was written at its Date, whatever our clock says. */
const writtenAtDate = (send: Send) => telling(send, ({ trueBy }) => ({ shownBy: trueBy }));

/** What a page of a sweep does not show is gone, whatever the page proves, and nobody is asked. */
const deletesAtOnce = ({ values }: Statement): Statement => ({
  text: `update helpdesk.tickets t set _deleted_at = $2
    where t.account_id = $1 and not t.spam and not t.trash and t._deleted_at is null
      and greatest(t._observed_at, t._messages_as_of) < $2 and t.id <> all ($3)`,
  values: [values[0], values.find(value => value instanceof Date), values.find(Array.isArray)],
});

/** Small, without anything that goes wrong by itself. */
const small = ({ readings }: Plan): Partial<Plan> => ({
  ...{ tickets: 9, customers: 3, perPage: 3, depth: 12, readings: { ...readings, depth: 12 }, deaths: 0, troubles: 0 },
  ...{ turmoilSteps: 250, turmoilMs: 120_000, rules: [], quietly: [], unannounced: false, deletions: false, slow: 0 },
});

/** The help desk alone, and not for long. */
const short = ({ tickets, turmoilMs }: Plan): Partial<Plan> => ({
  ...{ tickets: Math.min(tickets, 9), turmoilSteps: 150, turmoilMs: Math.min(turmoilMs, 60_000) },
  ...{ exports: 0, volumes: 0, erasures: 0, fields: [] },
});

const busy = (plan: Plan): Partial<Plan> => ({ ...small(plan), changes: 0.3 });

/** A ticket that is covered and not there, or not as it is: seen at once, or at the end. */
const lost = /^(I1|I3|at rest: tickets)/;

export const defects: Readonly<Record<string, Planted>> = {
  'page++ over a moving list': { defect: readingWith(pageAfterPage), by: lost, recorded: { seed: 2 } },
  'the second change of a second is dropped': {
    defect: rewriting(laterVersion('updated_at', 'helpdesk.tickets'), 't.updated_at < excluded.updated_at'),
    by: lost,
    recorded: { seed: 7, sharpened: busy },
  },
  'a ticket that is dated ahead holds off its next change': {
    defect: rewriting(
      laterVersion('updated_at', 'helpdesk.tickets'),
      '(t.updated_at, t._observed_at) < (excluded.updated_at, excluded._observed_at)',
    ),
    by: lost,
    recorded: { seed: 44, sharpened: short },
  },
  'coverage ahead of its rows': {
    defect: { sticks: isCover },
    by: lost,
    recorded: { seed: 79 },
  },
  'a lease without a fence': {
    defect: rewriting(
      `and stream_key = $2 and token = $3 and state = 'running'`,
      'and stream_key = $2 and $3::bigint > 0',
    ),
    by: /^I1:/,
    recorded: { seed: 2 },
  },
  "our clock instead of the source's": {
    defect: { send: byOurClock },
    by: /^(I2|I3|at rest: tickets)/,
    recorded: { seed: 12, sharpened: plan => ({ ...busy(plan), clocksMs: 3_600_000, rules: [] }) },
  },
  'Date alone says what a reply proves': {
    defect: { send: byDate },
    by: lost,
    recorded: { seed: 36 },
  },
  'Date alone says when a reply was written': {
    defect: { send: writtenAtDate },
    by: /^I21:/,
    recorded: {
      seed: 1,
      sharpened: plan => ({
        ...busy(plan),
        quietly: ['labels', 'state'],
        clocksMs: 0,
        edge: 'fixed',
        edgeMs: -600_000,
      }),
    },
  },
  'a change that had happened as of its reply': {
    defect: { send: byAsOf },
    by: /^I21:/,
    recorded: { seed: 1, sharpened: plan => ({ ...busy(plan), quietly: ['labels', 'state'] }) },
  },
  'a tombstone from an incomplete sweep': {
    defect: {
      rewrite: statement =>
        statement.text.startsWith('insert into sync.deletion_candidates as s') &&
        statement.text.includes('helpdesk.tickets')
          ? deletesAtOnce(statement)
          : statement,
    },
    by: /^I6:/,
    recorded: { seed: 1 },
  },
  'the reset header counted as an epoch': {
    defect: {
      dialect: {
        ...helpdeskDialect,
        rate: header => {
          const rate = helpdeskDialect.rate(header);
          return rate.resetSeconds === undefined ? rate : { ...rate, resetSeconds: 0 };
        },
      },
    },
    by: /^I[45]:/,
    recorded: { seed: 103 },
  },
  ...beside,
};
