/**
 * Serves agents over HTTP. No session is kept between requests, so a client that vanishes leaves nothing behind. A few
 * clients may listen for changes of the lists; such a stream ends with its connection.
 */
import { createMcpHandler } from '@modelcontextprotocol/server';
import type { Agents } from './server.ts';

export type OverHttp = ReturnType<typeof makeOverHttp>;

const mostListeners = 16;
export const mostBodyBytes = 100_000;

export function makeOverHttp(agents: Agents, onError: (error: Error) => void) {
  const options = { maxSubscriptions: mostListeners, maxRequestBodySize: mostBodyBytes, onerror: onError };
  const [plain, whole] = [false, true].map(pii => createMcpHandler(() => agents.serve(pii), options));
  const [{ fetch: masked }, { fetch: unmasked }] = [plain!, whole!];
  return {
    answer: (request: Request, pii: boolean): Promise<Response> => (pii ? unmasked(request) : masked(request)),
    async close(): Promise<void> {
      await plain!.close();
      await whole!.close();
      await agents.close();
    },
  };
}
