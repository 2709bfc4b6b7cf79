/**
 * Causes of failed requests in words: one text for each cause, in runs, page, alarms, `doctor` and `init`. Pure. Only
 * host and port of an address are shown, because people paste keys into the rest.
 */
import { exitCodes, Fatal, Retry } from '../../errors.ts';

export interface Cause {
  /** The failure and its place, as a part of a sentence. */
  readonly what: string;
  readonly remedy: string;
  /** Retries fail in the same way until a person changes something. */
  readonly lasts: boolean;
  /** Words of the source, which only a terminal shows. */
  readonly quote?: string;
  /** A few words for a line that is rewritten. */
  readonly short?: string;
}

export interface Place {
  /** Name for people: `the help desk`. */
  readonly label: string;
  readonly address: URL;
  /** The setting that has the address. */
  readonly setting: string;
  /** The proxy on the way, and the setting that names it. */
  readonly proxy?: { readonly url: URL; readonly setting: string } | undefined;
}

/** `desk.example:443` */
export const hostOf = ({ hostname, port, protocol }: URL): string =>
  `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`;

const again = 'It is tried again automatically.';

/** The remedy where nothing is tried again. */
export const withoutTries = (remedy: string): string =>
  remedy.replace(/(?:It is tried again|The request is retried) automatically\. ?/, '').trim();

/** Codes of connections that never came about. Through a proxy, the connection is the one to the proxy. */
const unconnected: Readonly<Record<string, string>> = {
  ENOTFOUND: 'there is no host',
  EAI_AGAIN: 'no name server answers for',
  ECONNREFUSED: 'nobody listens at',
  EHOSTUNREACH: 'there is no way to',
  ENETUNREACH: 'there is no way to',
  EHOSTDOWN: 'there is no way to',
  ETIMEDOUT: 'no connection in time to',
  UND_ERR_CONNECT_TIMEOUT: 'no connection in time to',
};

const short: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  ENOTFOUND: 'host not found',
  EAI_AGAIN: 'no name server answers',
  ETIMEDOUT: 'timed out',
  UND_ERR_CONNECT_TIMEOUT: 'timed out',
};

const certificates: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'has expired',
  CERT_NOT_YET_VALID: 'is not valid yet',
  CERT_REVOKED: 'is revoked',
  ERR_TLS_CERT_ALTNAME_INVALID: 'is for another name',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'is not trusted: it is signed by itself',
  SELF_SIGNED_CERT_IN_CHAIN: 'is not trusted: this machine does not know who signed it',
  UNABLE_TO_GET_ISSUER_CERT: 'is not trusted: this machine does not know who signed it',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'is not trusted: this machine does not know who signed it',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'is not trusted: this machine does not know who signed it',
};

const noTls = /^(EPROTO|ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST))$/;

/** Errors on the way to a proxy, before it was asked for anything. */
const metAtProxy = new WeakSet<object>();
export const noteAtProxy = (error: object): void => void metAtProxy.add(error);

/** Messages of undici about the reply of a proxy. */
const isOfProxy = /^Proxy response \((\d+)\)|^Proxy Authentication Required \((407)\)/;

/** No reply came. `error`: what the client threw. */
export function causeOfError(error: unknown, place: Place): Cause {
  const { name, code: given, message = '' } = (error ?? {}) as { name?: string; code?: unknown; message?: string };
  const code = typeof given === 'string' ? given : name === 'HTTPParserError' ? 'HPE_INVALID' : '';
  const { setting, address, proxy } = place;
  const host = hostOf(address);
  const refusal = isOfProxy.exec(message);
  const met = (error as { cause?: unknown } | undefined)?.cause ?? error;
  if (proxy && metAtProxy.has(met as object) && !(code in unconnected) && code !== 'UND_ERR_PRX_TLS')
    return causeOfError(met, { label: 'the proxy', address: proxy.url, setting: proxy.setting });
  if (proxy && refusal) return causeAtProxy(Number(refusal[1] ?? refusal[2]), place);
  if (code in unconnected) return { ...causeUnconnected(code, place), short: short[code] ?? unconnected[code]! };
  if (proxy && code === 'UND_ERR_PRX_TLS')
    return lasting(
      `the certificate of the proxy ${hostOf(proxy.url)} is not accepted (${code})`,
      `Check ${proxy.setting}.`,
    );
  if (code in certificates) return causeOfCertificate(code, place);
  if (noTls.test(code))
    return lasting(
      `${host} does not speak TLS (${code})`,
      `Check the port in ${setting}, and whether the service is plain: then its address begins with http://.`,
    );
  if (code.startsWith('ERR_SSL_'))
    return lasting(
      `${host} and this machine do not agree on TLS (${code})`,
      `Check the host and the port in ${setting}, and ask the support of ${place.label} what its TLS wants.`,
    );
  if (code === 'UND_ERR_HEADERS_OVERFLOW' || code === 'HPE_HEADER_OVERFLOW')
    return lasting(
      `the headers of the reply of ${host} are longer than 16 KB (${code})`,
      `Ask the support of ${place.label}, or look at what stands between: a proxy may add headers.`,
    );
  if (code.startsWith('HPE_'))
    return lasting(
      `${host} answers, but not in HTTP (${code})`,
      address.protocol === 'http:'
        ? `Check the port in ${setting}. If the service wants TLS, its address begins with https://.`
        : `Check the host and the port in ${setting}.`,
    );
  if (message.startsWith('time-out') || code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT')
    return passing(
      `no reply of ${host} in time (${message || code})`,
      `${again} If it lasts, look at the status page of ${place.label}.`,
      'timed out',
    );
  if (['ECONNRESET', 'EPIPE', 'ECONNABORTED', 'UND_ERR_SOCKET'].includes(code))
    return passing(
      `${host} closed the connection before the reply was whole (${code})`,
      `${again} If it lasts, look at the status page of ${place.label}${address.protocol === 'http:' ? `, and whether the service wants TLS: then ${setting} begins with https://` : ''}.`,
      short[code] ?? 'the connection was closed',
    );
  const reason = code || message;
  return passing(
    `no reply of ${host} (${reason})`,
    `${again} If it lasts, look at the status page of ${place.label}.`,
    reason,
  );
}

/** A cached copy proves nothing about now: neither what exists nor what is missing. */
export const aCopy = (seconds: number, { address, label }: Place): Cause =>
  passing(
    `a cache before ${hostOf(address)} answered with a copy ${Number.isFinite(seconds) ? `that is ${seconds} s old` : 'of an age that cannot be read'}`,
    `Requests ask for no copy (Cache-Control: no-cache): let the proxy or the cache between pass them on, or reach ${label} without it.`,
    'a cache answered with an old copy',
  );

function causeUnconnected(code: string, { label, address, setting, proxy }: Place): Cause {
  const what = (of: string) => `${unconnected[code]} ${of} (${code})`;
  if (proxy)
    return passing(
      what(`the proxy ${hostOf(proxy.url)}`),
      `Check ${proxy.setting}: requests to ${hostOf(address)} go through this proxy. NO_PROXY=${address.hostname} leaves it out. ${again}`,
    );
  if (code === 'ENOTFOUND')
    return passing(
      what(address.hostname),
      `Check the spelling in ${setting}. If it is right, this machine's name server does not know it: behind a proxy, set HTTPS_PROXY. ${again}`,
    );
  if (code === 'EAI_AGAIN') return passing(what(address.hostname), `Check the network of this machine. ${again}`);
  if (code === 'ECONNREFUSED')
    return passing(
      what(hostOf(address)),
      `Check the host and the port in ${setting}, and that ${label} runs. ${again}`,
    );
  return passing(
    what(hostOf(address)),
    `Check ${setting}, the network of this machine, and firewalls between; behind a proxy, set HTTPS_PROXY. ${again}`,
  );
}

function causeOfCertificate(code: string, { address, setting, label }: Place): Cause {
  const what = `the certificate of ${hostOf(address)} ${certificates[code]} (${code})`;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return lasting(what, `Check the host in ${setting}.`);
  if (certificates[code]!.startsWith('is not trusted'))
    return lasting(
      what,
      'If it is right, set NODE_EXTRA_CA_CERTS to a file with the certificate of the authority that signed it (PEM). A proxy that opens TLS has such a file too.',
    );
  return lasting(what, `Ask the support of ${label}, and check the clock of this machine.`);
}

/** Why a webhook gave no answer. Its host is not shown, only a proxy is. */
export function noAnswer(error: unknown, proxy: Place['proxy']): string {
  const { code, message = '' } = error as { code?: unknown; message?: string };
  const ofProxy = isOfProxy.exec(message) ?? (String(code) in unconnected || code === 'UND_ERR_PRX_TLS');
  const place = { label: 'the webhook', address: new URL('https://its-host/'), setting: 'its address', proxy };
  if (proxy && ofProxy) return `no answer (${causeOfError(error, place).what.replace('its-host:443', 'the webhook')})`;
  return `no answer (${typeof code === 'string' ? code : 'the connection failed'})`;
}

/** The proxy itself answers with this status. */
function causeAtProxy(status: number, { address, proxy }: Place): Cause {
  const name = proxy ? `the proxy ${hostOf(proxy.url)}` : 'a proxy on the way';
  const setting = proxy?.setting ?? 'HTTPS_PROXY';
  if (status === 407)
    return lasting(
      `${name} ${proxy?.url.username ? 'does not accept its user name and password' : 'wants a user name and a password'} (407)`,
      `Set them in ${setting}: http://USER:PASSWORD@HOST:PORT.`,
    );
  const what = `${name} does not connect to ${hostOf(address)} (${status})`;
  const remedy = `Ask who runs the proxy whether it lets this machine reach ${hostOf(address)}; NO_PROXY=${address.hostname} leaves the proxy out.`;
  return status >= 500 || status === 429 || status === 408
    ? passing(what, `${remedy} ${again}`)
    : lasting(what, remedy);
}

/** A reply with this status is of something else than the interface that was asked; undefined: the dialect knows more. */
export function causeOfReply(
  {
    status,
    header,
    text,
    path,
  }: { status: number; header: (name: string) => string | undefined; text: string; path: string },
  place: Place,
): Cause | undefined {
  if (status === 407)
    return { ...causeAtProxy(status, place), what: 'a proxy on the way wants a user name and a password' };
  if (status >= 300 && status < 400 && status !== 304) return causeOfRedirect(header('location'), path, place);
  const [scheme] = /^\s*(basic|digest|negotiate|ntlm)\b/i.exec(header('www-authenticate') ?? '') ?? [];
  if (status === 401 && (scheme !== undefined || text.trimStart().startsWith('<')))
    return lasting(
      `something before ${place.label} asks for a login of its own${scheme === undefined ? '' : ` (${scheme.trim()})`}`,
      `The token is not what it refuses. Check ${place.setting}, or ask who runs the proxy or the gateway in between.`,
    );
  return undefined;
}

/** The rest of a Location may name a person, so it is quoted, and only a terminal shows it. */
function causeOfRedirect(location: string | undefined, path: string, { address, setting }: Place): Cause {
  const from = `${address.href.replace(/\/$/, '')}${path}`;
  if (location === undefined || !URL.canParse(location, from))
    return lasting(`${hostOf(address)} redirects to nowhere`, `Check ${setting}.`);
  const to = new URL(location, from);
  const ours = [...address.pathname.split('/'), 'api', 'rest'];
  const base = to.pathname.endsWith(path) ? to.pathname.slice(0, -path.length).split('/') : undefined;
  const isSame = to.host === address.host;
  const isPlain = base?.every(part => ours.includes(part) || /^v\d{1,2}$/.test(part));
  return {
    ...lasting(
      isSame
        ? `${hostOf(address)} redirects to another path of itself`
        : `${hostOf(address)} redirects to ${to.origin}`,
      `${isPlain ? `Set ${setting} to ${to.origin}${base!.join('/')}.` : `Set ${setting} to the address of the interface, if it has moved there.`} A redirect is not followed, because it would take the token along.`,
    ),
    quote: `${to.origin}${to.pathname}`,
  };
}

/** 404 of a list that every such interface has. */
export const noInterface = ({ address, setting, label }: Place): Pick<Cause, 'what' | 'remedy'> => ({
  what: `there is no such interface of ${label} at ${hostOf(address)}`,
  remedy: `Check ${setting}: its host, and that it ends where the interface begins (${ending(setting, address)}).`,
});

/** 403, but not in the words of the interface. */
export const refusedBetween = ({ label, address, proxy }: Place): Pick<Cause, 'what' | 'remedy'> => ({
  what: `something before ${label} refuses the request`,
  remedy: `Ask who runs ${proxy ? `the proxy ${hostOf(proxy.url)}` : 'the network between, a firewall or a proxy,'} whether it lets this machine reach ${hostOf(address)}. ${again}`,
});

/** A web page came in place of JSON. */
export const webPage = ({ address, setting }: Place): Pick<Cause, 'what' | 'remedy'> => ({
  what: `${hostOf(address)} answers with a web page, not with JSON`,
  remedy: `Check ${setting}: it may be the address of the site, not of its interface (${ending(setting, address)}); or somebody in between answers, such as a login or a maintenance page. ${again}`,
});

/** The first part of a path is free. */
const ending = (setting: string, { pathname }: URL): string =>
  `${setting} now ends in /${pathname.split('/').slice(1).slice(-2).join('/')}`;

/** 401. `made`: where a token is made. */
export const tokenRefused = (setting: string, made?: string): Pick<Cause, 'what' | 'remedy'> => ({
  what: 'the source does not accept the token',
  remedy: `Set ${setting} to a valid token: this one is mistyped, has expired or was withdrawn.${made ? ` ${made}` : ''}`,
});

/** 403. */
export const rightMissing = (remedy: string): Pick<Cause, 'what' | 'remedy'> => ({
  what: 'the token may not read this',
  remedy,
});

const lasting = (what: string, remedy: string): Cause => ({ what, remedy, lasts: true });
const passing = (what: string, remedy: string, words?: string): Cause => ({
  ...{ what, remedy, lasts: false },
  ...(words !== undefined && { short: words }),
});

/**
 * The outage of the source in words, if the error concerns every request. Not for errors of one record, of a part that
 * the token may not read, or of a wrong request of ours. `words`: the error without its request.
 */
export function answerOf(error: unknown, status: number | undefined, words: string): string | undefined {
  if (error instanceof Fatal) {
    if (error.exitCode === exitCodes.refused) return error.denied ? undefined : `refuses the token (${status})`;
    if (status !== undefined && status !== 404 && status !== 407 && status >= 400) return undefined;
  } else if (!(error instanceof Retry) || error.everywhere) return undefined;
  if (status === undefined) return `does not answer (${words})`;
  return status === 200 ? 'answers with what cannot be read' : `answers ${status}`;
}
