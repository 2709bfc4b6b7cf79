/** A way to a server that can be closed and opened again, while others still get there: connections end, new ones are refused. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface Way extends AsyncDisposable {
  /** The server's address, by this way. */
  readonly url: string;
  close(): Promise<void>;
  open(): Promise<void>;
}

export async function wayTo(url: string): Promise<Way> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  const server = createServer(socket => {
    const onward = connect({ host: hostname, port: Number(port) });
    for (const one of [socket, onward]) {
      sockets.add(one);
      one.on('error', () => {}).on('close', () => sockets.delete(one));
    }
    socket.on('close', () => onward.destroy());
    onward.on('close', () => socket.destroy());
    socket.pipe(onward).pipe(socket);
  });
  const own = new URL(url);
  own.hostname = '127.0.0.1';
  const open = () => new Promise<void>(done => server.listen(Number(own.port || 0), '127.0.0.1', done));
  own.port = '';
  await open();
  own.port = String((server.address() as AddressInfo).port);
  const close = () => {
    const closed = new Promise<void>(done => server.close(() => done()));
    for (const socket of sockets) socket.destroy();
    return closed;
  };
  return { url: own.href, open, close, [Symbol.asyncDispose]: close };
}
