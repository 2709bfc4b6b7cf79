/** Questions about single records, headers, refusals and prices. */
import { numberOf } from './asking.ts';
import { type Found, type Look, PAGE, unknown } from './look.ts';

interface Message {
  readonly type: string;
  readonly created_at: string;
}

interface Customer {
  readonly id: string;
  readonly contacts: readonly { readonly type: string; readonly value: string }[];
}

/** Tickets whose messages are read, for 2 credits each. */
const MOST_TICKETS = 12;
/** A ticket may take the time of its message a moment later. */
const GRAIN_MS = 2000;

/** Whether a message of this type moves `updated_at` of its ticket, by messages that did not open theirs. */
export const moves =
  (type: 'reply' | 'note') =>
  async (look: Look): Promise<Found> => {
    let [same, later] = [0, 0];
    for (const { updated_at, messages } of await conversations(look)) {
      const [, ...others] = messages.toSorted((a, b) => (a.created_at < b.created_at ? -1 : 1));
      for (const message of others.filter(one => one.type === type)) {
        const after = Date.parse(message.created_at) - Date.parse(updated_at);
        if (after > GRAIN_MS) later++;
        else if (after >= -GRAIN_MS) same++;
      }
    }
    const evidence = `of the ${type === 'reply' ? 'replies' : 'notes'} that were read ${same} came when their ticket last changed, ${later} after it`;
    if (later > 0) return { answer: 'does not move it', evidence };
    if (same > 0) return { answer: 'moves it', evidence };
    return unknown(`${evidence}: one on a ticket that has not changed since would tell`);
  };

const read = new WeakMap<Look, Promise<{ updated_at: string; messages: readonly Message[] }[]>>();

/** Some tickets of both ends of the list with their messages, read once for all questions. */
function conversations(look: Look) {
  const known = read.get(look) ?? readConversations(look);
  read.set(look, known);
  return known;
}

async function readConversations({ asking, newest, oldest }: Look) {
  const found: { updated_at: string; messages: readonly Message[] }[] = [];
  const ids = new Set([...newest.slice(0, MOST_TICKETS / 2), ...oldest].map(({ id }) => id));
  for (const id of [...ids].slice(0, MOST_TICKETS)) {
    const { status, json } = await asking.get(`/tickets/${encodeURIComponent(id)}`, { embed: 'messages' });
    if (status === 200) found.push(json as (typeof found)[number]);
  }
  return found;
}

/** Headers that the specification promises with every reply. */
const PROMISED = ['Rate-Limit-Limit', 'Rate-Limit-Remaining', 'Rate-Limit-Used', 'Rate-Limit-Reset', 'Date'] as const;

export function headers({ first }: Look): Found {
  const missing = PROMISED.filter(name => first.headers.get(name) === null);
  const came = [...PROMISED.filter(name => !missing.includes(name)), 'Content-Type'];
  const evidence = came.map(name => `${name}: ${first.headers.get(name)}`).join('; ');
  return { answer: missing.length === 0 ? 'as promised' : `without ${missing.join(', ')}`, evidence };
}

export function date({ first }: Look): Found {
  const told = Date.parse(first.headers.get('date') ?? '');
  if (Number.isNaN(told)) return { answer: 'none', evidence: 'the reply has no Date that can be read' };
  // It is cut to its second.
  const ahead = Math.round((told + 500 - first.at) / 1000);
  const evidence = `Date is ${first.headers.get('date')}`;
  if (Math.abs(ahead) <= 2) return { answer: 'as the clock here', evidence };
  return { answer: `${Math.abs(ahead)} s ${ahead > 0 ? 'ahead of' : 'behind'} the clock here`, evidence };
}

/** An id that no ticket has. */
const NOBODY = '/tickets/000000000000000000000000';

/** What a 404 looks like, and its price. Both questions ask for themselves: a refusal may be rare. */
export async function notFound({ asking }: Look): Promise<Found> {
  const { status, headers: its, text, json } = await asking.get(NOBODY);
  const type = its.get('content-type') ?? 'no type';
  const evidence = `GET ${NOBODY} answers ${status}, ${type}: ${text.slice(0, 200)}`;
  const hasMessage = typeof json === 'object' && json !== null && 'message' in json;
  const form = hasMessage ? 'an object with message' : json === undefined ? 'no JSON' : 'other JSON';
  return { answer: `${status}, ${form}`, evidence };
}

export async function priceOfRefusal({ asking }: Look): Promise<Found> {
  const { status, headers: its } = await asking.get(NOBODY);
  const used = numberOf(its, 'rate-limit-used');
  if (used === undefined || status < 400) return unknown(`a reply of ${status} does not tell its price`);
  return { answer: used === 0 ? 'free' : 'charged', evidence: `a ${status} used ${used} credits` };
}

export async function strayEmbed({ asking }: Look): Promise<Found> {
  const { status } = await asking.get('/users', { embed: 'messages' });
  return { answer: status === 200 ? 'ignored' : `refused with ${status}`, evidence: '`embed=messages` of users' };
}

/** Looks for a customer by an email address in the other case. */
export async function caseOfAddresses({ asking }: Look): Promise<Found> {
  const customers = await asking.list<Customer>('/customers', { sort: 'created_at', per_page: PAGE, page: 1 });
  const emails = customers.flatMap(({ contacts }) => contacts.filter(({ type }) => type === 'email'));
  const value = emails.map(one => one.value).find(one => /^[!-~]+$/.test(one) && one === one.toLowerCase());
  if (value === undefined) return unknown('a customer with an email address in small letters would tell');
  const find = (word: string) => asking.list('/customers', { 'contacts.type': 'email', 'contacts.value': word });
  if ((await find(value.toUpperCase())).length > 0)
    return { answer: 'ignored', evidence: 'an email address in capitals finds its customer' };
  if ((await find(value)).length > 0)
    return { answer: 'matters', evidence: 'an email address in capitals finds nobody, as it is written it does' };
  return unknown('no customer is found by an email address');
}
