/** An HTTP proxy: a real server that opens tunnels (CONNECT) and passes plain requests on, with a password if told. */
import { createServer, request } from 'node:http';
import { type AddressInfo, connect } from 'node:net';

export interface Proxy extends AsyncDisposable {
  /** Without user name and password. */
  readonly url: URL;
  /** Hosts and ports that were asked for and let through, each once. */
  readonly reached: ReadonlySet<string>;
}

/** `known`: ports of this machine that stand behind names. Any other host is answered with 403. */
export async function openProxy(known: Readonly<Record<string, number>>, password?: string): Promise<Proxy> {
  const reached = new Set<string>();
  const wanted = password === undefined ? undefined : `Basic ${Buffer.from(`analyst:${password}`).toString('base64')}`;
  const judge = (host: string, given: string | undefined) => {
    if (wanted !== undefined && given !== wanted) return 407;
    if (!(host in known)) return 403;
    reached.add(host);
    return 200;
  };
  const server = createServer((asked, answer) => {
    const url = new URL(asked.url!);
    const host = `${url.hostname}:${url.port || 80}`;
    const status = judge(host, asked.headers['proxy-authorization']);
    if (status !== 200) return void answer.writeHead(status).end();
    const { 'proxy-authorization': _, ...headers } = asked.headers;
    const passed = request(
      { port: known[host], method: asked.method, path: url.pathname + url.search, headers },
      reply => {
        answer.writeHead(reply.statusCode!, reply.headers);
        reply.pipe(answer);
      },
    );
    asked.pipe(passed);
  });
  server.on('connect', (asked, socket) => {
    const status = judge(asked.url!, asked.headers['proxy-authorization']);
    if (status !== 200) return void socket.end(`HTTP/1.1 ${status} Refused\r\n\r\n`);
    const tunnel = connect(known[asked.url!]!, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      tunnel.pipe(socket).pipe(tunnel);
    });
    for (const [one, other] of [
      [tunnel, socket],
      [socket, tunnel],
    ] as const)
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
  });
  await new Promise<void>(ready => server.listen(0, '127.0.0.1', ready));
  return {
    url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    reached,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(closed => server.close(closed));
    },
  };
}
