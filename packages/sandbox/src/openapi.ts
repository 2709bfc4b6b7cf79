/**
 * Serves openapi.yaml as YAML and as JSON, without credentials and for pages of any origin, because tools fetch such
 * documents that way. Loading the YAML parser takes about 50 ms and parsing 200 ms; both happen once, at the first request
 * for JSON.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Asked, Reply } from './http/request-reply.ts';

let yaml: string | undefined;
let json: string | undefined;

// @internal Tests validate the document itself.
export function openapiYaml(): string {
  yaml ??= readFileSync(new URL('openapi.yaml', import.meta.url), 'utf8');
  return yaml;
}

// @internal Every test of a sandbox holds its replies against the document.
export function openapiJson(): string {
  json ??= JSON.stringify((createRequire(import.meta.url)('yaml') as typeof import('yaml')).parse(openapiYaml()));
  return json;
}

const DOCUMENTS: Record<string, { type: string; text: () => string }> = {
  '/openapi.yaml': { type: 'application/yaml', text: openapiYaml },
  '/openapi.json': { type: 'application/json', text: openapiJson },
};

/** Answers `/openapi.yaml` and `/openapi.json`; undefined for other paths. `now`: time for Date, in milliseconds. */
export function openapiAt({ method, url }: Asked, now: number): Reply | undefined {
  const path = url.split('?')[0]!;
  const document = Object.hasOwn(DOCUMENTS, path) ? DOCUMENTS[path] : undefined;
  if (document === undefined) return undefined;
  const headers = { Date: new Date(now).toUTCString(), 'Access-Control-Allow-Origin': '*' };
  if (method !== 'GET' && method !== 'HEAD') {
    const text = JSON.stringify({ message: `${method} is not offered at ${path}` });
    return { status: 405, headers: { ...headers, Allow: 'GET, HEAD', 'Content-Type': 'application/json' }, text };
  }
  return { status: 200, headers: { ...headers, 'Content-Type': document.type }, text: document.text() };
}
