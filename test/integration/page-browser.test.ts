/** The page in Chromium: how it looks and weighs, what it is without a script, and what it does with one. */
import type { BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makePool } from '../../src/engine/database/pool.ts';
import { findings } from '../support/axe.ts';
import { describeInBrowser } from '../support/browser.ts';
import { eventually } from '../support/desk.ts';
import { long } from '../support/long.ts';
import { noTokens, type PageWorld, pageWorld, tickets, tokens } from '../support/page.ts';
import { wayTo } from '../support/way.ts';

const mostBytes = 150_000;

let world: PageWorld;
let url: string;
let guarded: string;
beforeAll(async () => {
  world = await pageWorld();
  url = await world.serve(noTokens);
  guarded = await world.serve(tokens);
});
afterAll(() => world?.[Symbol.asyncDispose]());

const isLive = (page: Page) =>
  eventually(async () => expect(await page.locator('#live').textContent()).toMatch(/^Live; times are /));

async function logIn(page: Page, token: string) {
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Log in' }).click();
}

describeInBrowser('the page', open => {
  const isAccessible = async (colorScheme: 'light' | 'dark') => {
    const { page, complaints } = await open(`${url}accounts/failing?range=day`, {
      colorScheme,
      reducedMotion: 'reduce',
    });
    await isLive(page);
    await page.getByText('The same in figures').click();
    expect(await findings(page)).toEqual([]);
    const run = (await page.locator('a[href*="/runs/"]').first().getAttribute('href'))!.slice(1);
    for (const path of colorScheme === 'dark'
      ? ['', run]
      : ['', run, 'accounts/paused', 'accounts/begun', 'accounts/gaps']) {
      await page.goto(url + path);
      expect(await findings(page)).toEqual([]);
    }
    expect(complaints).toEqual([]);
    const stranger = await open(guarded, { colorScheme });
    expect(await findings(stranger.page)).toEqual([]);
    await logIn(stranger.page, 'wrong');
    expect(await stranger.page.getByRole('alert').textContent()).toBe('This is not a token of this page.');
    expect(await findings(stranger.page)).toEqual([]);
  };
  test('has no serious finding of axe', long, () => isAccessible('light'));
  test('nor where it is dark', long, () => isAccessible('dark'));

  test('weighs less than 150 kB, with all that it needs, and asks nobody else', async () => {
    const { page } = await open('about:blank');
    let bytes = 0;
    const hosts = new Set<string>();
    page.on('response', reply => hosts.add(new URL(reply.url()).host));
    page.on('requestfinished', async request => {
      const { responseBodySize, responseHeadersSize } = await request.sizes();
      bytes += responseBodySize + responseHeadersSize;
    });
    await page.goto(`${url}accounts/failing?range=day`);
    await isLive(page);
    await page.waitForLoadState('load');
    // As it is without compression, which only makes less of it.
    const plain = ((await page.evaluate(
      `performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).reduce((sum, one) => sum + one.decodedBodySize, 0)`,
    )) ?? 0) as number;
    expect(bytes).toBeGreaterThan(20_000);
    expect(bytes).toBeLessThan(mostBytes);
    expect(plain).toBeLessThan(mostBytes);
    expect([...hosts]).toEqual([new URL(url).host]);
  });

  test('fits a small screen, and the graph is drawn', long, async () => {
    const { page, complaints } = await open(`${url}accounts/waits`, { viewport: { width: 360, height: 740 } });
    await isLive(page);
    await page.goto(`${url}accounts/failing`);
    const run = (await page.locator('a[href*="/runs/"]').first().getAttribute('href'))!.slice(1);
    const fits = async () => {
      for (const path of ['accounts/failing', run, 'accounts/waits', '']) {
        await page.goto(url + path);
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360);
        const cut = await page.evaluate(
          `[...document.querySelectorAll('.runs :is(th, td), .timeline *')]
             .filter(one => one.getBoundingClientRect().right > 360).map(one => one.outerHTML)`,
        );
        expect([path, cut]).toEqual([path, []]);
      }
    };
    await fits();
    // Tomorrow each of these times has its day, as some have after midnight.
    await page.clock.setFixedTime(Date.now() + 86_400_000);
    await fits();
    await page.goto(`${url}accounts/failing`);
    expect(await page.locator('.timeline time').first().textContent()).toMatch(/^\d+ \w+, /);
    await page.goto(`${url}accounts/waits`);
    expect(await page.locator('#credits canvas').count()).toBe(1);
    expect(complaints).toEqual([]);
  });

  test('is whole without a script, buttons and all', long, async () => {
    const { page } = await open(`${url}accounts/fresh`, { javaScriptEnabled: false });
    expect(await page.locator('.sentence').textContent()).toMatch(
      /^Everything from 1 Jan 2020, 00:00 up to \d\d:\d\d is in\.$/,
    );
    expect(await page.locator('.card').count()).toBe(4);
    expect(await page.locator('#credits svg path.of-fresh').getAttribute('d')).toMatch(/^M\d/);
    await page.getByRole('link', { name: 'week' }).click();
    expect(await page.locator('#credits figcaption').textContent()).toContain('Last week');
    await page.getByText('The same in figures').click();
    expect(await page.locator('#credits tbody tr').count()).toBeGreaterThan(0);
    await page.getByRole('button', { name: 'Pause users' }).click();
    expect(await page.locator('#said').textContent()).toBe('It is paused.');
    await page.getByRole('button', { name: 'Resume users' }).click();
    expect(await page.locator('#said').textContent()).toBe('It resumes.');
    expect(await page.getByRole('button', { name: 'Pause users' }).count()).toBe(1);
  });

  test('changes as the warehouse does, and leaves alone what somebody has at hand', long, async () => {
    const { page, complaints } = await open(`${url}accounts/gaps`, { viewport: { width: 900, height: 500 } });
    await isLive(page);
    await page.getByText('Where the gaps are').click();
    await page.getByRole('button', { name: 'Pause customers' }).focus();
    const top = 'document.activeElement.getBoundingClientRect().top';
    const stood = await page.evaluate(top);
    const before = await page.locator('.card[data-key=messages] dd').nth(3).textContent();
    expect(before).toBe('0');
    await tickets(world.pool, 'gaps', 7);
    await eventually(async () =>
      expect(await page.locator('.card[data-key=messages] dd').nth(3).textContent()).toMatch(/^7\b/),
    );
    expect(await page.locator('.sentence').textContent()).toContain('the messages of 7 tickets');
    expect(await page.locator('.card[data-key=tickets] details').getAttribute('open')).not.toBeNull();
    expect(await page.evaluate('document.activeElement.value')).toBe('pause customers');
    // Where it stood, though the sentence above has become longer.
    expect(Math.abs(((await page.evaluate(top)) as number) - (stood as number))).toBeLessThan(2);
    // By the keyboard, and without leaving.
    await page.keyboard.press('Enter');
    await eventually(async () => expect(await page.locator('#said').textContent()).toBe('customers is paused.'));
    await eventually(async () => expect(await page.evaluate('document.activeElement.value')).toBe('resume customers'));
    expect(page.url()).toBe(`${url}accounts/gaps`);
    expect(await page.locator('.card[data-key=customers] .badge').textContent()).toContain('paused');
    expect(complaints).toEqual([]);
  });

  test('shows times in the time zone of the visitor', long, async () => {
    const options: BrowserContextOptions = { timezoneId: 'Asia/Tokyo' };
    const { page } = await open(`${url}accounts/gaps`, options);
    await eventually(async () => expect(await page.locator('#live').textContent()).toBe('Live; times are Asia/Tokyo.'));
    const through = page.locator('.card[data-key=tickets] time').nth(1);
    expect(await through.getAttribute('datetime')).toBe('2021-05-01T00:00:00.000Z');
    expect(await through.textContent()).toBe('1 May 2021, 09:00');
    // Also of what comes later.
    await world.rows(`insert into sync.paused values ('gaps', 'users', now(), 'ada', null, 'helpdesk')`);
    await eventually(async () => expect(await page.locator('.card[data-key=users]').textContent()).toContain('by ada'));
    expect(await through.textContent()).toBe('1 May 2021, 09:00');
  });

  test('says when the warehouse is away, and goes on when it is back', long, async () => {
    await using way = await wayTo(world.url);
    const pool = makePool(way.url);
    const away = await world.serve(noTokens, { pg: pool });
    const { page } = await open(`${away}accounts/fresh`);
    await isLive(page);
    await way.close();
    await eventually(async () =>
      expect(await page.locator('#live').textContent()).toMatch(
        /^The warehouse does not answer: .+\. These figures are the last ones seen\.$/,
      ),
    );
    expect(await page.locator('.card').count()).toBe(4);
    expect((await page.request.get(`${away}accounts/fresh`)).status()).toBe(503);
    await way.open();
    await isLive(page);
    await pool.end();
  });

  test(
    'shows what is so now also when it was cut off, and what it had been told meanwhile has ended',
    long,
    async () => {
      await using way = await wayTo(url);
      const { page } = await open(`${way.url}accounts/fresh`);
      await isLive(page);
      const problems = () => page.locator('#problems').textContent();
      const before = await problems();
      await world.rows(`insert into sync.paused values ('fresh', 'users', now(), 'ada', null, 'helpdesk')`);
      await eventually(async () => expect(await problems()).toContain('by ada'));
      await way.close();
      await eventually(async () => expect(await page.locator('#live').textContent()).toMatch(/^Not connected/));
      await world.rows(`delete from sync.paused where account_id = 'fresh'`);
      await way.open();
      await eventually(async () => expect(await problems()).toBe(before));
      await isLive(page);
    },
  );
});
