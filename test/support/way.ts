/** A way to a server that can be closed and opened again, while others still get there: connections end, new ones are refused. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface Way extends AsyncDisposable {
  /** The server's address, by this way. */
  readonly url: string;
  close(): Promise<void>;
  open(): Promise<void>;
  /** Ends one side of each connection, and does not tell the other, which stays open and hears nothing more. */
  halve(ends: 'theirs' | 'ours'): void;
}

export async function wayTo(url: string): Promise<Way> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  const pairs = new Set<{ ours: Socket; theirs: Socket; tells: boolean }>();
  const server = createServer(socket => {
    const onward = connect({ host: hostname, port: Number(port) });
    for (const one of [socket, onward]) {
      sockets.add(one);
      one.on('error', () => {}).on('close', () => sockets.delete(one));
    }
    const pair = { ours: socket, theirs: onward, tells: true };
    pairs.add(pair);
    const closed = () => {
      pairs.delete(pair);
      if (!pair.tells) return;
      socket.destroy();
      onward.destroy();
    };
    socket.on('close', closed);
    onward.on('close', closed);
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
  const halve = (ends: 'theirs' | 'ours') => {
    for (const pair of pairs) {
      pair.tells = false;
      pair.ours.unpipe().resume();
      pair.theirs.unpipe().resume();
      pair[ends].destroy();
    }
  };
  return { url: own.href, open, close, halve, [Symbol.asyncDispose]: close };
}
