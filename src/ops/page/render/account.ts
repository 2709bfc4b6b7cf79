/**
 * Renders the page of one account: a heading, and parts that are rendered separately, so that only changed parts are
 * sent again.
 */

import { isMostlyRejected } from '../../../engine/runs/runs.ts';
import type { Source } from '../../../sources/source.ts';
import type { Problem } from '../../../status/problems.ts';
import type { Run, RunStream } from '../../../status/runs.ts';
import type { Figures } from '../../../status/streams.ts';
import type { Role } from '../auth.ts';
import { graphed, type Range, summed } from '../credits.ts';
import type { AccountFigures, Operation, Paused, StreamFigures } from '../overview.ts';
import type { TargetFigures } from '../targets.ts';
import { graph, requestsOfDay, type Scale, unknownScale } from './graph.ts';
import { amount, cells, count, type Html, html, lasting, prose, table, text, time } from './html.ts';
import { lakeLine } from './lake.ts';
import { sentence } from './sentence.ts';
import { targets } from './targets.ts';
import { timeline } from './timeline.ts';

/** Facts about the account that are not in its rows. */
export interface Known {
  /** Undefined if this process has no settings for the source with the graph. */
  readonly scale: Scale | undefined;
  /** Requests or credits that a day allows, by source with settings. */
  readonly perDay: ReadonlyMap<string, number>;
  readonly next: readonly { schedule: string; cron: string; timeZone: string; times: readonly Date[] }[];
  readonly timeLeft: (stream: StreamFigures) => number | null;
}

export interface Shown {
  readonly figures: AccountFigures;
  readonly targets: readonly TargetFigures[];
  readonly known: Known;
  readonly range: Range;
  readonly role: Role;
  /** Path of the page. */
  readonly link: string;
}

/** HTML of the page's sections, by section id. */
export type Parts = Readonly<Record<string, Html>>;

const signs: Readonly<Record<string, string>> = {
  fresh: '✓',
  catching_up: '↻',
  stale: '!',
  failing: '✕',
  never_synced: '○',
  paused: '‖',
};
/**
 * The account has the first of these states that any of its streams has. Streams that are not configured do not count.
 */
const gravest = ['failing', 'stale', 'catching_up', 'paused', 'fresh'];

export const stateOf = (streams: readonly Pick<StreamFigures, 'state'>[]): string =>
  gravest.find(state => streams.some(one => one.state === state)) ?? 'never_synced';

export const badge = (state: string): Html =>
  html`<span class="badge is-${state}"><span aria-hidden="true">${signs[state] ?? '·'}</span> ${state.replaceAll('_', ' ')}</span>`;

/** All buttons belong to the page's single form, which knows the account. */
function button(
  role: Role,
  action: string,
  label: string,
  { about, quiet = false }: { about?: string; quiet?: boolean } = {},
): Html | null {
  if (role !== 'operator') return null;
  return html`<button form="actions" name="action" value="${action}"${quiet ? html` class="quiet"` : null}>${label}${about === undefined ? null : html`<span class="aside"> ${about}</span>`}</button>`;
}

export function partsOf(shown: Shown): Parts {
  const { figures, known, range, link } = shown;
  const { at } = figures;
  const isThere = ({ name }: Source) => known.perDay.has(name) || figures.streams.some(({ source }) => source === name);
  const others = summed.filter(isThere);
  return {
    now: now(shown),
    problems: problems(figures.problems, at),
    streams: streams(shown),
    ...(isThere(graphed) && { credits: graph(figures.credits, known.scale ?? unknownScale, range, { at, link }) }),
    ...(others.length > 0 && { requests: html`${others.map(source => dayOf(source, shown))}` }),
    runs: runs(shown),
    ...(shown.targets.length > 0 && { targets: targets(shown.targets) }),
    next: next(shown),
    people: people(figures.operations, at),
  };
}

function dayOf(source: Source, { figures, known }: Shown): Html {
  const { name } = source;
  const sleeping = figures.streams.find(one => one.source === name && one.deferred_until !== null);
  return requestsOfDay(source, figures.requests.get(name) ?? [], {
    ...{ limit: known.perDay.get(name), at: figures.at },
    deferredUntil: sleeping?.deferred_until ?? null,
  });
}

// --- the sentence ---------------------------------------------------------------------------------------------------

const isAll = ({ stream }: Paused) => stream === '';

function now({ figures, known, role }: Shown): Html {
  const { at, workers, paused, streams } = figures;
  const all = paused.find(isAll);
  const told = { at, streams, works: workers.length > 0, paused: all !== undefined, timeLeft: known.timeLeft };
  return html`
<p class="state">${badge(all === undefined ? stateOf(streams) : 'paused')}</p>
<p class="sentence" role="status">${sentence(told)}</p>
${all === undefined ? null : html`<p>All of it is paused since ${time(all.paused_at, at)} by ${text(all.paused_by)}${all.reason === null ? null : html`: ${text(all.reason)}`}.</p>`}
${lakeLine(figures.lake, at)}
${
  role === 'operator'
    ? html`<p class="buttons">${button(role, 'run sync', 'Sync now')}${button(role, 'run sweep', 'Sweep now', { quiet: true })}${
        all === undefined
          ? button(role, 'pause', 'Pause all', { quiet: true })
          : button(role, 'resume', 'Resume all', { quiet: true })
      }</p>`
    : null
}`;
}

function problems(found: readonly Problem[], at: Date): Html {
  if (found.length === 0) return html`<h2>Problems</h2><p class="none" role="status">None.</p>`;
  const words = { critical: 'critical', warning: 'warning', info: 'note' } as const;
  return html`
<h2>Problems</h2>
<div role="status"><ul class="problems">${found.map(
    ({ stream, problem, severity, says, remedy, since }) => html`
<li class="is-${severity}" data-key="${problem} ${stream ?? ''} ${since?.toISOString() ?? ''}"><p><b class="severity">${words[severity]}</b>${stream === null || says.includes(stream) ? null : html` <b>${stream}</b>`} ${text(says)}${since === null ? null : html` <span class="soft">since ${time(since, at)}</span>`}</p>
<p class="remedy">${prose(remedy)}</p></li>`,
  )}</ul></div>`;
}

const shownGaps = 30;

// --- streams --------------------------------------------------------------------------------------------------------

function streams(shown: Shown): Html {
  const { figures } = shown;
  if (figures.streams.length === 0)
    return html`<h2>Streams</h2><p class="none">Nothing has been read yet: a worker (<code>npx shelfdesk start</code>) begins with it by itself.</p>`;
  return html`<h2>Streams</h2><div class="cards">${figures.streams.map(one => card(one, shown))}</div>`;
}

function card(one: AccountFigures['streams'][number], { figures, known, role }: Shown): Html {
  const { at } = figures;
  const { name: stream } = one;
  const gaps = one.gaps.toSorted((a, b) => (a.to < b.to ? 1 : -1)).slice(0, shownGaps);
  const paused = figures.paused.find(each => each.stream === stream);
  const left = known.timeLeft(one);
  return html`
<article class="card" data-key="${stream}" aria-labelledby="stream-${stream}">
<div class="head"><h3 id="stream-${stream}">${stream}</h3>${badge(one.state)}</div>
<dl>
${one.complete_from === null ? null : html`<div><dt>complete from</dt><dd>${time(one.complete_from, at)}</dd></div>`}
<div><dt>complete through</dt><dd>${one.complete_through === null ? 'never read' : time(one.complete_through, at)}</dd></div>
<div><dt>behind</dt><dd>${one.behind_seconds === null ? '–' : lasting(one.behind_seconds)}${one.target_seconds === null ? null : html` <span class="soft">of ${lasting(one.target_seconds)}</span>`}${lag(one)}</dd></div>
<div><dt>backlog</dt><dd>${amount(one.waiting)}${left === null ? null : html` <span class="soft">in ${lasting(left)}</span>`}</dd></div>
<div><dt>gaps</dt><dd>${amount(one.gap_count)}</dd></div>
${one.latency_p95_seconds === null ? null : html`<div><dt>age of a change, p95</dt><dd>${lasting(one.latency_p95_seconds)}</dd></div>`}
${one.unchecked_since === null ? null : html`<div><dt>silent changes through</dt><dd>${time(one.unchecked_since, at)}</dd></div>`}
${one.open_rejects === 0 ? null : html`<div><dt>rejected</dt><dd>${amount(one.open_rejects)}</dd></div>`}
</dl>
${paused === undefined ? null : html`<p class="small">Paused since ${time(paused.paused_at, at)} by ${text(paused.paused_by)}${paused.reason === null ? null : html`: ${text(paused.reason)}`}.</p>`}
${gaps.length === 0 ? null : gapsOf(gaps, stream, at)}
${paused === undefined ? button(role, `pause ${stream}`, 'Pause', { about: stream, quiet: true }) : button(role, `resume ${stream}`, 'Resume', { about: stream, quiet: true })}
</article>`;
}

/** Share of the target that is used up. Beyond the target the bar is full, and the state is shown in words. */
function lag({ behind_seconds: behind, target_seconds: target, state }: StreamFigures): Html | null {
  if (behind === null || target === null || target <= 0) return null;
  const share = Math.min(100, (behind / target) * 100).toFixed(0);
  return html`<svg class="bar is-${state}" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect width="${share}" height="1"/></svg>`;
}

function gapsOf(gaps: Figures['gaps'], stream: string, at: Date): Html {
  return html`<details data-key="gaps-${stream}"><summary>Where the gaps are</summary><ul>${gaps.map(
    ({ list, from, to, reason }) =>
      html`<li>${text(list)}: ${time(new Date(from), at, { seconds: true })} to ${time(new Date(to), at, { seconds: true })}${reason === null ? null : html`. ${text(reason)}`}</li>`,
  )}</ul></details>`;
}

// --- runs -----------------------------------------------------------------------------------------------------------

const canRetry = new Set(['failed', 'partial', 'interrupted']);

const isOpen = ({ state, finished_at }: Run) => finished_at === null && state === 'running';

export function runButton(run: Run, role: Role): Html | null {
  const how = { about: `run ${run.run}`, quiet: true };
  if (isOpen(run)) return button(role, `cancel ${run.run}`, 'Cancel', how);
  return canRetry.has(run.state) ? button(role, `retry ${run.run}`, 'Retry', how) : null;
}

function runs({ figures, role, link }: Shown): Html {
  const { at, quiet } = figures;
  const more =
    quiet === 0
      ? null
      : html`<p class="none small">${count(quiet, 'run')} of the last hour found nothing new, and ${quiet === 1 ? 'is' : 'are'} left out.</p>`;
  if (figures.runs.length === 0) return html`<h2 id="runs-h">Runs</h2><p class="none">None yet.</p>${more}`;
  const rows = figures.runs.map(one => run(one, { at, role, link }));
  return html`
<h2 id="runs-h">Runs</h2>
${ofDay(figures)}
${table('runs', ['run', ...runHeads], rows, { kind: 'runs', isFigure: i => i > 2, last: role === 'operator' && html`<td></td>` })}${more}`;
}

const runHeads = ['state', 'began', 'took', 'read', 'new', 'changed', 'removed', 'rejected', 'credits'] as const;

/** When runs of each kind worked, in the last 24 hours. */
function ofDay({ day, at }: Shown['figures']): Html {
  const first = Math.min(at.getTime(), ...day.map(({ started_at }) => started_at.getTime()));
  const from = new Date(Math.max(first, at.getTime() - 24 * 3_600_000));
  const lines = [...Map.groupBy(day, ({ kind }) => kind)].map(([name, runs]) => ({
    name,
    bars: runs.map(one => ({ from: one.started_at, to: one.finished_at, state: one.state })),
  }));
  const failed = day.filter(({ state }) => state === 'failed' || state === 'interrupted').length;
  const says = `Last 24 hours: ${count(day.length, 'run')}, ${failed === 0 ? 'none failed' : `${amount(failed)} failed or interrupted`}.`;
  return timeline(lines, { id: 'runs-h', from, to: at, at, says });
}

function run(one: Run, { at, role, link }: Pick<Shown, 'role' | 'link'> & { at: Date }): Html {
  const { run: id, kind, state, retries } = one;
  const figures = [one.seen, one.inserted, one.updated, one.deleted, one.rejected, one.credits].map(amount);
  const values = [
    html`<span class="run is-${isMostlyRejected(one) ? 'failed' : state}">${state}${isMostlyRejected(one) ? ', most rejected' : null}</span>`,
    time(one.started_at, at),
    lasting(one.seconds),
  ];
  const said = one.streams.filter(
    ({ error, note, waits_for }) => error !== null || note !== null || waits_for !== null,
  );
  return html`
<tr data-key="run-${id}"><th scope="row"><a href="${link}/runs/${id}">${id}</a> <span class="kind">${kind}</span>${retries === null ? null : html` <span class="soft">retries ${retries}</span>`}</th>${cells(runHeads, [...values, ...figures], i => i > 1)}${role === 'operator' ? html`<td class="n">${runButton(one, role)}</td>` : null}</tr>${
    said.length === 0 && !isOpen(one)
      ? null
      : html`<tr class="said" data-key="said-${id}"><td colspan="${role === 'operator' ? 11 : 10}">${isOpen(one) ? html`<p>${progress(one.streams)}</p>` : null}${said.map(reason)}</td></tr>`
  }`;
}

const progress = (streams: readonly RunStream[]): string =>
  streams
    .map(({ stream, state, seen, expected }) =>
      state === 'waiting'
        ? `${stream} waits`
        : `${stream} ${state}, ${amount(seen)}${expected === null ? '' : ` of about ${amount(expected)}`} read`,
    )
    .join(' · ');

const reason = ({ stream, error, remedy, note, waits_for }: RunStream): Html =>
  html`<p><b>${stream}</b> ${text(error ?? note ?? `waits for run ${waits_for}`)}${error === null ? null : html`. <span class="soft">${prose(remedy ?? '')}</span>`}</p>`;

// --- what comes, and who did what ------------------------------------------------------------------------------------

function next({ figures, known }: Shown): Html {
  const { at, workers } = figures;
  return html`
<h2>Next runs</h2>
${
  known.next.length === 0
    ? html`<p class="none">${known.perDay.size === 0 ? 'This process has no settings for the account, and does not know its schedule.' : 'Nothing is scheduled.'}</p>`
    : html`<dl class="next">${known.next.map(
        ({ schedule, cron, timeZone, times }) =>
          html`<div class="slot"><dt>${schedule} <span class="soft"><code>${cron}</code> ${timeZone}</span></dt><dd>${times.length === 0 ? 'never' : times.map((one, i) => html`${i === 0 ? null : ', '}${time(one, at, { seconds: one.getUTCSeconds() !== 0 })}`)}</dd></div>`,
      )}</dl>`
}
<h3>Workers</h3>
${
  workers.length === 0
    ? html`<p class="none">Nobody: start one with <code>npx shelfdesk start</code>.</p>`
    : html`<ul class="plain">${workers.map(({ id, host, pid, version, started_at }) => html`<li data-key="worker-${id}">worker ${id} on ${text(host)}, process ${pid}, version ${version}, since ${time(started_at, at)}</li>`)}</ul>`
}`;
}

function people(operations: readonly Operation[], at: Date): Html {
  if (operations.length === 0) return html`<h2 id="people-h">Done by hand</h2><p class="none">Nothing yet.</p>`;
  const rows = operations.map(
    ({ id, at: when, who, action, subject, outcome }) =>
      html`<tr data-key="op-${id}"><th scope="row">${time(when, at)}</th><td>${action} ${text(subject)}</td><td>${text(who)}</td><td>${text(outcome)}</td></tr>`,
  );
  return html`
<h2 id="people-h">Done by hand</h2>
${table('people', ['when', 'what', 'who', 'outcome'], rows)}`;
}
