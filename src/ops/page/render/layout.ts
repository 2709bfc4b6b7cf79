/** Renders the frame around the parts of every page: head, visitor, and the form of all buttons. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Visitor } from '../auth.ts';
import type { Parts } from './account.ts';
import { type Html, html } from './html.ts';

const read = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8');
/** The style of all pages, minified. */
export const style = read('page.css')
  .replaceAll(/\/\*[\s\S]*?\*\//g, '')
  .replaceAll(/\n\s*/g, '\n');
export const styleHash = `'sha256-${createHash('sha256').update(style).digest('base64')}'`;

/** Short hash of a text. */
export const nameOf = (words: string | Buffer): string =>
  createHash('sha256').update(words).digest('base64url').slice(0, 12);

const icon =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%23b4531a' d='M2 2h3v12H2zM6.500 2h3v12h-3zM11 3l3-1v11l-3 1z'/%3E%3C/svg%3E";
const logo = html`<svg class="logo" viewBox="0 0 16 16" aria-hidden="true"><path d="M2 2h3v12H2zM6.500 2h3v12h-3zM11 3l3-1v11l-3 1z"/></svg>`;

/** A complete document with inline style, for visitors without access to other files. */
const alone = (title: string, inside: Html): string => document(title, html`<style>${{ html: style }}</style>`, inside);

function document(title: string, head: Html, inside: Html): string {
  return html`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>${title}</title>
<link rel="icon" href="${{ html: icon }}">
${head}
</head>
<body>
${inside}
</body>
</html>
`.html;
}

export interface Framed {
  readonly title: string;
  readonly heading: Html;
  readonly parts: Parts;
  /** Layout: rows of part ids. Parts of one row stand side by side if there is room. */
  readonly rows: readonly (readonly string[])[];
  readonly visitor: Visitor;
  /** Whether the visitor can log out. */
  readonly canLeave: boolean;
  readonly events: string;
  readonly actions: string | undefined;
  readonly files: {
    readonly style: string;
    readonly script: string;
    readonly plot: string;
    readonly plotStyle: string;
  };
  readonly said?: string | undefined;
}

export function framed({ title, heading, parts, rows, visitor, canLeave, ...page }: Framed): string {
  const { events, actions, files, said } = page;
  const csrf = html`<input type="hidden" name="csrf" value="${visitor.csrf ?? ''}">`;
  const head = html`<link rel="stylesheet" href="${files.style}">
<link rel="stylesheet" href="${files.plotStyle}">
<script defer src="${files.plot}"></script>
<script defer src="${files.script}"></script>`;
  return document(
    title,
    head,
    html`<a class="skip" href="#main">To the figures</a>
<header class="top">
<a class="home" href="/">${logo} Shelfdesk</a>${heading}
<p class="who"><span id="live">As of this moment; times are UTC.</span> <span>${visitor.role}</span>${canLeave ? html` <form method="post" action="/logout">${csrf}<button class="quiet">Log out</button></form>` : null}</p>
</header>
<main id="main" tabindex="-1" data-events="${events}">
<p id="said" role="alert">${said ?? null}</p>
${actions === undefined ? null : html`<form id="actions" method="post" action="${actions}">${csrf}</form>`}
${rows.map(row => {
  const there = row.filter(id => id in parts);
  const sections = there.map(
    id => html`<section id="${id}" data-live="${nameOf(parts[id]!.html)}">${parts[id]!}</section>`,
  );
  return there.length > 1 ? html`<div class="beside">${sections}</div>` : sections;
})}
</main>
<footer><p>Shown by Shelfdesk from its own warehouse: each figure is in SQL, in <code>sync.status</code>, <code>sync.problems</code>, <code>sync.runs</code> and <code>sync.credit_minutes</code>.</p></footer>`,
  );
}

/** `wrong`: the token is unknown; `wait`: too many attempts. */
export function loginPage(failed?: 'wrong' | 'wait'): string {
  const words = {
    wrong: 'This is not a token of this page.',
    wait: 'Too many wrong tokens came from your address. Wait a minute.',
  };
  return alone(
    'Shelfdesk: log in',
    html`<main class="login"><h1>${logo} Shelfdesk</h1>
<form method="post" action="/login">
${failed === undefined ? null : html`<p class="refused" role="alert" id="failed">${words[failed]}</p>`}
<p><label for="token">Token</label><input id="token" name="token" type="password" autocomplete="current-password" required autofocus${failed === undefined ? null : html` aria-describedby="failed" aria-invalid="true"`}></p>
<p><button>Log in</button></p>
<p class="none small">The operator of Shelfdesk has it, as SHELFDESK_WEB_TOKEN or SHELFDESK_WEB_VIEWER_TOKEN.</p>
</form></main>`,
  );
}

export const messagePage = (words: string, remedy: string): string =>
  alone(
    'Shelfdesk',
    html`<main class="login"><h1>${logo} Shelfdesk</h1><p role="alert">${words}</p><p>${remedy}</p><p><a href="/">To the page</a></p></main>`,
  );
