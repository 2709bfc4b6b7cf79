/**
 * The page at `/`: endpoints, settings, live counts, clients and fault rules. The page works without its script, which
 * fetches the same page every second and replaces the live parts. The function `html` escapes all text, including
 * text from clients (User-Agent, Host). The Content-Security-Policy admits only the page's own script and style.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { TOKEN_PATH } from '../books/tokens.ts';
import { type Asked, originOf, type Reply } from '../http/request-reply.ts';
import { type Endpoint, type ServiceStatus, type Setting, type Status, statusOf, type Watched } from './status.ts';

const TEMPLATE = readFileSync(new URL('page.html', import.meta.url), 'utf8');

/** CSP hash of the only element of this kind in the template. */
function hashOf(element: 'style' | 'script'): string {
  const [, text = ''] = new RegExp(`<${element}>(.*?)</${element}>`, 's').exec(TEMPLATE) ?? [];
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

const SAFE = {
  'Content-Security-Policy':
    `default-src 'none'; script-src ${hashOf('script')}; style-src ${hashOf('style')}; connect-src 'self'; ` +
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cache-Control': 'no-store',
};

/** Answers `/` and `/status.json` without credentials, whatever Accept says; undefined for other paths. */
export function pageAt(asked: Asked, watched: Watched): Reply | undefined {
  const { method } = asked;
  const path = asked.url.split('?')[0];
  if (path !== '/' && path !== '/status.json') return undefined;
  const date = new Date(watched.helpdesk.world.clock.now()).toUTCString();
  if (method !== 'GET' && method !== 'HEAD') {
    const text = JSON.stringify({ message: `${method} is not offered at ${path}` });
    return { status: 405, headers: { Date: date, Allow: 'GET, HEAD', 'Content-Type': 'application/json' }, text };
  }
  const status = statusOf(watched);
  const isPage = path === '/';
  const type = isPage ? 'text/html; charset=utf-8' : 'application/json';
  const text = isPage ? written(status, addressOf(asked)) : JSON.stringify(status, null, 2);
  return { status: 200, headers: { Date: date, 'Content-Type': type, ...SAFE }, text };
}

// --- HTML ----------------------------------------------------------------------------------------------------------

interface Html {
  html: string;
}

type Part = Html | string | number | readonly Part[];

function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  return { html: String.raw({ raw: strings }, ...parts.map(escaped)) };
}

const SIGNS: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

function escaped(part: Part): string {
  if (typeof part === 'object') return 'html' in part ? part.html : part.map(escaped).join('');
  return String(part).replaceAll(/[&<>"']/g, sign => SIGNS[sign]!);
}

const figure = (n: number): string => n.toLocaleString('en');

function lasting(seconds: number): string {
  const minutes = Math.round(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const parts = seconds < 120 ? [seconds, 's'] : minutes < 120 ? [minutes, 'min'] : [hours, 'h'];
  if (hours > 1 && minutes % 60 > 0) parts.push(minutes % 60, 'min');
  return parts.join('\u00a0');
}

/** Turns text between backticks into `<code>`. */
const prose = (text: string): Html[] =>
  text.split('`').map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : html`${part}`));

// --- the parts -----------------------------------------------------------------------------------------------------

/** The origin from the Host header; `…` if that is no host name. */
function addressOf(asked: Asked): string {
  return /^[\w.:[\]-]+$/.test(String(asked.headers.host)) ? originOf(asked, '') : '…';
}

function written(status: Status, origin: string): string {
  const { helpdesk, books } = status;
  const parts: Record<string, Html> = {
    clock: html`<time datetime="${status.at}">${status.at.slice(0, 19).replace('T', ' ')} UTC</time>`,
    'helpdesk-now': now(helpdesk, 'credits', 'period'),
    'books-now': now(books, 'requests', 'day'),
    'helpdesk-clients': clients(helpdesk, 'credits'),
    'books-clients': clients(books, 'quota used'),
    'helpdesk-address': html`<code>${origin}${helpdesk.base}</code>`,
    'books-address': html`<code>${origin}${books.base}</code>`,
    'token-address': html`<code>${origin}${TOKEN_PATH}</code>`,
    'helpdesk-endpoints': endpoints(helpdesk.endpoints),
    'books-endpoints': endpoints(books.endpoints),
    'helpdesk-settings': settings(helpdesk.settings),
    'books-settings': settings(books.settings),
    requests: requests(status),
    faults: faults(status),
    admin: status.admin_port === null ? html`not open (<code>--admin-port</code>)` : html`port ${status.admin_port}`,
  };
  return TEMPLATE.replaceAll(/<slot name="([\w-]+)"><\/slot>/g, (_, name: string) => escaped(parts[name]!));
}

function now({ holds, requests, refused, budget }: ServiceStatus, unit: string, period: string): Html {
  const { limit, used, resets_in_seconds } = budget;
  const share = Math.min(100, (used / limit) * 100).toFixed(1);
  const label = `${figure(used)} of ${figure(limit)} ${unit} used in this ${period}`;
  return html`
    <dl class="figures">${Object.entries(holds).map(([what, n]) => html`<div><dt>${what}</dt><dd>${figure(n)}</dd></div>`)}</dl>
    <svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" role="img" aria-label="${label}"><rect width="${share}" height="1"/></svg>
    <p>${label}; resets in ${lasting(resets_in_seconds)}.</p>
    <p><strong>${figure(requests)}</strong> ${requests === 1 ? 'request' : 'requests'} answered, <strong>${figure(refused)}</strong> of them refused by a limit.</p>`;
}

function clients({ clients, clients_seen }: ServiceStatus, unit: string): Html {
  if (clients.length === 0) return html`<p class="none">No requests yet.</p>`;
  const rows = clients.map(
    ({ credential, agent, requests, used, refused }) => html`
      <tr><th scope="row">${agent || 'no User-Agent'}</th><td>${credential}</td><td class="n">${figure(requests)}</td>
      <td class="n">${figure(used)}</td><td class="n">${figure(refused.own)}</td><td class="n">${figure(refused.others)}</td></tr>`,
  );
  const more = clients_seen - clients.length;
  return html`
    <table><thead><tr><th scope="col">client</th><th scope="col">credential</th><th scope="col" class="n">requests</th>
    <th scope="col" class="n">${unit}</th><th scope="col" class="n">refused: own fault</th><th scope="col" class="n">refused: others’</th></tr></thead>
    <tbody>${rows}</tbody></table>${more > 0 ? html`<p>And ${figure(more)} clients seen earlier.</p>` : ''}`;
}

function endpoints(list: Endpoint[]): Html {
  return html`
    <table><thead><tr><th scope="col">endpoint</th><th scope="col">costs</th><th scope="col">needs</th></tr></thead>
    <tbody>${list.map(({ method, path, cost, needs }) => html`<tr><th scope="row"><b class="verb">${method}</b> <code>${path}</code></th><td>${cost}</td><td>${needs}</td></tr>`)}</tbody></table>`;
}

function settings(list: Setting[]): Html {
  const rows = list.map(
    ({ flag, says, value, default: usual, unit, changed }) => html`
      <tr${changed ? html` class="changed"` : ''}><th scope="row"><code>${flag}</code></th><td><b>${value}</b>${unit && ` ${unit}`}${changed ? html` <small>default: ${usual}</small>` : ''}</td><td>${prose(says)}</td></tr>`,
  );
  return html`
    <table><thead><tr><th scope="col">option</th><th scope="col">here</th><th scope="col">decides</th></tr></thead><tbody>${rows}</tbody></table>`;
}

function requests({ last_requests }: Status): Html {
  if (last_requests.length === 0) return html`<p class="none">No requests yet.</p>`;
  const rows = last_requests.map(
    ({ at, service, method, path, status, cost }) => html`
      <tr><td>${at.slice(11, 19)}</td><td>${service}</td><th scope="row"><b class="verb">${method}</b> <code>${path}</code></th><td class="n">${status ?? '–'}</td><td class="n">${figure(cost)}</td></tr>`,
  );
  return html`
    <table><thead><tr><th scope="col">at</th><th scope="col">service</th><th scope="col">request</th><th scope="col" class="n">status</th><th scope="col" class="n">cost</th></tr></thead>
    <tbody>${rows}</tbody></table>`;
}

function faults({ faults }: Status): Html {
  if (faults.length === 0) return html`<p class="none">No rules.</p>`;
  const rows = faults.map(({ rule: { id, fault, ...which }, matched, fired }) => {
    return html`<tr><th scope="row">${id}</th><td><code>${JSON.stringify(which)}</code></td><td><code>${JSON.stringify(fault)}</code></td><td class="n">${figure(matched)}</td><td class="n">${figure(fired)}</td></tr>`;
  });
  return html`
    <table><thead><tr><th scope="col">rule</th><th scope="col">which requests</th><th scope="col">what</th><th scope="col" class="n">matched</th><th scope="col" class="n">went wrong</th></tr></thead>
    <tbody>${rows}</tbody></table>`;
}
