/**
 * Authentication of the page. Without tokens the page serves only this machine, and everybody is an operator. With
 * tokens a visitor is a viewer or an operator, by `Authorization: Bearer` for programs or by a session for browsers.
 *
 * A session is a cookie signed by this file: role, start, random bytes. The key derives from the tokens, so that
 * changing a token ends its sessions, and all processes with the same settings accept them. A log-out ends a session
 * in all of them: see sessions.ts. Forms carry a signed CSRF token of their session.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

export type Role = 'viewer' | 'operator';

export interface Tokens {
  readonly operator: string | undefined;
  readonly viewer: string | undefined;
}

export interface Visitor {
  readonly role: Role;
  /** CSRF token for the forms of the session; null for a program, because no foreign page can send its token. */
  readonly csrf: string | null;
  /** Null for a program, and where no token is set. */
  readonly session: Session | null;
}

export interface Session {
  /** Names the session, and cannot be made a cookie. */
  readonly id: string;
  /** When the session expires. */
  readonly endsMs: number;
}

/** The parts of a request that authentication reads. */
export interface Asking {
  readonly authorization: string | undefined;
  readonly cookie: string | undefined;
  readonly address: string;
}

export const cookieName = 'shelfdesk';
/** Lifetime of a session: one working day. */
export const sessionMs = 12 * 3_600_000;
/** Most wrong tokens per address and minute. Further attempts are refused. */
// @internal Tests try as often, and once more.
export const mostTries = 10;
const tryMs = 60_000;
const mostAddresses = 10_000;

export type Door = ReturnType<typeof makeDoor>;

/** `wrong`: unknown token; `wait`: too many attempts from the address. Contains no token. */
export interface Refusal {
  readonly why: 'wrong' | 'wait';
  readonly by: 'form' | 'bearer';
  readonly address: string;
}

export function makeDoor(
  { operator, viewer }: Tokens,
  { now, isEnded }: { now: () => number; isEnded: (session: Session) => boolean },
  onRefusal: (refusal: Refusal) => void = () => {},
) {
  const asks = operator !== undefined || viewer !== undefined;
  // Without tokens the key is random and lives as long as this process.
  const key = asks
    ? createHash('sha256')
        .update(JSON.stringify(['shelfdesk session', operator ?? null, viewer ?? null]))
        .digest()
    : randomBytes(32);
  const sign = (what: string) => createHmac('sha256', key).update(what).digest('base64url');
  const tries = makeTries(now);

  function roleOf(token: string): Role | undefined {
    // Compares both tokens, whatever the first result is.
    const isOperator = operator !== undefined && same(token, operator);
    const isViewer = viewer !== undefined && same(token, viewer);
    if (isOperator) return 'operator';
    return isViewer ? 'viewer' : undefined;
  }

  function tryToken(token: string, by: Refusal['by'], address: string): Role | Refusal['why'] {
    // A correct token always passes: behind a proxy all visitors share one address, and a stranger could lock everybody
    // out. The length of the token prevents guessing.
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
    const own = { id: sign(`ended ${role}.${begun}.${chance}`), endsMs: Number(begun) + sessionMs };
    if (isEnded(own)) return undefined;
    return { role: role as Role, csrf: sign(`form ${role}.${begun}.${chance}`), session: own };
  }

  const everybody: Visitor = { role: 'operator', csrf: sign('form'), session: null };
  return {
    /** False if no token is set. */
    asks,
    /** Undefined: not logged in. `wait`: a program with too many attempts. */
    visitor({ authorization, cookie, address }: Asking): Visitor | 'wait' | undefined {
      if (!asks) return everybody;
      const [, bearer] = /^Bearer +(\S+)$/i.exec(authorization ?? '') ?? [];
      if (bearer !== undefined) {
        const role = tryToken(bearer, 'bearer', address);
        if (role === 'wait') return 'wait';
        return role === 'wrong' ? undefined : { role, csrf: null, session: null };
      }
      const session = cookieOf(cookie);
      return session === undefined ? undefined : ofSession(session);
    },
    logIn(token: string, address: string): { readonly role: Role; readonly session: string } | Refusal['why'] {
      const role = tryToken(token, 'form', address);
      if (role === 'wrong' || role === 'wait') return role;
      const what = `${role}.${now()}.${randomBytes(16).toString('base64url')}`;
      return { role, session: `${what}.${sign(`session ${what}`)}` };
    },
    /** Whether the CSRF token belongs to the session. */
    isOwn: ({ csrf }: Visitor, sent: string) => csrf === null || same(sent, csrf),
  };
}

/** Compares in constant time, independent of matching parts and length. */
function same(one: string, other: string): boolean {
  const [a, b] = [one, other].map(text => createHash('sha256').update(text).digest());
  return timingSafeEqual(a!, b!);
}

function cookieOf(header: string | undefined): string | undefined {
  const pairs = (header ?? '').split(';').map(pair => pair.trim());
  return pairs.find(pair => pair.startsWith(`${cookieName}=`))?.slice(cookieName.length + 1);
}

/** Counts wrong tokens per address and minute, for a limited number of addresses. */
function makeTries(now: () => number) {
  const wrong = new Map<string, number>();
  let minute = 0;
  const current = () => {
    const this_ = Math.floor(now() / tryMs);
    if (this_ !== minute) wrong.clear();
    minute = this_;
    return wrong;
  };
  return {
    areSpent(address: string) {
      const tried = current().get(placeOf(address));
      return tried === undefined ? current().size >= mostAddresses : tried >= mostTries;
    },
    count(address: string) {
      const place = placeOf(address);
      current().set(place, (current().get(place) ?? 0) + 1);
    },
  };
}

/** Groups IPv6 addresses by their first half, which one visitor controls. Groups of zeros may be abbreviated. */
function placeOf(address: string): string {
  if (!address.includes(':') || address.includes('.')) return address;
  const [head, tail] = address.split('::').map(part => (part === '' ? [] : part.split(':')));
  const zeros = tail === undefined ? [] : Array<string>(8 - head!.length - tail.length).fill('0');
  return [...head!, ...zeros, ...(tail ?? [])].slice(0, 4).join(':');
}

/** Loopback address or name, of a listener or in a Host header. */
export const isLoopback = (host: string): boolean =>
  /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/i.test(host) || /^::ffff:127(\.\d{1,3}){3}$/i.test(host);

/** Whether a proxy forwards the request of somebody else. */
export const isForwarded = (headers: Readonly<Record<string, unknown>>): boolean =>
  Object.keys(headers).some(name => /^(x-forwarded-|x-real-ip$|forwarded$|via$)/.test(name));

/** `Host` without its port. */
export const hostOf = (header: string | undefined): string => (header ?? '').replace(/:\d+$/, '');

/**
 * Whether one of our pages sent the request, according to `Sec-Fetch-Site` and `Origin`. No current browser omits both
 * headers; such a request needs the CSRF token.
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
