/** Which proxy a request goes through, as HTTP_PROXY, HTTPS_PROXY and NO_PROXY say. */
import { BlockList, isIPv4 } from 'node:net';

export interface Proxies {
  readonly http: URL | undefined;
  readonly https: URL | undefined;
  /** Hosts that need no proxy, as NO_PROXY has them. */
  readonly none: string;
}

export const noProxies: Proxies = { http: undefined, https: undefined, none: '' };

/** A proxy cannot reach this machine itself. */
const itself = /^(localhost|.*\.localhost|127(\.\d+){3}|::1)$/;

/** The proxy for this address, and the setting that names it. Undefined: none. */
export function proxyFor(address: URL, { http, https, none }: Proxies): { url: URL; setting: string } | undefined {
  const isTls = address.protocol === 'https:';
  const url = isTls ? https : http;
  const host = address.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  const port = address.port || (isTls ? '443' : '80');
  if (url === undefined || itself.test(host)) return undefined;
  const isLeftOut = none.split(/[\s,]+/).some(entry => entry !== '' && covers(entry.toLowerCase(), host, port));
  return isLeftOut ? undefined : { url, setting: isTls ? 'HTTPS_PROXY' : 'HTTP_PROXY' };
}

/** `desk.example`, `.desk.example`, `*.desk.example`, `desk.example:8443`, `10.0.0.0/8`, `[::1]`, `*` */
function covers(entry: string, host: string, port: string): boolean {
  const [, name = '', of] = /^(\[[^\]]*\]|[^:]*|.*:.*:.*?)(?::(\d+))?$/.exec(entry) ?? [];
  if (of !== undefined && of !== port) return false;
  const plain = name.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  if (plain === '*') return true;
  if (plain.includes('/')) return isWithin(host, plain);
  const end = plain.replace(/^\*?\./, '');
  return end !== '' && (host === end ? !plain.startsWith('*') : host.endsWith(`.${end}`));
}

/** Whether an IPv4 address is in a network such as 10.0.0.0/8. */
function isWithin(host: string, network: string): boolean {
  const [start = '', bits = ''] = network.split('/');
  if (!isIPv4(host) || !isIPv4(start) || !/^\d{1,2}$/.test(bits) || Number(bits) > 32) return false;
  const hosts = new BlockList();
  hosts.addSubnet(start, Number(bits));
  return hosts.check(host);
}
