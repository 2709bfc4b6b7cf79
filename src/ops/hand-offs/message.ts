/** A hand-off as a signed message, in the manner of Standard Webhooks, and the times of its retries. Pure. */
import { createHmac } from 'node:crypto';

/** The key in a secret of the form `whsec_…`. */
const keyOf = (secret: string): Buffer => Buffer.from(secret.replace(/^whsec_/, ''), 'base64');

/** The signature covers id, time and body, so that none can be replaced, or repeated much later. */
// @internal A test holds it against the example of the specification.
export function signatureOf(secret: string, id: string, seconds: number, body: string): string {
  return `v1,${createHmac('sha256', keyOf(secret)).update(`${id}.${seconds}.${body}`).digest('base64')}`;
}

/** Headers of one attempt at `nowMs`. Every attempt has the same id. */
export function headersOf(secret: string, id: string, body: string, nowMs: number): Record<string, string> {
  const seconds = Math.floor(nowMs / 1000);
  return {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': signatureOf(secret, id, seconds, body),
  };
}

const retrySeconds = [5, 30, 120, 300, 900, 1800, 3600];

/** Time until the next attempt, after this number of failed ones: soon at first, in the end once an hour. */
export const retryMs = (failed: number): number =>
  1000 * retrySeconds[Math.min(Math.max(failed, 1), retrySeconds.length) - 1]!;
