/** Renders the page of one run: what it is, its streams with errors and remedies, and who did what with it. */
import type { ShownRun, ShownStream } from '../../../engine/runs/run-records.ts';
import type { Role } from '../auth.ts';
import { button, canRetry, type Parts } from './account.ts';
import { amount, count, type Html, html, lasting, prose, text, time } from './html.ts';

/** `link`: path of the account's page. */
export function runParts(run: ShownRun, { at, role, link }: { at: Date; role: Role; link: string }): Parts {
  return {
    run: about(run, at, role, link),
    streams: streams(run.streams, at),
    ...(run.operations.length > 0 && { people: people(run, at) }),
  };
}

function about(run: ShownRun, at: Date, role: Role, link: string): Html {
  const { run: id, kind, state, started_at, finished_at, seconds, credits, forecast_credits } = run;
  const isOpen = finished_at === null;
  const rows: [string, Html | string | null][] = [
    ['began', time(started_at, at, { seconds: true })],
    [isOpen ? 'takes so far' : 'took', lasting(seconds)],
    ['opened by', run.schedule === null ? 'a command, the page or a worker' : `the schedule: ${run.schedule}`],
    ['since', run.since === null ? null : time(run.since, at, { seconds: true })],
    ['until', run.until === null ? null : time(run.until, at, { seconds: true })],
    ['re-reads synced ranges', run.again ? 'yes' : null],
    ['credits', `${amount(credits)}${forecast_credits === null ? '' : ` of ${amount(forecast_credits)} forecast`}`],
    ['retries', run.retries === null ? null : linkTo(link, run.retries)],
    ['retried by', run.retried_by.length === 0 ? null : html`${run.retried_by.map(one => linkTo(link, one))}`],
  ];
  return html`
<h2>${kind} <span class="run is-${state}">${state}</span></h2>
<dl class="next">${rows.map(([name, value]) => (value === null ? null : html`<div class="slot"><dt>${name}</dt><dd>${value}</dd></div>`))}</dl>
${
  isOpen
    ? button(role, `cancel ${id}`, 'Cancel', { about: `run ${id}`, quiet: true })
    : canRetry.has(state)
      ? button(role, `retry ${id}`, 'Retry', { about: `run ${id}`, quiet: true })
      : null
}`;
}

const linkTo = (link: string, run: number): Html => html`<a href="${link}/runs/${run}">run ${run}</a> `;

function streams(all: readonly ShownStream[], at: Date): Html {
  const heads = ['stream', 'state', 'began', 'read', 'new', 'changed', 'unchanged', 'removed', 'rejected', 'credits'];
  return html`
<h2 id="streams-h">Streams</h2>
<div class="wide" role="region" aria-labelledby="streams-h" tabindex="0"><table class="runs"><thead><tr>${heads.map((head, i) => html`<th scope="col"${i > 2 ? html` class="n"` : null}>${head}</th>`)}</tr></thead>
<tbody>${all.map(one => stream(one, at, heads.length))}</tbody></table></div>`;
}

function stream(one: ShownStream, at: Date, columns: number): Html {
  const { stream: name, expected, started_at, error, remedy, note, waits_for } = one;
  const state = one.paused ? 'paused' : one.state;
  const read =
    expected === null || one.finished_at !== null
      ? amount(one.seen)
      : `${amount(one.seen)} of about ${amount(expected)}`;
  const figures = [one.inserted, one.updated, one.unchanged, one.deleted, one.rejected, one.credits];
  const said = [
    error === null ? null : html`<p>${text(error)}. <span class="soft">${prose(remedy ?? '')}</span></p>`,
    note === null ? null : html`<p>${text(note)}</p>`,
    waits_for === null ? null : html`<p>It waits for run ${waits_for}, which reads the same.</p>`,
    one.carried_from === null ? null : html`<p>Run ${one.carried_from} had read it already.</p>`,
    one.sleeps_until === null ? null : html`<p>The quota is used up; it resumes at ${time(one.sleeps_until, at)}.</p>`,
  ].filter(each => each !== null);
  return html`
<tr data-key="stream-${name}"><th scope="row">${name}</th><td><span class="run is-${state}">${state}</span></td><td>${started_at === null ? '–' : time(started_at, at, { seconds: true })}</td><td class="n">${read}</td>${figures.map(n => html`<td class="n">${amount(n)}</td>`)}</tr>${
    said.length === 0 ? null : html`<tr class="said" data-key="said-${name}"><td colspan="${columns}">${said}</td></tr>`
  }`;
}

function people({ operations }: ShownRun, at: Date): Html {
  return html`
<h2>Actions</h2>
<ul>${operations.map(
    one =>
      html`<li>${time(new Date(one.at), at, { seconds: true })}: ${text(one.who)}, ${text(one.action)}: ${text(one.outcome)}</li>`,
  )}</ul>
<p class="none small">${count(operations.length, 'action')}.</p>`;
}
