/**
 * Types of the parts of undici that are loaded. The package as a whole also loads fetch, WebSocket and caches, which
 * doubles the time of its import.
 */
declare module 'undici/lib/dispatcher/agent.js' {
  import { Agent } from 'undici';

  export default Agent;
}

declare module 'undici/lib/dispatcher/proxy-agent.js' {
  import { ProxyAgent } from 'undici';

  export default ProxyAgent;
}

declare module 'undici/lib/dispatcher/pool.js' {
  import { Pool } from 'undici';

  export default Pool;
}

declare module 'undici/lib/api/api-connect.js' {
  import type { Dispatcher, Pool } from 'undici';

  export default function connect(this: Pool, options: Parameters<Pool['connect']>[0]): Promise<Dispatcher.ConnectData>;
}

declare module 'undici/lib/api/api-request.js' {
  import type { Dispatcher } from 'undici';

  export default function request(
    this: Dispatcher,
    options: Dispatcher.RequestOptions,
  ): Promise<Dispatcher.ResponseData>;
}

declare module 'undici/lib/web/fetch/index.js' {
  import type { fetch as send } from 'undici';

  const all: { readonly fetch: typeof send };
  export default all;
}
