/**
 * Asks a real help desk how it behaves where its specification is open, and only by reading. The answers tell a client what to
 * expect, and the authors of this sandbox what to imitate: those with an option of the sandbox name it.
 */
import { type Access, Asking } from './asking.ts';
import { depth, emptyPage, listed, order, pageSize, since, ties, totalCount } from './lists.ts';
import { type Found, type Look, lookAt } from './look.ts';
import { caseOfAddresses, date, headers, moves, notFound, priceOfRefusal, strayEmbed } from './replies.ts';

interface Question {
  /** What it is about, for people and in JSON. */
  readonly about: string;
  readonly asks: string;
  /** The option by which the sandbox gives another answer. */
  readonly option?: string;
  find(look: Look): Promise<Found> | Found;
}

export const QUESTIONS: readonly Question[] = [
  { about: 'since', asks: 'whether since_updated_at includes its own second', option: '--since', find: since },
  { about: 'order', asks: 'whether a list has the order that it was asked for', find: order },
  { about: 'ties', asks: 'the order of tickets that changed in the same second', find: ties },
  { about: 'page size', asks: 'whether a page has as many records as asked for', option: '--page-cap', find: pageSize },
  { about: 'empty page', asks: 'what per_page=0 brings', find: emptyPage },
  {
    about: 'depth',
    asks: 'what the page behind the first 10,000 records brings',
    option: '--beyond-depth',
    find: depth,
  },
  { about: 'count', asks: 'whether Total-Count counts all tickets', option: '--total-count-cap', find: totalCount },
  { about: 'spam', asks: 'whether the list without filters shows spam', option: '--spam', find: listed('spam') },
  { about: 'trash', asks: 'whether it shows the trash', option: '--trash', find: listed('trash') },
  { about: 'archived', asks: 'whether it shows archived tickets', option: '--archived', find: listed('archived') },
  { about: 'snoozed', asks: 'whether it shows snoozed tickets', option: '--snoozed', find: listed('snoozed') },
  { about: 'reply', asks: 'whether a reply moves updated_at of its ticket', option: '--quiet', find: moves('reply') },
  { about: 'note', asks: 'whether a note does', option: '--quiet', find: moves('note') },
  { about: 'headers', asks: 'which promised headers a reply has', find: headers },
  { about: 'date', asks: 'Date against the clock of this machine', option: '--date-ahead', find: date },
  { about: 'not found', asks: 'what a 404 looks like', find: notFound },
  { about: 'refusals', asks: 'whether a 4xx costs credits', option: '--errors', find: priceOfRefusal },
  { about: 'stray embed', asks: 'embed where nothing can be embedded', option: '--stray-embed', find: strayEmbed },
  {
    about: 'email case',
    asks: 'whether the case of an email address matters',
    option: '--email-case',
    find: caseOfAddresses,
  },
];

export interface Answer extends Found {
  readonly about: string;
}

export interface Probed {
  readonly answers: readonly Answer[];
  readonly requests: number;
  readonly credits: number;
}

/** `tickets`: ids of tickets that are archived or snoozed, which no list can be asked for. Throws SandboxUsageError. */
export async function probe(
  access: Access & { readonly tickets?: readonly string[]; readonly onAnswer?: (answer: Answer) => void },
): Promise<Probed> {
  const asking = new Asking(access);
  const look = await lookAt(asking, access.tickets ?? []);
  const answers: Answer[] = [];
  for (const { about, find } of QUESTIONS) {
    const answer = { about, ...(await find(look)) };
    answers.push(answer);
    access.onAnswer?.(answer);
  }
  return { answers, requests: asking.requests, credits: asking.credits };
}
