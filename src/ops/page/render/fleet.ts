/** Renders the overview of all accounts, one line each. Accounts with problems come first. */

import type { LakeStatus } from '../../../lake/state.ts';
import type { AccountLine, StreamFigures } from '../overview.ts';
import { badge, type Parts, stateOf } from './account.ts';
import { amount, cell, count, type Html, html, lasting, table, text } from './html.ts';
import { lakeLine } from './lake.ts';
import { sentence } from './sentence.ts';

export const pathOf = (account: string): string => `/accounts/${encodeURIComponent(account)}`;

export function fleetParts(
  {
    at,
    accounts,
    refused,
    lake,
  }: { at: Date; accounts: readonly AccountLine[]; refused: readonly string[]; lake: LakeStatus | undefined },
  timeLeft: (stream: StreamFigures) => number | null,
): Parts {
  const needsLook = ({ problems }: AccountLine) => problems.critical * 1000 + problems.warning;
  const sorted = accounts.toSorted((a, b) => needsLook(b) - needsLook(a));
  const troubled = accounts.filter(one => needsLook(one) > 0).length;
  const fresh = accounts.filter(({ streams }) => stateOf(streams) === 'fresh').length;
  const heads = ['account', 'state', 'what is in', 'behind', 'backlog', 'gaps', 'problems', 'workers'];
  return {
    now: html`<p class="sentence" role="status">${count(accounts.length, 'account')}: ${amount(fresh)} fresh, ${
      troubled === 0 ? 'none has a problem' : `${amount(troubled)} with ${troubled === 1 ? 'a problem' : 'problems'}`
    }.${refused.length === 0 ? null : html` The settings of ${refused.map((one, i) => html`${i > 0 ? ', ' : null}${text(one)}`)} are refused: <code>npx shelfdesk doctor</code> says why.`}</p>${lakeLine(lake, at)}`,
    accounts: html`
<h2 id="accounts-h">Accounts</h2>
${table(
  'accounts',
  heads,
  sorted.map(one => line(one, at, timeLeft)),
  { kind: 'fleet runs', isFigure: i => i > 2 && heads[i] !== 'problems' },
)}`,
  };
}

function line(
  { account, streams, problems, workers }: AccountLine,
  at: Date,
  timeLeft: (stream: StreamFigures) => number | null,
): Html {
  const paused = streams.length > 0 && streams.every(({ state }) => state === 'paused');
  const behind = streams.flatMap(one => one.behind_seconds ?? []);
  const sum = (of: (one: StreamFigures) => number) => streams.reduce((all, one) => all + of(one), 0);
  const found = (['critical', 'warning'] as const).filter(severity => problems[severity] > 0);
  const troubles = html`<span>${found.map(
    (severity, i) =>
      html`${i > 0 ? ', ' : null}<b class="severity is-${severity}">${problems[severity]} ${severity}</b>`,
  )}</span>`;
  return html`
<tr data-key="account-${account}"><th scope="row"><a href="${pathOf(account)}">${text(account)}</a></th>${cell('state', badge(stateOf(streams)))}<td>${sentence({ at, streams, works: workers > 0, paused, timeLeft })}</td>${cell('behind', behind.length === 0 ? '–' : lasting(Math.max(...behind)), 'n')}${cell('backlog', amount(sum(one => one.waiting)), 'n')}${cell('gaps', amount(sum(one => one.gap_count)), 'n')}${cell('problems', [found.length === 0 ? html`<span class="soft">none</span>` : troubles])}${cell('workers', workers, 'n')}</tr>`;
}
