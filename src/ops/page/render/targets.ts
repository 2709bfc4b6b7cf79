/** Renders how an account keeps its service targets. */
import type { TargetFigures } from '../targets.ts';
import { amount, cells, type Html, html, table } from './html.ts';

const heads = ['met', 'missed', 'kept', 'uncertain', 'at risk', 'running'] as const;

export function targets(figures: readonly TargetFigures[]): Html {
  const rows = figures.map(one => {
    const { metric, met, missed, uncertain, at_risk, running } = one;
    const values = [amount(met), amount(missed), kept(one), amount(uncertain), amount(at_risk), amount(running)];
    return html`
<tr data-key="target-${metric}"><th scope="row">${metric.replaceAll('_', ' ')}</th>${cells(heads, values, () => true)}</tr>`;
  });
  return html`
<h2 id="targets-h">Service targets</h2>
${table('targets', ['target', ...heads], rows, { isFigure: i => i > 0 })}
<p class="none small"><code>analytics.ticket_targets</code>, of tickets created in the last four weeks, without those that were resolved when the mirror first saw them. At risk: it runs, and three quarters of the time have passed. Uncertain: nobody can tell, because the resolution was seen too late, messages are not all here, or a time is missing.</p>`;
}

/** Share of the decided tickets that met the target. */
const kept = ({ met, missed }: TargetFigures): string =>
  met + missed === 0 ? '–' : `${Math.floor((100 * met) / (met + missed))}\u00a0%`;
