/**
 * Who may look, and who may press. Without tokens the page is for this machine only, and everybody on it is an operator;
 * with them a token makes a viewer or an operator, as `Authorization: Bearer` of a program or as a session of a browser.
 *
 * A session is a cookie that this file has signed: role, when it began, chance. The key comes from the tokens, so that a
 * session ends when one of them changes, and holds in every process with the same settings. What a form sends along is
 * signed too, and belongs to its session.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

export type Role = 'viewer' | 'operator';

export interface Tokens {
  readonly operator: string | undefined;
  readonly viewer: string | undefined;
}

export interface Visitor {
  readonly role: Role;
  /** What its forms have to send along; null for a program, which no foreign page can make ask. */
  readonly csrf: string | null;
}

/** What is looked at of a request. */
export interface Asking {
  readonly authorization: string | undefined;
  readonly cookie: string | undefined;
  readonly address: string;
}

export const cookieName = 'shelfdesk';
/** A working day. */
export const sessionMs = 12 * 3_600_000;
/** Wrong tokens from one address in a minute; then whoever sends another one is told to wait. */
export const mostTries = 10;
const tryMs = 60_000;
const mostAddresses = 10_000;

export type Login = { readonly role: Role; readonly session: string } | 'wrong' | 'wait';

export interface Door {
  /** False: nobody has to say who he is. */
  readonly asks: boolean;
  /** Undefined: a stranger. `wait`: a program that has tried too often. */
  visitor(asking: Asking): Visitor | 'wait' | undefined;
  logIn(token: string, address: string): Login;
  /** Whether what the form has sent along is that of the session. */
  isOwn(visitor: Visitor, sent: string): boolean;
}

/** `wrong`: the token is none; `wait`: too many were tried from there. The token itself is told to nobody. */
export interface Refusal {
  readonly why: 'wrong' | 'wait';
  readonly by: 'form' | 'bearer';
  readonly address: string;
}

export function makeDoor(
  { operator, viewer }: Tokens,
  now: () => number,
  onRefusal: (refusal: Refusal) => void = () => {},
): Door {
  const asks = operator !== undefined || viewer !== undefined;
  // Without tokens nobody else has to know it: it lives as long as this process.
  const key = asks
    ? createHash('sha256')
        .update(JSON.stringify(['shelfdesk session', operator ?? null, viewer ?? null]))
        .digest()
    : randomBytes(32);
  const sign = (what: string) => createHmac('sha256', key).update(what).digest('base64url');
  const tries = makeTries(now);

  function roleOf(token: string): Role | undefined {
    // Both are compared, whatever the first one gives.
    const isOperator = operator !== undefined && same(token, operator);
    const isViewer = viewer !== undefined && same(token, viewer);
    if (isOperator) return 'operator';
    return isViewer ? 'viewer' : undefined;
  }

  function tryToken(token: string, by: Refusal['by'], address: string): Role | Refusal['why'] {
    // The right one always comes in: behind a proxy all have one address, and a stranger would shut everybody out. What
    // keeps him from guessing is how long a token is.
    const role = roleOf(token);
    if (role !== undefined) return role;
    const why = tries.areSpent(address) ? 'wait' : 'wrong';
    if (why === 'wrong') tries.count(address);
    onRefusal({ why, by, address });
    return why;
  }

  function ofSession(session: string): Visitor | undefined {
    const [role = '', begun = '', chance = '', signature = ''] = session.split('.');
    if (!same(signature, sign(`session ${role}.${begun}.${chance}`))) return undefined;
    const age = now() - Number(begun);
    if (!(age >= -tryMs && age < sessionMs)) return undefined;
    return { role: role as Role, csrf: sign(`form ${role}.${begun}.${chance}`) };
  }

  const everybody: Visitor = { role: 'operator', csrf: sign('form') };
  return {
    asks,
    visitor({ authorization, cookie, address }) {
      if (!asks) return everybody;
      const [, bearer] = /^Bearer +(\S+)$/i.exec(authorization ?? '') ?? [];
      if (bearer !== undefined) {
        const role = tryToken(bearer, 'bearer', address);
        if (role === 'wait') return 'wait';
        return role === 'wrong' ? undefined : { role, csrf: null };
      }
      const session = cookieOf(cookie);
      return session === undefined ? undefined : ofSession(session);
    },
    logIn(token, address) {
      const role = tryToken(token, 'form', address);
      if (role === 'wrong' || role === 'wait') return role;
      const what = `${role}.${now()}.${randomBytes(16).toString('base64url')}`;
      return { role, session: `${what}.${sign(`session ${what}`)}` };
    },
    isOwn: ({ csrf }, sent) => csrf === null || same(sent, csrf),
  };
}

/** In a time that does not tell how much of it was right, nor how long it is. */
function same(one: string, other: string): boolean {
  const [a, b] = [one, other].map(text => createHash('sha256').update(text).digest());
  return timingSafeEqual(a!, b!);
}

function cookieOf(header: string | undefined): string | undefined {
  const pairs = (header ?? '').split(';').map(pair => pair.trim());
  return pairs.find(pair => pair.startsWith(`${cookieName}=`))?.slice(cookieName.length + 1);
}

/** Wrong ones are counted by address, in steps of a minute, of no more addresses than there is room for. */
function makeTries(now: () => number): { areSpent(address: string): boolean; count(address: string): void } {
  const wrong = new Map<string, number>();
  let minute = 0;
  const current = () => {
    const this_ = Math.floor(now() / tryMs);
    if (this_ !== minute) wrong.clear();
    minute = this_;
    return wrong;
  };
  return {
    areSpent(address) {
      const tried = current().get(placeOf(address));
      return tried === undefined ? current().size >= mostAddresses : tried >= mostTries;
    },
    count(address) {
      const place = placeOf(address);
      current().set(place, (current().get(place) ?? 0) + 1);
    },
  };
}

/** Who has an address of IPv6 has all that begin with the same half; groups of zeros may be left out of it. */
function placeOf(address: string): string {
  if (!address.includes(':') || address.includes('.')) return address;
  const [head, tail] = address.split('::').map(part => (part === '' ? [] : part.split(':')));
  const zeros = tail === undefined ? [] : Array<string>(8 - head!.length - tail.length).fill('0');
  return [...head!, ...zeros, ...(tail ?? [])].slice(0, 4).join(':');
}

/** This machine itself, as an address to listen at, or as whoever asks calls it. */
export const isLoopback = (host: string): boolean =>
  /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/i.test(host) || /^::ffff:127(\.\d{1,3}){3}$/i.test(host);

/** Whether a proxy says that somebody else asks. */
export const isForwarded = (headers: Readonly<Record<string, unknown>>): boolean =>
  Object.keys(headers).some(name => /^(x-forwarded-|x-real-ip$|forwarded$|via$)/.test(name));

/** `Host` without its port. */
export const hostOf = (header: string | undefined): string => (header ?? '').replace(/:\d+$/, '');

/**
 * Whether a page of ours has sent it, as the browser says: `Sec-Fetch-Site`, and `Origin`, which names the host that was
 * asked. What neither header says was sent by no browser of today, and has what the form sends along to show.
 */
export function isSameOrigin(headers: {
  host?: string | undefined;
  origin?: string | undefined;
  site?: string | undefined;
}): boolean {
  const { host, origin, site } = headers;
  if (site !== undefined && site !== 'same-origin') return false;
  if (origin === undefined) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}
