/**
 * Finds out how the help desk behaves where its specification is open. The mirror is correct either way; the answers
 * explain what people see, and some suggest a setting. Stored rows answer what they can without requests. Results are
 * kept in sync.source_behaviour and measured again after 30 days (unknown ones after one day).
 */

import { command } from '../../../engine/runs/pauses.ts';
import { type Check, type Finding, ok, skipped, warn } from '../../../ops/doctor/checks/check.ts';
import type { AccountContext } from '../../../ops/doctor/doctor-context.ts';
import { count } from '../../../words.ts';
import { getTicket, listTickets, paging } from '../endpoints.ts';
import { helpdeskOf, sourceName } from '../open.ts';
import { type Ticket, timeOf } from '../records.ts';
import { countListed } from '../verify/stored.ts';
import {
  hasShown,
  type Known,
  keepReading,
  messagesAgainstTickets,
  missedChanges,
  quietTicket,
  readReadings,
  type SourceReading,
} from './behaviour-rows.ts';
import { oldestTickets } from './oldest-tickets.ts';

const dayMs = 24 * 3_600_000;
const rememberedMs = 30 * dayMs;
const unknownMs = dayMs;
const secondMs = 1000;

/** `unknown`: the help desk has no record that could tell; the evidence says what is missing. */
interface Found {
  readonly answer: string;
  readonly evidence: string;
}

interface Question {
  /** Key in sync.source_behaviour. */
  readonly question: string;
  readonly name: string;
  readonly looks: string;
  /** Most credits that the measurement takes; 0: it is measured each time. */
  readonly most: number;
  find(context: AccountContext): Promise<Found>;
  /** For answers that suggest an action. */
  judge?(found: Found, context: AccountContext): Finding | undefined;
}

type Kind = 'spam' | 'trash' | 'archived' | 'snoozed';

const isOf: Record<Kind, (ticket: Ticket) => boolean> = {
  spam: ({ spam }) => spam === true,
  trash: ({ trash }) => trash === true,
  archived: ({ state }) => state === 'archived',
  snoozed: ({ state }) => state === 'snoozed',
};

const listed = (kind: Kind): Question => ({
  question: `${kind}_listed`,
  name: `${kind} in lists`,
  looks: `whether the default list shows tickets ${where[kind]}`,
  most: kind === 'spam' || kind === 'trash' ? 2 : 3,
  find: context => findListed(context, kind),
});

/** Plural and singular. */
const where: Record<Kind, string> = {
  spam: 'in spam',
  trash: 'in the trash',
  archived: 'that are archived',
  snoozed: 'that are snoozed',
};
const one: Record<Kind, string> = {
  spam: 'in spam',
  trash: 'in the trash',
  archived: 'which is archived',
  snoozed: 'which is snoozed',
};

const moves = (type: 'reply' | 'note', cure: string): Question => ({
  question: `${type}_moves_updated_at`,
  name: `a ${type} moves its ticket`,
  looks: `whether a ${type} changes updated_at of its ticket, judged by the stored rows`,
  most: 0,
  async find({ warehouse, account }) {
    const { later, same } = await messagesAgainstTickets((await warehouse()).pg, account, type);
    const evidence = `of the newest messages ${count(same, `${type} is`, `${type === 'reply' ? 'replies' : 'notes'} are`)} from the moment of the last change of the ticket, ${later} later`;
    if (later > 0) return { answer: 'no', evidence };
    if (same > 0) return { answer: 'yes', evidence };
    return {
      answer: 'unknown',
      evidence: `no ${type} is here that could tell: one on a ticket that has not changed since would`,
    };
  },
  judge({ answer, evidence }, { config }) {
    if (answer !== 'no' || config.audit.messagesAgeMs !== undefined) return undefined;
    return warn(`no: ${evidence}; nothing announces it`, cure);
  },
});

/** `depth`: the number of records that paging reaches. */
// @internal Tests ask with a depth of a few tickets.
export const totalCount = (depth: number): Question => ({
  question: 'total_count_whole',
  name: 'Total-Count',
  looks: 'whether the count includes records beyond the depth of paging; needs that many tickets',
  most: 2,
  async find(context) {
    const { pg } = await context.warehouse();
    const here = await countListed(pg, context.account);
    if (here <= depth)
      return {
        answer: 'unknown',
        evidence: `${count(here, 'ticket is', 'tickets are')} here: more than ${depth} would tell`,
      };
    const { total } = await ask(context, listTickets({ per_page: 0, count: true }));
    if (total === undefined) return { answer: 'none', evidence: 'it was asked for, and did not come' };
    const evidence = `it said ${total}, and ${count(here, 'ticket is', 'tickets are')} here`;
    return { answer: total < here * 0.95 ? 'stops' : 'whole', evidence };
  },
});

const questions: readonly Question[] = [
  {
    question: 'since_inclusive',
    name: 'since',
    looks: 'whether `since_updated_at` includes its own second',
    most: 2,
    find: findSince,
  },
  {
    question: 'lists_ordered',
    name: 'order of lists',
    looks: 'whether a list has the requested order',
    most: 0,
    async find(context) {
      const times = (await oldestTickets(context)).records.map(({ updated_at }) => timeOf(updated_at));
      if (times.length < 2) return { answer: 'unknown', evidence: 'two tickets would tell' };
      const wrong = times.filter((time, i) => i > 0 && time < times[i - 1]!).length;
      if (wrong === 0) return { answer: 'yes', evidence: `${count(times.length, 'ticket')} came in order` };
      return { answer: 'no', evidence: `${wrong} of ${count(times.length, 'ticket')} came after a later one` };
    },
    judge: ({ answer, evidence }) =>
      answer === 'no'
        ? warn(
            `no: ${evidence}; a list that stays out of order cannot be read safely, and its run fails`,
            'Ask the support of the help desk about `sort=updated_at`.',
          )
        : undefined,
  },
  listed('spam'),
  listed('trash'),
  listed('archived'),
  listed('snoozed'),
  moves('reply', 'Set MESSAGES_AGE_DAYS=7, so that messages are read again while nobody wants the credits.'),
  moves('note', 'Set MESSAGES_AGE_DAYS=30, so that notes are read again while nobody wants the credits.'),
  totalCount(paging.depth),
  {
    question: 'lookback_suffices',
    name: 'lookback',
    looks: 'tickets that appeared later than HELPDESK_LOOKBACK_SECONDS, as found by audits',
    most: 0,
    async find({ warehouse, account, clock }) {
      const since = new Date(clock.now() - rememberedMs);
      const { checked, missed } = await missedChanges((await warehouse()).pg, account, since);
      if (checked === 0) return { answer: 'unknown', evidence: 'nothing was audited yet (AUDIT_TICKETS_PER_HOUR)' };
      const evidence = `of ${count(checked, 'ticket')} that were read again ${missed} had a change that was missed`;
      return { answer: missed > 0 ? 'no' : 'yes', evidence };
    },
    judge: ({ answer, evidence }, { config }) =>
      answer === 'no'
        ? warn(
            evidence,
            `Set HELPDESK_LOOKBACK_SECONDS=${Math.max(60, (config.lookbackMs / 1000) * 2)}, and run ${command(config.account, 'backfill tickets --again')} for the range.`,
          )
        : undefined,
  },
];

export const behaviourChecks: readonly Check[] = questions.map(asCheck);

// @internal As totalCount.
export function asCheck(question: Question): Check {
  return {
    name: question.name,
    area: 'what the help desk leaves open',
    of: 'account',
    looks: question.looks,
    needs: ['help desk'],
    run: context => answer(question, context),
  };
}

async function answer(question: Question, context: AccountContext): Promise<Finding> {
  const { pg } = await context.warehouse();
  const known = (await readReadings(pg, context.account)).find(one => one.question === question.question);
  const isKnown = known !== undefined && question.most > 0 && !isDue(known, context);
  const found = isKnown ? known : await findOut(question, context);
  const when = isKnown ? ` (found out on ${known.found_at.toISOString().slice(0, 10)})` : '';
  const finding = question.judge?.(found, context);
  if (finding !== undefined) return finding;
  if (found.answer === 'unknown') return skipped(`unknown: ${found.evidence}${when}`);
  return ok(`${found.answer}: ${found.evidence}${when}`);
}

async function findOut(question: Question, context: AccountContext): Promise<Found> {
  const before = context.used(sourceName);
  const found = await question.find(context);
  const credits = context.used(sourceName) - before;
  const reading = { ...found, question: question.question, credits, found_at: new Date(context.clock.now()) };
  await keepReading((await context.warehouse()).pg, context.account, reading);
  return found;
}

/** An unknown answer that needs no request may be known by now. */
function isDue({ answer, found_at, credits }: SourceReading, { again, clock }: AccountContext): boolean {
  const ageMs = clock.now() - found_at.getTime();
  if (answer === 'unknown' && credits === 0) return true;
  return again || ageMs > (answer === 'unknown' ? unknownMs : rememberedMs) || ageMs < 0;
}

/** Credits that due measurements may cost, without stored results. */
export async function creditsDue(context: AccountContext): Promise<number> {
  const known = await readReadings((await context.warehouse()).pg, context.account);
  const due = questions.filter(({ question }) => {
    const reading = known.find(one => one.question === question);
    return reading === undefined || isDue(reading, context);
  });
  return due.reduce((sum, { most }) => sum + most, 0);
}

async function ask(context: AccountContext, request: ReturnType<typeof listTickets>) {
  return helpdeskOf(await context.ctx()).send(request, { lane: 'interactive', signal: context.signal, tries: 2 });
}

/** Reads the ticket with the oldest update from its own second on: the reply contains it, or begins behind it. */
async function findSince(context: AccountContext): Promise<Found> {
  const [first] = (await oldestTickets(context)).records;
  if (first === undefined) return { answer: 'unknown', evidence: 'a ticket would tell, and there is none' };
  const own = timeOf(first.updated_at);
  const from = async (since: number) => {
    const { records } = await ask(
      context,
      listTickets({ since_updated_at: since, sort: 'updated_at', page: 1, per_page: 1 }),
    );
    return records[0] === undefined ? undefined : timeOf(records[0].updated_at);
  };
  const evidence = `asked from ${first.updated_at} on, of which ticket ${first.id} is`;
  if ((await from(own)) === own) return { answer: 'inclusive', evidence: `${evidence}, it came` };
  // The ticket may have changed meanwhile.
  if ((await from(own - secondMs)) === own)
    return { answer: 'exclusive', evidence: `${evidence}, it did not come; from a second earlier on it did` };
  return { answer: 'unknown', evidence: 'the ticket that was asked for has changed meanwhile; another time will tell' };
}

async function findListed(context: AccountContext, kind: Kind): Promise<Found> {
  const { pg } = await context.warehouse();
  const { account } = context;
  const shown = (await oldestTickets(context)).records.find(isOf[kind]);
  if (shown !== undefined) return { answer: 'listed', evidence: `the list shows ticket ${shown.id}, ${one[kind]}` };
  if ((kind === 'spam' || kind === 'trash') && (await hasShown(pg, account, kind)))
    return { answer: 'listed', evidence: `the list has shown tickets ${where[kind]} before` };
  const known = await knownOf(context, kind);
  if (known === undefined)
    return {
      answer: 'unknown',
      evidence: `a ticket ${one[kind]} would tell, and none is known`,
    };
  const place = await placeOf(context, known);
  if (place === 'there') return { answer: 'listed', evidence: `the list shows ticket ${known.id}, ${one[kind]}` };
  if (place === 'full')
    return { answer: 'unknown', evidence: `too many tickets changed in the same second as ticket ${known.id}` };
  const hidden = { answer: 'hidden', evidence: `the list leaves out ticket ${known.id}, ${one[kind]}` };
  if (known.isNow) return hidden;
  // The stored row may be outdated, so the ticket is fetched.
  const { records } = await ask(context, getTicket(known.id));
  const [now] = records;
  const changed = {
    answer: 'unknown',
    evidence: `ticket ${known.id} has changed since it was read; another time will tell`,
  };
  if (now === undefined || !isOf[kind](now)) return changed;
  const again = { id: known.id, updated_at: new Date(timeOf(now.updated_at)) };
  if (again.updated_at.getTime() === known.updated_at.getTime()) return hidden;
  const later = await placeOf(context, again);
  if (later === 'there') return { answer: 'listed', evidence: `the list shows ticket ${known.id}, ${one[kind]}` };
  return later === 'full' ? changed : hidden;
}

/** A ticket of this kind, from its own list, or from the stored rows. */
async function knownOf(context: AccountContext, kind: Kind): Promise<(Known & { isNow: boolean }) | undefined> {
  if (kind !== 'spam' && kind !== 'trash') {
    const here = await quietTicket((await context.warehouse()).pg, context.account, kind);
    return here && { ...here, isNow: false };
  }
  const query = { [kind]: true, sort: 'updated_at', page: 1, per_page: 1 } as const;
  const [first] = (await ask(context, listTickets(query))).records.filter(isOf[kind]);
  return first && { id: first.id, updated_at: new Date(timeOf(first.updated_at)), isNow: true };
}

/** Whether the default list contains the ticket at its position. `full`: the ticket's second fills a page. */
async function placeOf(context: AccountContext, { id, updated_at }: Known): Promise<'there' | 'not there' | 'full'> {
  const own = updated_at.getTime();
  const since = Math.floor(own / secondMs) * secondMs - secondMs;
  const query = { since_updated_at: since, sort: 'updated_at', page: 1, per_page: paging.perPage } as const;
  const { records, arrived } = await ask(context, listTickets(query));
  if (records.some(one => one.id === id)) return 'there';
  const last = records.at(-1);
  const isPast = arrived < paging.perPage || (last !== undefined && timeOf(last.updated_at) > own);
  return isPast ? 'not there' : 'full';
}
