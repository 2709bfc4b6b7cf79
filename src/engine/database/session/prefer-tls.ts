/** `sslmode=prefer`: encrypted where the server offers it. */
import { connect } from 'node:net';
import { addressOf, withSslmode } from './connection-url.ts';

/** The SSLRequest message of PostgreSQL: its length and its code. */
const question = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]);
const patienceMs = 5000;

/** The URL with `sslmode=require` in place of `prefer`, or with `disable` if the server has no TLS. Any other URL is returned as it is. */
export async function whereOffered(url: string): Promise<string> {
  const { tls, host = 'localhost', port = 5432 } = addressOf(url);
  if (tls.mode !== 'prefer' || host.startsWith('/')) return url;
  return withSslmode(url, (await offersTls(host, port)) ? 'require' : 'disable');
}

function offersTls(host: string, port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port }, () => socket.write(question));
    socket.setTimeout(patienceMs, () => {
      socket.destroy(Object.assign(new Error(`${host}:${port} does not answer`), { code: 'ETIMEDOUT' }));
    });
    socket.once('data', answer => {
      resolve(answer[0] === 'S'.charCodeAt(0));
      socket.destroy();
    });
    socket.once('error', reject);
    socket.once('close', () => reject(Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' })));
  });
}
