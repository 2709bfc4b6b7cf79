/** Keeps erased people out of what is stored: texts go in, and come out without them. */
import { type AnyTx, NotYet } from '../engine/commit/page.ts';
import type { Streams } from './erase.ts';
import { eraseFound } from './erasures.ts';
import { anyErased, concerning, lookUp } from './look-up.ts';
import { isAnybody, noClues, type Personal, type PersonalRules } from './redact.ts';

export const withFilter = (rules: PersonalRules): Personal => ({
  ...rules,
  page: (tx, text) => page(tx, rules, text),
  hidden: ({ client, claim }, texts) => concerning(client, claim.account, rules, texts),
});

/** If the text shows erased people under unknown ids, their stored data is erased first. */
async function page({ client, claim: { account }, at }: AnyTx, rules: PersonalRules, text: string): Promise<string> {
  if (!(await anyErased(client, account))) return text;
  const erased = await lookUp(client, account, rules.cluesIn(text));
  const now = new Date(at.nowMs);
  if (isAnybody(erased)) await rules.clearStored?.(client, account, { page: text, erased, now });
  const { customers, tickets, contacts } = rules.foundIn?.(text, erased) ?? noClues;
  const here = tickets.length > 0 ? await rules.noteNew!(client, account, tickets, now) : [];
  if (customers.length + here.length > 0)
    throw new NotYet('the page shows somebody who was erased, under another id', store => {
      // Every filter is made above.
      const streams = store.streams as Streams;
      return eraseFound(store.pg, { account, found: { customers, tickets: here, contacts }, now, streams });
    });
  return rules.redact(text, { ...erased, tickets: new Set([...erased.tickets, ...tickets]) });
}
