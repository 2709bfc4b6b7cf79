/**
 * Tests that need a browser: Chromium, from PATH or where CHROMIUM says. Where there is none they do not run, and the run
 * says so at its end (see not-run.ts).
 */
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, inject, onTestFinished } from 'vitest';

declare module 'vitest' {
  interface TaskMeta {
    /** Not run, because it needs a browser and there is none. */
    lacksBrowser?: boolean;
  }
}

/** A page of its own, as if in another browser, and what went wrong on it: errors, warnings, what a policy held back. */
export type OpenPage = (url: string, options?: BrowserContextOptions) => Promise<{ page: Page; complaints: string[] }>;

/** `describe` for tests that need a browser; all of them share one, which is started for them. */
export function describeInBrowser(name: string, register: (open: OpenPage) => void): void {
  const executablePath = inject('chromium');
  const without = executablePath === undefined;
  describe(name, { skip: without, meta: { lacksBrowser: without } }, () => {
    let browser: Browser;
    beforeAll(async () => {
      if (!without) browser = await chromium.launch({ executablePath });
    });
    afterAll(() => (without ? undefined : browser.close()));
    register(async (url, options = {}) => {
      const context = await browser.newContext(options);
      onTestFinished(() => context.close());
      const page = await context.newPage();
      const complaints: string[] = [];
      page.on('console', message => {
        if (['error', 'warning'].includes(message.type())) complaints.push(`${message.type()}: ${message.text()}`);
      });
      page.on('pageerror', error => complaints.push(`thrown: ${error.message}`));
      page.on('dialog', dialog => {
        complaints.push(`dialog: ${dialog.message()}`);
        void dialog.dismiss();
      });
      await page.goto(url);
      return { page, complaints };
    });
  });
}
