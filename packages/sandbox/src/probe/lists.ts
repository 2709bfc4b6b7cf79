/** Questions about lists of tickets: their order, their pages, their count, and what they leave out. */
import { numberOf } from './asking.ts';
import { before, type Found, type Look, PAGE, secondsOn, type Ticket, ticketOf, unknown } from './look.ts';

/** How many records `page` reaches, by the specification. */
const DEPTH = 10_000;

/** Asks from the second of the oldest ticket on: the reply begins with it, or behind it. */
export async function since({ asking, oldest: [first] }: Look): Promise<Found> {
  if (first === undefined) return unknown('a ticket would tell, and there is none');
  const { id, updated_at: own } = first;
  const begin = async (from: string) => {
    const [one] = await asking.list<Ticket>('/tickets', { since_updated_at: from, sort: 'updated_at', per_page: 1 });
    return one?.updated_at;
  };
  const evidence = `asked from ${own} on, when ticket ${id} changed,`;
  if ((await begin(own)) === own) return { answer: 'inclusive', evidence: `${evidence} it came` };
  if ((await begin(before(own))) === own)
    return { answer: 'exclusive', evidence: `${evidence} it did not come; asked from a second earlier on it did` };
  return unknown('the ticket that was asked for has changed meanwhile; another time will tell');
}

export function order({ oldest }: Look): Found {
  if (oldest.length < 2) return unknown('two tickets would tell');
  const wrong = oldest.filter(({ updated_at }, i) => i > 0 && updated_at < oldest[i - 1]!.updated_at).length;
  if (wrong === 0) return { answer: 'kept', evidence: `${oldest.length} tickets came in the order of updated_at` };
  return { answer: 'broken', evidence: `${wrong} of ${oldest.length} tickets came after a later one` };
}

/** Fewer may be in the order of their ids by chance. */
const fewestTied = 5;

/** Tickets of the second that most of them share, in their order, asked for twice. */
export async function ties({ asking, oldest, newest }: Look): Promise<Found> {
  const shown = new Map([...oldest, ...newest].map(one => [one.id, one]));
  const seconds = [...Map.groupBy(shown.values(), ({ updated_at }) => updated_at)];
  const [second, tied] = seconds.toSorted(([, one], [, other]) => other.length - one.length)[0] ?? ['', []];
  if (tied.length < fewestTied) return unknown(`${fewestTied} tickets that changed in the same second would tell`);
  const read = async () => {
    const query = { since_updated_at: before(second), sort: 'updated_at', per_page: PAGE };
    const rows = await asking.list<Ticket>('/tickets', query);
    return rows.filter(({ updated_at }) => updated_at === second);
  };
  const [once, again] = [await read(), await read()];
  const idsOf = (tied: readonly Ticket[]) => tied.map(({ id }) => id).join(' ');
  const evidence = `${once.length} tickets changed at ${second}`;
  if (once.length < fewestTied) return unknown('tickets of that second have changed meanwhile; another time will tell');
  if (idsOf(once) !== idsOf(again))
    return { answer: 'changing', evidence: `${evidence}; asked twice they came otherwise` };
  const rises = (of: (ticket: Ticket) => string) => once.every((one, i) => i === 0 || of(once[i - 1]!) <= of(one));
  const by = rises(({ id }) => id) ? 'by id' : rises(one => one.created_at) ? 'by creation' : 'otherwise';
  return { answer: by, evidence: `${evidence}; asked twice they came in the same order` };
}

export async function pageSize({ asking, oldest }: Look): Promise<Found> {
  const evidence = `asked for ${PAGE} tickets, ${oldest.length} came`;
  if (oldest.length >= PAGE) return { answer: 'as asked for', evidence };
  const next = await asking.list('/tickets', { sort: 'updated_at', per_page: PAGE, page: 2 });
  if (next.length > 0)
    return { answer: `at most ${oldest.length}`, evidence: `${evidence}, and more on the next page` };
  return unknown(`more than ${PAGE} tickets would tell; ${oldest.length} are there`);
}

export async function emptyPage({ asking }: Look): Promise<Found> {
  const rows = await asking.list('/tickets', { per_page: 0, page: 1 });
  const evidence = `asked for a page of no tickets, ${rows.length} came`;
  return { answer: rows.length === 0 ? 'empty' : 'with records', evidence };
}

export async function depth({ asking }: Look): Promise<Found> {
  const { status, json } = await asking.get('/tickets', { sort: 'updated_at', per_page: PAGE, page: DEPTH / PAGE + 1 });
  const what = `the page behind the first ${DEPTH} tickets`;
  if (status !== 200 || !Array.isArray(json))
    return { answer: `refused with ${status}`, evidence: `${what} is refused` };
  return { answer: json.length === 0 ? 'empty' : 'continues', evidence: `${what} has ${json.length} tickets` };
}

/** The count, and whether a ticket lies behind it. */
export async function totalCount({ asking }: Look): Promise<Found> {
  const count = async (from?: string) => {
    const query = { per_page: 1, count: true, ...(from !== undefined && { since_updated_at: from }) };
    return numberOf((await asking.get('/tickets', query)).headers, 'total-count');
  };
  const behind = (page: number) => asking.list<Ticket>('/tickets', { sort: 'updated_at', per_page: 1, page });
  const total = await count();
  if (total === undefined) return { answer: 'none', evidence: 'it was asked for, and no Total-Count came' };
  const stops = (why: string) => ({ answer: `stops at ${total}`, evidence: `it says ${total}, and ${why}` });
  const whole = { answer: 'whole', evidence: `it says ${total}, and no ticket lies behind` };
  if (total < DEPTH) {
    if ((await behind(total + 1)).length === 0) return whole;
    return (await count()) === total ? stops('a ticket lies behind') : unknown('tickets were created meanwhile');
  }
  const [last] = await behind(DEPTH);
  if (last === undefined) return unknown(`it says ${total}, and the last ticket that pages reach did not come`);
  const rest = (await count(secondsOn(last.updated_at, 1))) ?? 0;
  if (rest > (total - DEPTH) * 1.05) return stops(`${rest} tickets changed after the first ${DEPTH}`);
  return { answer: 'whole', evidence: `it says ${total}, of which ${rest} changed after the first ${DEPTH}` };
}

// --- what the list without filters leaves out ---------------------------------------------------------------------------

type Kind = 'spam' | 'trash' | 'archived' | 'snoozed';

const IS: Record<Kind, (ticket: Ticket) => boolean> = {
  spam: ({ spam }) => spam,
  trash: ({ trash }) => trash,
  archived: ({ state }) => state === 'archived',
  snoozed: ({ state }) => state === 'snoozed',
};

const WHICH: Record<Kind, string> = {
  spam: 'in spam',
  trash: 'in the trash',
  archived: 'which is archived',
  snoozed: 'which is snoozed',
};

/** Pages of one second that are read in search of a ticket. */
const MOST_PAGES = 10;

export const listed =
  (kind: Kind) =>
  async (look: Look): Promise<Found> => {
    const { asking, oldest, newest } = look;
    const isListed = ({ id }: Ticket) => ({
      answer: 'listed',
      evidence: `the list shows ticket ${id}, ${WHICH[kind]}`,
    });
    const shown = [...oldest, ...newest].find(IS[kind]);
    if (shown !== undefined) return isListed(shown);
    const known = await knownOf(look, kind);
    if (known === undefined)
      return unknown(
        kind === 'spam' || kind === 'trash'
          ? `a ticket ${WHICH[kind]} would tell, and there is none`
          : `the ends of the list show no ticket ${WHICH[kind]}, and no filter finds one: name one by --ticket`,
      );
    for (let page = 1; page <= MOST_PAGES; page++) {
      const query = { since_updated_at: before(known.updated_at), sort: 'updated_at', per_page: PAGE, page };
      const rows = await asking.list<Ticket>('/tickets', query);
      if (rows.some(({ id }) => id === known.id)) return isListed(known);
      const last = rows.at(-1);
      if (last !== undefined && last.updated_at <= known.updated_at) continue;
      const now = await ticketOf(asking, known.id);
      if (now?.updated_at !== known.updated_at || !IS[kind](now)) break;
      return { answer: 'hidden', evidence: `the list leaves out ticket ${known.id}, ${WHICH[kind]}` };
    }
    return unknown(`ticket ${known.id} has changed meanwhile, or too many changed in its second`);
  };

async function knownOf({ asking, named }: Look, kind: Kind): Promise<Ticket | undefined> {
  const known = named.find(IS[kind]);
  if (known !== undefined || (kind !== 'spam' && kind !== 'trash')) return known;
  return (await asking.list<Ticket>('/tickets', { [kind]: true, sort: 'updated_at', per_page: 1 })).find(IS[kind]);
}
