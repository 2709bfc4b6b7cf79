/** Sources, token endpoints and webhooks behind a proxy, which alone knows their hosts. */

import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../packages/sandbox/src/server.ts';
import { type Certificates, makeCertificates } from '../support/certificates.ts';
import { settingsFor, shelfdesk } from '../support/cli.ts';
import { ran } from '../support/here.ts';
import { long } from '../support/long.ts';
import { noSandboxLimits } from '../support/mirror.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';
import { openProxy } from '../support/proxy.ts';
import { openReceiver } from '../support/receiver.ts';

let sandbox: Sandbox;
let files: Certificates;
const stack = new AsyncDisposableStack();
beforeAll(async () => {
  sandbox = stack.adopt(await startSandbox({ ...noSandboxLimits, tickets: 3 }), one => one.close());
  files = stack.use(await makeCertificates());
});
afterAll(() => stack.disposeAsync());

/** Only a proxy knows the name of the desk. */
const desk = (db: TestDatabase, env: Record<string, string>) => ({
  ...settingsFor(db.url, { url: 'http://desk:8080/api/v1', token: sandbox.token }),
  ...env,
});
const port = () => Number(new URL(sandbox.url).port);
const run = (env: Record<string, string>, ...args: string[]) => ran(args, env);
const withPassword = (url: URL, password: string) =>
  Object.assign(new URL(url), { username: 'analyst', password }).href;

test(
  'a source and a webhook are reached through a proxy that wants a password, and doctor names it',
  long,
  async () => {
    await using db = await freshDatabase();
    await using receiver = await openReceiver();
    const hook = Number(receiver.url.port);
    await using proxy = await openProxy({ 'desk:8080': port(), 'hook:80': hook }, 'p@ss:word');
    const env = desk(db, {
      ...receiver.env,
      HANDOFF_WEBHOOK_URL: `http://hook${receiver.url.pathname}`,
      http_proxy: withPassword(proxy.url, 'p%40ss%3Aword'),
    });
    const synced = await run(env, 'sync', 'users');
    expect(synced, synced.stderr).toMatchObject({ code: 0 });
    const sent = await run(env, 'hand-off', 'test');
    expect(sent, sent.stderr).toMatchObject({ code: 0 });
    expect([...proxy.reached].toSorted()).toEqual(['desk:8080', 'hook:80']);
    const checked = await run(env, 'doctor', '--all');
    expect(checked.stdout).toContain(`through proxy ${proxy.url.host} (HTTP_PROXY)`);
    expect(checked.stdout + checked.stderr).not.toContain('p@ss');
    expect(checked.stdout + checked.stderr).not.toContain('p%40ss');
  },
);

test('a source with TLS is reached through a tunnel', long, async () => {
  const behind = createServer(
    { cert: await readFile(files.named.cert), key: await readFile(files.named.key) },
    (asked, answer) => {
      const { method, url, headers } = asked;
      asked.pipe(
        request({ port: port(), method, path: url, headers }, reply => {
          answer.writeHead(reply.statusCode!, reply.headers);
          reply.pipe(answer);
        }),
      );
    },
  );
  await new Promise<void>(ready => behind.listen(0, '127.0.0.1', ready));
  await using proxy = await openProxy({ 'desk.example:443': (behind.address() as AddressInfo).port });
  await using db = await freshDatabase();
  const env = desk(db, {
    HELPDESK_BASE_URL: 'https://desk.example/api/v1',
    HTTPS_PROXY: proxy.url.href,
  });
  const strange = await run(env, 'sync', 'users');
  expect(strange).toMatchObject({ code: 1, stderr: expect.stringContaining('NODE_EXTRA_CA_CERTS') });
  // Node reads this one as it starts.
  const synced = await shelfdesk(['sync', 'users'], { ...env, NODE_EXTRA_CA_CERTS: files.authority }).finished;
  expect(synced, synced.stderr).toMatchObject({ code: 0 });
  expect([...proxy.reached]).toEqual(['desk.example:443']);
  behind.closeAllConnections();
  behind.close();
});

test('what a proxy refuses, and a proxy that is away, are told with its setting', long, async () => {
  await using db = await freshDatabase();
  const proxy = await openProxy({ 'desk:8080': port() }, 'right');
  const said = async (HTTP_PROXY: string, more: Record<string, string> = {}) => {
    const { code, stdout, stderr } = await run(desk(db, { HTTP_PROXY, ...more }), 'doctor');
    expect(code).toBe(1);
    return (stdout + stderr).replaceAll(/\s+/g, ' ');
  };
  expect(await said(proxy.url.href)).toContain(
    `the proxy ${proxy.url.host} wants a user name and a password (407) Set them in HTTP_PROXY`,
  );
  expect(await said(withPassword(proxy.url, 'wrong'))).toContain('does not accept its user name and password (407)');
  const other = { HELPDESK_BASE_URL: 'https://other.example/api/v1', HTTPS_PROXY: withPassword(proxy.url, 'right') };
  expect(await said('', other)).toContain(`the proxy ${proxy.url.host} does not connect to other.example:443 (403)`);
  // A proxy without TLS that is named with it: the token must not be sent without.
  const plain = { ...other, HTTPS_PROXY: proxy.url.href.replace('http:', 'https:') };
  expect(await said('', plain)).toContain(`${proxy.url.host} does not speak TLS`);
  expect(await said('', plain)).toContain('Check the port in HTTPS_PROXY');
  await proxy[Symbol.asyncDispose]();
  expect(await said(proxy.url.href)).toContain(`nobody listens at the proxy ${proxy.url.host} (ECONNREFUSED)`);
  // Left out, the proxy is not asked, and this machine does not know the host.
  expect(await said(proxy.url.href, { NO_PROXY: 'desk' })).toMatch(/\bdesk\b.*\((ENOTFOUND|EAI_AGAIN)\)/);
});
