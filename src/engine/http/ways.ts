/** The connections of this process: direct ones, and those through proxies. A command that sends nothing does not load it. */
import connect from 'undici/lib/api/api-connect.js';
import Agent from 'undici/lib/dispatcher/agent.js';
import Pool from 'undici/lib/dispatcher/pool.js';
import ProxyAgent from 'undici/lib/dispatcher/proxy-agent.js';
import { noteAtProxy } from './causes.ts';
import { noProxies, type Proxies, proxyFor } from './proxies.ts';

export interface Ways extends AsyncDisposable {
  readonly proxies: Proxies;
  to(address: URL): Agent | ProxyAgent;
}

/** Only the whole package gives its pools the method that opens a tunnel. */
const clientFactory = (proxy: URL, options: object) =>
  Object.assign(new Pool(proxy, options), {
    async connect(this: Pool, asked: Parameters<Pool['connect']>[0]) {
      try {
        return await connect.call(this, asked);
      } catch (error) {
        noteAtProxy(error as object);
        throw error;
      }
    },
  });

/** At most four connections to each host. */
export function openWays(proxies: Proxies = noProxies): Ways {
  const connections = 4;
  const direct = new Agent({ connections });
  const through = new Map<string, ProxyAgent>();
  return {
    proxies,
    to(address) {
      const proxy = proxyFor(address, proxies);
      if (proxy === undefined) return direct;
      const { href } = proxy.url;
      const agent = through.get(href) ?? new ProxyAgent({ uri: href, connections, clientFactory });
      through.set(href, agent);
      return agent;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([direct, ...through.values()].map(agent => agent.close()));
    },
  };
}
