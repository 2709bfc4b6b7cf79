/** The site of the documents: it builds, which fails at a dead link, and its pages suit everybody who reads them. */
import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, extname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findings } from '../support/axe.ts';
import { describeInBrowser } from '../support/browser.ts';
import { eventually } from '../support/desk.ts';
import { root } from '../support/docker.ts';
import { long } from '../support/long.ts';

const site = join(root, 'dist/site');
const types: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

describeInBrowser('the site', open => {
  const server = createServer((request, reply) => {
    const path = decodeURI(new URL(request.url!, 'http://site').pathname).replace(/\/$/, '/index.html');
    try {
      const body = readFileSync(join(site, path));
      reply.writeHead(200, { 'content-type': types[extname(path)] ?? 'application/octet-stream' }).end(body);
    } catch {
      reply.writeHead(404).end();
    }
  });
  let url: string;
  beforeAll(async () => {
    const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` };
    await promisify(execFile)('npm', ['run', 'site'], { cwd: root, env, maxBuffer: 64_000_000 });
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => server.close());

  test('has a page for each document', long, () => {
    const documents = globSync('docs/**/*.md', { cwd: root });
    const pages = new Set(globSync('**/*.html', { cwd: site }));
    const pageOf = (path: string) => path.replace(/README\.md$/, 'index.md').replace(/md$/, 'html');
    expect(documents.filter(path => !pages.has(pageOf(path)))).toEqual([]);
    expect(documents.length).toBeGreaterThan(30);
  });

  test.each(['light', 'dark'] as const)(
    'has no serious finding of axe, asks nobody else, and fits a phone: %s',
    long,
    async scheme => {
      const phone = { colorScheme: scheme, reducedMotion: 'reduce', viewport: { width: 390, height: 844 } } as const;
      for (const path of ['/', '/docs/', '/docs/how-to/install.html', '/docs/reference/problems.html']) {
        const { page, complaints } = await open(url + path, phone);
        const asked = new Set<string>();
        page.on('request', request => asked.add(new URL(request.url()).origin));
        await page.reload({ waitUntil: 'networkidle' });
        expect([path, await findings(page)]).toEqual([path, []]);
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
        expect([...asked]).toEqual([url]);
        expect([path, complaints]).toEqual([path, []]);
      }
    },
  );

  test('finds a word on all its pages', long, async () => {
    const { page } = await open(url);
    await page.getByRole('button', { name: 'Search' }).click();
    await page.getByRole('searchbox').fill('rotate a token');
    await eventually(async () =>
      expect(await page.locator('.result').first().getAttribute('href')).toContain('rotate-a-token'),
    );
  });
});
