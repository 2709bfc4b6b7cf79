/** Renders the page of one run: what it is, its streams with errors and remedies, and who did what with it. */

import type { LoggedRequest } from '../../../engine/runs/request-log.ts';
import { runKinds } from '../../../engine/runs/run-kinds.ts';
import { forecastCredits, type Run, type RunOrigin, type RunStream, runState } from '../../../status/runs.ts';
import type { Role } from '../auth.ts';
import { type Parts, runButton } from './account.ts';
import { amount, cells, count, type Html, html, lasting, prose, table, text, time } from './html.ts';
import { timeline } from './timeline.ts';

/** `link`: path of the account's page. */
export function runParts(
  run: Run & RunOrigin,
  requests: readonly LoggedRequest[],
  { at, role, link }: { at: Date; role: Role; link: string },
): Parts {
  return {
    run: about(run, at, role, link),
    streams: streams(run, at),
    log: log(requests, run, at),
    ...(run.operations.length > 0 && { people: people(run, at) }),
  };
}

function about(run: Run & RunOrigin, at: Date, role: Role, link: string): Html {
  const { kind, started_at, finished_at, seconds, credits } = run;
  const [state, forecast] = [runState(run), forecastCredits(run)];
  const isOpen = finished_at === null;
  const rows: [string, Html | string | null][] = [
    ['began', time(started_at, at, { seconds: true })],
    [isOpen ? 'takes so far' : 'took', lasting(seconds)],
    ['opened by', run.schedule === null ? 'a command, the page or a worker' : `the schedule: ${run.schedule}`],
    ['since', run.since === null ? null : time(run.since, at, { seconds: true })],
    ['until', run.until === null ? null : time(run.until, at, { seconds: true })],
    ['re-reads synced ranges', run.again ? 'yes' : null],
    ['credits', `${amount(credits)}${forecast === null ? '' : ` of ${amount(forecast)} forecast`}`],
    ['retries', run.retries === null ? null : linkTo(link, run.retries)],
    ['retried by', run.retried_by.length === 0 ? null : html`${run.retried_by.map(one => linkTo(link, one))}`],
  ];
  return html`
<h2>${kind} <span class="run is-${state}">${state}</span></h2>
<p class="soft">A ${kind} run ${runKinds[kind].does}.</p>
<dl class="next">${rows.map(([name, value]) => (value === null ? null : html`<div class="slot"><dt>${name}</dt><dd>${value}</dd></div>`))}</dl>
${runButton(run, role)}`;
}

const linkTo = (link: string, run: number): Html => html`<a href="${link}/runs/${run}">run ${run}</a> `;

function streams(run: Run, at: Date): Html {
  const rows = run.streams.map(one => stream(one, at));
  return html`
<h2 id="streams-h">Streams</h2>
${ofStreams(run, at)}
${table('streams', ['stream', ...streamHeads], rows, { kind: 'runs', isFigure: i => i > 2 })}`;
}

const streamHeads = [
  'state',
  'began',
  'read',
  'new',
  'changed',
  'unchanged',
  'removed',
  'rejected',
  'credits',
] as const;
const logHeads = ['at', 'stream', 'request', 'reply', 'took', 'credits'] as const;

/** When each stream was read. */
function ofStreams({ streams: all, started_at: from, finished_at }: Run, at: Date): Html | null {
  const lines = all.flatMap(({ stream: name, started_at, finished_at: to, state }) =>
    started_at === null ? [] : [{ name, bars: [{ from: started_at, to, state }] }],
  );
  if (lines.length === 0) return null;
  const to = finished_at ?? at;
  const says = `${count(lines.length, 'stream')}, in ${lasting((to.getTime() - from.getTime()) / 1000)}.`;
  return timeline(lines, { id: 'streams-h', from, to, at, says });
}

function log(requests: readonly LoggedRequest[], { finished_at }: Run, at: Date): Html {
  const none = finished_at === null ? 'None yet.' : 'They are kept for a day.';
  const isFigure = (i: number) => i > 3;
  const rows = requests.map(one => {
    const values = [
      time(one.at, at, { seconds: true }),
      one.stream,
      html`<code>${text(one.request)}</code>`,
      one.says === null ? (one.status ?? '–') : text(one.says),
      one.ms === 0 ? '–' : `${amount(one.ms)}\u00a0ms`,
      amount(one.credits),
    ];
    return html`<tr>${cells(logHeads, values, isFigure)}</tr>`;
  });
  return html`
<h2 id="log-h">Last requests</h2>
${requests.length === 0 ? html`<p class="none">${none}</p>` : table('log', logHeads, rows, { kind: 'runs', isFigure })}`;
}

function stream(one: RunStream, at: Date): Html {
  const { stream: name, expected, started_at, error, remedy, note, waits_for } = one;
  const state = one.paused ? 'paused' : one.state;
  const read =
    expected === null || one.finished_at !== null
      ? amount(one.seen)
      : `${amount(one.seen)} of about ${amount(expected)}`;
  const began = started_at === null ? '–' : time(started_at, at, { seconds: true });
  const figures = [one.inserted, one.updated, one.unchanged, one.deleted, one.rejected, one.credits].map(amount);
  const values = [html`<span class="run is-${state}">${state}</span>`, began, read, ...figures];
  const said = [
    error === null ? null : html`<p>${text(error)}. <span class="soft">${prose(remedy ?? '')}</span></p>`,
    jobOf(one),
    note === null ? null : html`<p>${text(note)}</p>`,
    waits_for === null ? null : html`<p>It waits for run ${waits_for}, which reads the same.</p>`,
    one.carried_from === null ? null : html`<p>Run ${one.carried_from} had read it already.</p>`,
    one.deferred_until === null
      ? null
      : html`<p>The quota is used up; it resumes at ${time(one.deferred_until, at)}.</p>`,
  ].filter(each => each !== null);
  return html`
<tr data-key="stream-${name}"><th scope="row">${name}</th>${cells(streamHeads, values, i => i > 1)}</tr>${
    said.length === 0
      ? null
      : html`<tr class="said" data-key="said-${name}"><td colspan="${streamHeads.length + 1}">${said}</td></tr>`
  }`;
}

/** The worker of the stream: the present one, or the last. */
function jobOf({ job, worker, token, state }: RunStream): Html | null {
  const attempts = html`its token is ${amount(token)}, which each attempt raises`;
  if (job !== null) return html`<p>Job <code>${job}</code> of worker ${worker}; ${attempts}.</p>`;
  return state === 'waiting' && token > 0 ? html`<p>A worker gave it back; ${attempts}.</p>` : null;
}

function people({ operations }: RunOrigin, at: Date): Html {
  return html`
<h2>Actions</h2>
<ul>${operations.map(
    one =>
      html`<li>${time(new Date(one.at), at, { seconds: true })}: ${text(one.who)}, ${text(one.action)}: ${text(one.outcome)}</li>`,
  )}</ul>
<p class="none small">${count(operations.length, 'action')}.</p>`;
}
