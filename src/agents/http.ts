/**
 * Serves agents over HTTP. Each request stands alone: no session is kept, so a client that vanishes leaves nothing behind. A
 * client may listen for changes of the lists; such streams are few, and end with their connection.
 */
import { createMcpHandler } from '@modelcontextprotocol/server';
import type { Agents } from './server.ts';

export interface OverHttp {
  answer(request: Request, pii: boolean): Promise<Response>;
  close(): Promise<void>;
}

const mostListeners = 16;
export const mostBodyBytes = 100_000;

export function makeOverHttp(agents: Agents, onError: (error: Error) => void): OverHttp {
  const options = { maxSubscriptions: mostListeners, maxRequestBodySize: mostBodyBytes, onerror: onError };
  const [plain, whole] = [false, true].map(pii => createMcpHandler(() => agents.serve(pii), options));
  const [{ fetch: masked }, { fetch: unmasked }] = [plain!, whole!];
  return {
    answer: (request, pii) => (pii ? unmasked(request) : masked(request)),
    async close() {
      await plain!.close();
      await whole!.close();
      await agents.close();
    },
  };
}
