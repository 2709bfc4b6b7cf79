/** The path at which agents ask. The guard of the page has let the visitor in already. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { OverHttp } from '../../agents/http.ts';
import type { Role } from './auth.ts';

export interface ServedAgents extends OverHttp {
  readonly mostBodyBytes: number;
  /** Whether a visitor of this role sees names, addresses and texts. */
  seesAll(role: Role): boolean;
}

const agentsPath = '/mcp';

export function mountAgents(app: FastifyInstance, agents: ServedAgents): void {
  void app.register(async scope => {
    scope.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_, body, done) => done(null, body));
    scope.route({
      ...{ method: ['GET', 'POST', 'DELETE'], url: agentsPath, bodyLimit: agents.mostBodyBytes },
      async handler(request, reply) {
        const gone = new AbortController();
        reply.raw.on('close', () => gone.abort());
        const response = await agents.answer(requestOf(request, gone.signal), agents.seesAll(request.visitor!.role));
        return reply.send(response);
      },
    });
  });
}

function requestOf({ method, url, host, headers, body }: FastifyRequest, signal: AbortSignal): Request {
  const own = Object.entries(headers).flatMap(([name, value]) =>
    [value ?? []].flat().map((one): [string, string] => [name, one]),
  );
  const init = { method, headers: own, signal };
  return new Request(`http://${host}${url}`, body ? { ...init, body: new Uint8Array(body as Buffer) } : init);
}
