/** A receiver of hand-offs: a real HTTP server that checks each signature by itself, and answers as the test wants. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { HandOffConfig } from '../../src/app/config.ts';

/** Of all tests. */
export const handOffSecret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

export interface Received {
  readonly id: string;
  readonly body: string;
  readonly message: { type: string; id: string; data: Record<string, unknown> };
}

export interface Receiver extends AsyncDisposable {
  readonly url: URL;
  /** What came with a right signature. */
  readonly got: Received[];
  /** What came without. */
  readonly forged: string[];
  readonly env: Record<string, string>;
}

/** `answer`: called once all has been read; the status 204 unless told. */
export async function openReceiver(
  answer: (to: ServerResponse, got: Received, n: number) => void = to => void to.writeHead(204).end(),
): Promise<Receiver> {
  const got: Received[] = [];
  const forged: string[] = [];
  const server = createServer((asked, to) => {
    let body = '';
    asked.on('data', part => {
      body += part;
    });
    asked.on('end', () => {
      const id = String(asked.headers['webhook-id']);
      if (!isSigned(asked.headers, body)) {
        forged.push(body);
        to.writeHead(401).end();
        return;
      }
      const one = { id, body, message: JSON.parse(body) };
      got.push(one);
      answer(to, one, got.length);
    });
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks/hush`);
  return {
    ...{ url, got, forged },
    env: { HANDOFF_WEBHOOK_URL: url.href, HANDOFF_SECRET: handOffSecret },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
    },
  };
}

/** As Standard Webhooks says it, not as Shelfdesk does it. */
function isSigned(headers: Record<string, string | string[] | undefined>, body: string): boolean {
  const seconds = Number(headers['webhook-timestamp']);
  const [version, given] = String(headers['webhook-signature']).split(',');
  if (version !== 'v1' || !Number.isInteger(seconds) || given === undefined) return false;
  const mac = createHmac('sha256', Buffer.alloc(32, 7));
  const wanted = mac.update(`${headers['webhook-id']}.${seconds}.${body}`).digest();
  const signed = Buffer.from(given, 'base64');
  return signed.length === wanted.length && timingSafeEqual(signed, wanted);
}

export const handOffTo = (url: URL | undefined, more: Partial<HandOffConfig> = {}): HandOffConfig => ({
  webhook: url && { url, secret: handOffSecret },
  ...{ command: undefined, notify: undefined, due: undefined },
  ...{ runs: ['nightly', 'sync', 'backfill'], rejectsAllowed: 0 },
  ...more,
});
