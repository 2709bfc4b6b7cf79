/** Renders how an account keeps its service targets. */
import type { TargetFigures } from '../targets.ts';
import { amount, cell, type Html, html } from './html.ts';

const heads = ['met', 'missed', 'kept', 'uncertain', 'at risk', 'running'] as const;

export function targets(figures: readonly TargetFigures[]): Html {
  return html`
<h2 id="targets-h">Service targets</h2>
<div class="wide" role="region" aria-labelledby="targets-h" tabindex="0"><table><thead><tr><th scope="col">target</th>${heads.map(head => html`<th scope="col" class="n">${head}</th>`)}</tr></thead>
<tbody>${figures.map(
    one => html`
<tr data-key="target-${one.metric}"><th scope="row">${one.metric.replaceAll('_', ' ')}</th>${[amount(one.met), amount(one.missed), kept(one), amount(one.uncertain), amount(one.at_risk), amount(one.running)].map((value, i) => cell(heads[i]!, value, 'n'))}</tr>`,
  )}</tbody></table></div>
<p class="none small"><code>analytics.ticket_targets</code>, of tickets created in the last four weeks, without those that were resolved when the mirror first saw them. At risk: it runs, and three quarters of the time have passed. Uncertain: nobody can tell, because the resolution was seen too late, messages are not all here, or a time is missing.</p>`;
}

/** Share of the decided tickets that met the target. */
const kept = ({ met, missed }: TargetFigures): string =>
  met + missed === 0 ? '–' : `${Math.floor((100 * met) / (met + missed))}\u00a0%`;
