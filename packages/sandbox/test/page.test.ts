import { describe, expect, onTestFinished, test } from 'vitest';
import { describeInBrowser } from '../../../test/support/browser.ts';
import { Rules } from '../src/admission/rules.ts';
import { BooksService } from '../src/books/service.ts';
import { BooksWorld } from '../src/books/world.ts';
import { ROUTES } from '../src/helpdesk/routes.ts';
import { Service, type ServiceOptions } from '../src/helpdesk/service.ts';
import { pageAt } from '../src/page/page.ts';
import type { Status } from '../src/page/status.ts';
import { type SandboxOptions, startSandbox } from '../src/server.ts';
import { SWITCHES } from '../src/switches.ts';
import { emptyWorld } from './in-process.ts';

/** Without a socket. */
function watched(options: ServiceOptions = {}) {
  const { world, clock } = emptyWorld();
  const rules = new Rules([{ id: 'late', path: '/users', fault: { kind: 'delay', ms: 5 } }]);
  const helpdesk = new Service(world, { rules, ...options });
  const books = new BooksService(new BooksWorld({ now: world.clock.now }));
  const look = (url: string, method = 'GET', headers: Record<string, string> = {}) =>
    pageAt({ method, url, headers }, { helpdesk, books, rules });
  const ask = (path: string, headers: Record<string, string> = {}) =>
    helpdesk.handle({
      method: 'GET',
      url: `/api/v1${path}`,
      headers: { authorization: 'Bearer sandbox-token', ...headers },
    });
  return { world, clock, rules, look, ask, status: (): Status => JSON.parse(look('/status.json')!.text) };
}

describe('/status.json', () => {
  test('says what is held, what was used, by whom, and which rules have fired', () => {
    const { world, clock, ask, status } = watched({ credits: 4 });
    world.addTicket();
    const before = status().helpdesk;
    for (const agent of ['a', 'b', 'b']) {
      ask('/users?count=true', { 'user-agent': agent });
      clock.ms += 10;
    }
    const { helpdesk, faults } = status();
    expect(before).toMatchObject({ requests: 0, budget: { limit: 4, used: 0 }, clients: [] });
    expect(helpdesk).toMatchObject({
      holds: { tickets: 1, customers: 1, users: 0, attachments: 0 },
      ...{ requests: 3, refused: 1, clients_seen: 2 },
      budget: { limit: 4, used: 4, resets_in_seconds: 60 },
      clients: expect.arrayContaining([
        { credential: 'token 1', agent: 'a', requests: 1, used: 2, refused: { own: 0, others: 0 } },
        { credential: 'token 1', agent: 'b', requests: 2, used: 2, refused: { own: 1, others: 0 } },
      ]),
    });
    expect(faults).toMatchObject([{ rule: { id: 'late' }, matched: 2, fired: 2 }]);
  });

  test('has every switch with its value and default, and every endpoint', () => {
    const { helpdesk, books } = watched({ sinceInclusive: false, depth: 7 }).status();
    const settings = [...helpdesk.settings, ...books.settings];
    expect(settings.map(({ flag }) => flag).toSorted()).toEqual(
      Object.values(SWITCHES)
        .flatMap(rows => rows.map(({ flag }) => flag))
        .toSorted(),
    );
    expect(settings.filter(({ changed }) => changed)).toMatchObject([
      { flag: '--depth', value: '7', default: '10000' },
      { flag: '--since', value: 'exclusive', default: 'inclusive' },
    ]);
    expect(helpdesk.endpoints).toHaveLength(ROUTES.length);
    expect(helpdesk.endpoints).toContainEqual({
      method: 'GET',
      path: '/api/v1/tickets',
      cost: '1 credit, 1 more with count=true',
      needs: 'a token',
    });
    expect(books.endpoints).toHaveLength(12);
  });

  test('shows no credential and no record', () => {
    const { world, ask, look } = watched({ tokens: ['hush-hush', 'hush-hush-2'] });
    world.addTicket({ subject: 'a secret' });
    for (const token of ['hush-hush', 'hush-hush-2', 'hush-hush-3']) {
      ask('/tickets', { authorization: `Bearer ${token}` });
      ask('/tickets', { authorization: `Basic ${btoa(`${token}:x`)}` });
    }
    for (const path of ['/', '/status.json']) {
      const { text } = look(path)!;
      expect(text).toContain('token 2');
      expect(text).not.toMatch(/hush|a secret|sandbox-(books-)?(token|key|refresh|secret)/);
    }
  });
});

describe('who asks for the page', () => {
  test('gets it without credentials, whatever Accept says, and with HEAD as well', () => {
    const { look } = watched();
    for (const accept of ['*/*', 'application/json', 'text/html', 'image/png']) {
      expect(look('/', 'GET', { accept })).toMatchObject({
        status: 200,
        headers: { 'Content-Type': 'text/html; charset=utf-8' },
      });
    }
    expect(look('/?x=1', 'HEAD')?.status).toBe(200);
    expect(look('/', 'POST')).toMatchObject({ status: 405, headers: { Allow: 'GET, HEAD' } });
    for (const path of ['/api/v1/tickets', '/index.html', '/status', '//']) expect(look(path), path).toBeUndefined();
  });

  test('gets no other script, style or frame than its own', () => {
    const { look } = watched();
    const { headers, text } = look('/')!;
    expect(headers['Content-Security-Policy']).toMatch(
      /^default-src 'none'; script-src 'sha256-\S+'; style-src 'sha256-/,
    );
    expect(headers).toMatchObject({ 'X-Content-Type-Options': 'nosniff', 'Cache-Control': 'no-store' });
    expect(text).not.toMatch(/<slot|\bstyle="|\bon\w+="|(?:src|href)="(?:https?:)?\/\//);
  });

  test('is not shown markup that came as a User-Agent, a Host or a rule', () => {
    const { ask, look, rules } = watched();
    const evil = `"'><script>alert(1)</script><img src=x onerror=alert(1)>&amp;`;
    rules.add({ id: evil, path: `/${evil}`, fault: { kind: 'status', status: 500, reason: evil } });
    ask('/users', { 'user-agent': evil });
    const { text } = look('/', 'GET', { host: evil })!;
    expect(text).toContain(
      '&quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&amp;amp;',
    );
    expect(text).not.toMatch(/<img|<script>alert/);
    expect(text).toContain('<code>…/api/v1</code>');
  });
});

async function sandbox(options: SandboxOptions = {}) {
  const made = await startSandbox({ tickets: 30, ...options });
  onTestFinished(() => made.close());
  const ask = (path: string, agent = 'a client') =>
    fetch(made.url + path, { headers: { authorization: `Bearer ${made.token}`, 'user-agent': agent } });
  return { made, ask, at: new URL('/', made.url).href };
}

test('the server answers with it beside the services, and with what it leads to', async () => {
  const { at } = await sandbox();
  const got = async (path: string) => {
    const reply = await fetch(new URL(path, at));
    return [reply.status, reply.headers.get('content-type'), (await reply.text()).slice(0, 15)];
  };
  expect(await got('/')).toEqual([200, 'text/html; charset=utf-8', '<!DOCTYPE html>']);
  for (const [, path] of (await (await fetch(at)).text()).matchAll(/href="(\/[^"]+)"/g)) {
    expect((await got(path!))[0], path).toBe(200);
  }
  expect(await got('/nowhere')).toEqual([401, 'application/json', '{"message":"Una']);
});

describeInBrowser('in a browser', open => {
  test('shows endpoints and settings, and figures that follow what happens', async () => {
    const { made, ask, at } = await sandbox({ sinceInclusive: false });
    const { page, complaints } = await open(at);
    const desk = page.locator('#helpdesk-now');
    await page.getByRole('row', { name: 'GET /api/v1/tickets 1 credit' }).first().waitFor();
    await page.getByRole('row', { name: '--since exclusive default: inclusive' }).waitFor();
    await desk.getByText('0 of 100 credits used in this period').waitFor();
    await page.getByText('No requests yet.').first().waitFor();

    for (const path of ['/users', '/tickets?count=true']) await ask(path);
    made.world.addTicket();
    await desk.getByText('3 of 100 credits used in this period').waitFor();
    await desk.getByText('31', { exact: true }).waitFor();
    await page.getByRole('row', { name: 'a client token 1 2 3 0 0' }).waitFor();
    await made.close();
    await page.getByText('no longer answers').waitFor();
    expect(complaints.filter(one => !one.includes('ERR_CONNECTION_REFUSED'))).toEqual([]);
  });

  test('a User-Agent with markup is text, at first and when the figures are renewed', async () => {
    const { ask, at } = await sandbox();
    const markup = (n: number) => `<img src=x onerror=alert(${n})><script>alert(${n})</script>`;
    await ask('/users', markup(1));
    const { page, complaints } = await open(at);
    await page.getByText(markup(1)).waitFor();
    await ask('/users', markup(2));
    await page.getByText(markup(2)).waitFor();
    expect(await page.locator('img, script').count()).toBe(1);
    expect(complaints).toEqual([]);
  });

  test('fits a narrow screen, and is dark where that is wanted', async () => {
    const { ask, at } = await sandbox();
    await ask('/users', 'x'.repeat(200));
    const { page } = await open(at, { viewport: { width: 360, height: 740 }, colorScheme: 'dark' });
    const { scrollWidth, ground } = (await page.evaluate(
      '({ scrollWidth: document.documentElement.scrollWidth, ground: getComputedStyle(document.body).backgroundColor })',
    )) as { scrollWidth: number; ground: string };
    expect(scrollWidth).toBeLessThanOrEqual(360);
    expect(ground).toBe('rgb(25, 24, 22)');
  });
});
