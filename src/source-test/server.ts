/** The derived service over HTTP. Before each reply the world moves. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Gate } from './gate.ts';
import { type Answer, answer, askedOf } from './lists.ts';
import type { Meaning } from './meaning.ts';
import type { World } from './world.ts';

/** What becomes of a request. */
export type Fault = 'kill' | 'refuse' | 'reset' | 'limit';

interface Play {
  readonly world: World;
  readonly meanings: readonly Meaning[];
  readonly gate: Gate;
  /** Called before each reply: time passes, and what is due happens. */
  arrives(stream: string): Fault | undefined;
  answered(path: string, answer: Answer): void;
  refused(path: string): void;
}

export interface Served extends AsyncDisposable {
  readonly url: string;
  play: Play | undefined;
}

const statuses = { kill: 503, refuse: 503, limit: 429 } as const;

export async function serve(): Promise<Served> {
  const server = createServer((request, response) => {
    const { play } = served;
    if (play === undefined) return request.socket.destroy();
    const url = new URL(request.url!, 'http://service');
    const asked = askedOf(play.meanings, url.pathname, url.searchParams);
    const fault = asked && play.arrives(asked.meaning.name);
    if (fault === 'reset') return request.socket.destroy();
    const { nowMs } = play.world;
    const { refused, headers } = play.gate.pass(nowMs);
    const reply = (status: number, body: unknown) => {
      const more = fault === 'limit' && !refused ? play.gate.pause(nowMs) : headers;
      response.sendDate = false;
      const date = new Date(nowMs).toUTCString();
      response.writeHead(status, { ...more, 'content-type': 'application/json', date });
      response.end(JSON.stringify(body));
    };
    const path = decodeURIComponent(url.pathname + url.search);
    if (refused) {
      play.refused(path);
      return reply(429, {});
    }
    if (fault !== undefined) return reply(statuses[fault], {});
    if (asked === undefined) return reply(404, { error: 'no such path' });
    const said = answer(play.world, asked, url.searchParams);
    play.answered(path, said);
    reply(said.status, said.body);
  });
  await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  const served: Served = {
    url: `http://127.0.0.1:${port}`,
    play: undefined,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(closed => server.close(closed));
    },
  };
  return served;
}
