/** A service with quirks: it passes requests on to another one, and changes what is asked for, and what is answered. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseJson } from '../../src/engine/exact-json.ts';

type Json = Record<string, unknown>;

export interface Quirk {
  /** Changes the address before it is asked for. */
  ask?(url: URL): void;
  /** Changes the body of a success, or answers another one. */
  answer?(body: Json, url: URL): unknown;
  /** Changes the headers of each reply. */
  headers?(headers: Record<string, string>): void;
  /** Headers of each request: a key that nobody has to send. */
  readonly sends?: Readonly<Record<string, string>>;
  /** The status of each reply to this address. */
  status?(status: number, url: URL): number;
}

export async function quirky(
  target: string,
  quirk: Quirk,
): Promise<AsyncDisposable & { readonly url: string; readonly asked: URL[] }> {
  const asked: URL[] = [];
  const server = createServer(async (request, response) => {
    const url = new URL(request.url!, target);
    asked.push(new URL(url));
    quirk.ask?.(url);
    const { host: _host, connection: _connection, ...headers } = request.headers as Record<string, string>;
    const reply = await fetch(url, { headers: { ...headers, ...quirk.sends } });
    const text = await reply.text();
    const said: Record<string, string> = { date: new Date().toUTCString(), ...Object.fromEntries(reply.headers) };
    for (const name of ['content-length', 'transfer-encoding', 'connection', 'keep-alive']) delete said[name];
    quirk.headers?.(said);
    response.sendDate = false;
    const isChanged = reply.ok && quirk.answer !== undefined;
    response.writeHead(quirk.status?.(reply.status, url) ?? reply.status, said);
    response.end(isChanged ? JSON.stringify(quirk.answer!(parseJson(text) as Json, url)) : text);
  });
  await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  return {
    ...{ url: `http://127.0.0.1:${port}`, asked },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(closed => server.close(closed));
    },
  };
}
