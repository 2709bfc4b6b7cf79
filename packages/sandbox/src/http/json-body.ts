/**
 * JSON bodies of requests that create or modify (help desk 1 and 7): 415 without a JSON content type, 400 for invalid
 * JSON. The caller checks the content (422). The limits of size and depth protect the sandbox; the specification has none.
 */

import { Refusal } from './refusal.ts';
import type { Asked } from './request-reply.ts';

const DEEPEST = 100;

/**
 * The parsed body; undefined if empty. `untyped`: true if an empty body needs no content type; a string adds a hint to
 * the 415. `most`: longest body in bytes. Throws a Refusal (400, 413, 415).
 */
export function jsonBody(
  { headers, body, tooLong }: Asked,
  { untyped, most }: { untyped: boolean | string; most: number },
): unknown {
  const empty = !tooLong && !body?.length;
  if (!empty || untyped !== true) demandJson(headers['content-type'], empty && untyped ? `. ${untyped}` : '');
  if (empty) return undefined;
  if (body === undefined || body.length > most) {
    throw new Refusal(413, `Payload Too Large: the body has more than ${most} bytes`);
  }
  const encoding = headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity')
    throw new Refusal(415, `Content-Encoding: "${encoding}" is not supported; send the body unencoded`);
  return parsed(textOf(body));
}

function demandJson(header: string | string[] | undefined, more: string): void {
  const [type = '', ...parameters] = String(header ?? '')
    .split(';')
    .map(part => part.trim().toLowerCase());
  const charset = parameters.find(parameter => parameter.startsWith('charset='))?.slice('charset='.length);
  const utf8 = charset === undefined || /^"?utf-?8"?$/.test(charset);
  if (type === 'application/json' && utf8) return;
  throw new Refusal(415, `Unsupported Media Type: the Content-Type has to be application/json, in UTF-8${more}`);
}

function textOf(body: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch {
    throw new Refusal(400, 'The body is not UTF-8');
  }
}

function parsed(text: string): unknown {
  if (tooDeep(text)) throw new Refusal(400, `The body is nested deeper than ${DEEPEST} levels`);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Refusal(400, `The body is not JSON: ${(error as Error).message}`);
  }
}

/** Counts brackets outside of strings before parsing: deep nesting would exhaust the stack. */
function tooDeep(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const sign = text[at];
    if (sign === '"') at = endOfString(text, at);
    else if (sign === '[' || sign === '{') depth++;
    else if (sign === ']' || sign === '}') depth--;
    if (depth > DEEPEST) return true;
  }
  return false;
}

function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text[at - 1 - slashes] === '\\') slashes++;
    if (slashes % 2 === 0) return at;
  }
  return text.length;
}
