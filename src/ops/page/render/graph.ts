/**
 * Renders the graph of credits: stacked bars for our lanes, other clients and free credits, a line for the limit, a
 * mark for refused requests. SVG needs no script; the figures are also a table, and JSON for the script.
 */
import { lanes } from '../../../engine/budget/ledger.ts';
import type { Source } from '../../../sources/source.ts';
import { type Bucket, type Range, used } from '../credits.ts';
import { amount, count, type Html, html, time } from './html.ts';

const names = {
  interactive: 'asked for by people',
  fresh: 'fresh',
  backfill: 'history',
  sweep: 'sweeps',
} as const;

/** Converts credits per period to credits per minute. */
export interface Scale {
  readonly periodMs: number;
  /** Limit from the settings. The announced limit of the source takes precedence. */
  readonly limit: number | undefined;
}

/** The scale for an account without settings. */
export const unknownScale: Scale = { periodMs: 60_000, limit: undefined };

export interface Step {
  readonly begins: Date;
  readonly lanes: readonly number[];
  readonly others: number;
  readonly limit: number | null;
  readonly free: number;
  readonly refused: number;
}

/** Converts buckets into steps of the graph, in credits per minute. */
export function stepsOf(buckets: readonly Bucket[], { periodMs, limit }: Scale): Step[] {
  const perMinute = 60_000 / periodMs;
  return buckets.map(bucket => {
    const said = bucket.credit_limit ?? limit ?? null;
    const others = bucket.others * perMinute;
    const allowed = said === null ? null : said * perMinute;
    return {
      begins: bucket.begins,
      lanes: lanes.map(lane => bucket[lane]),
      others,
      limit: allowed,
      free: allowed === null ? 0 : Math.max(0, allowed - used(bucket) - others),
      refused: bucket.refused,
    };
  });
}

const stepNames = { hour: 'each minute', day: 'the mean of ten minutes', week: 'the mean of an hour' } as const;

export function graph(
  buckets: readonly Bucket[],
  scale: Scale,
  range: Range,
  { at, link }: { at: Date; link: string },
): Html {
  const steps = stepsOf(buckets, scale);
  const sums = lanes.map((_, i) => steps.reduce((sum, step, n) => sum + step.lanes[i]! * buckets[n]!.minutes, 0));
  const refused = steps.reduce((sum, step) => sum + step.refused, 0);
  const total = sums.reduce((sum, n) => sum + n, 0);
  const ranges = (Object.keys(stepNames) as Range[]).map(
    one => html`<a href="${link}?range=${one}#credits"${one === range ? html` aria-current="true"` : null}>${one}</a>`,
  );
  const { most, limit } = topOf(steps);
  return html`
<div class="head"><h2 id="credits-h">Credits a minute</h2><nav class="ranges" aria-label="Range of the graph">${ranges}</nav></div>
<figure class="graph" aria-labelledby="credits-h" aria-describedby="credits-sum">
<div class="scale" aria-hidden="true"><span>${amount(most)}</span><span>${amount(most / 2)}</span><span>0</span></div>
<div class="plot" data-most="${most}">${svg(steps, most)}</div>
<div class="times" aria-hidden="true">${[0, 0.25, 0.5, 0.75].map(part => time(steps[Math.floor(steps.length * part)]!.begins, at))}<span>now</span></div>
<p class="readout" aria-hidden="true"></p>
<ul class="legend">${lanes.map(lane => html`<li class="of-${lane}">${names[lane]}</li>`)}<li class="of-others">others</li><li class="of-free">free</li><li class="of-limit">limit</li><li class="of-refused">refused (429)</li></ul>
<figcaption id="credits-sum">Last ${range}, ${stepNames[range]}: we used ${count(total, 'credit')}${
    total > 0
      ? html` (${lanes.flatMap((lane, i) => (sums[i]! > 0 ? [`${names[lane]} ${amount(sums[i]!)}`] : [])).join(', ')})`
      : null
  }; ${refused === 0 ? 'nothing was refused' : `${count(refused, 'request')} refused`}.${limit > most ? ` The limit, ${count(limit, 'credit')} a minute, lies above the graph.` : ''}</figcaption>
</figure>
<details data-key="credits-table"><summary>The same in figures</summary>${table(steps, at)}</details>
<script type="application/json" class="steps">${{ html: json(steps) }}</script>`;
}

const heightOf = (step: Step): number =>
  Math.max(step.limit ?? 0, step.lanes.reduce((sum, n) => sum + n, 0) + step.others);

/** If the limit is far above what was used, the graph shows what was used, and leaves the limit out. */
const farAbove = 4;

/** The top of the graph, and the highest limit, in credits a minute. */
function topOf(steps: readonly Step[]): { most: number; limit: number } {
  const limit = Math.max(0, ...steps.map(step => step.limit ?? 0));
  const highest = Math.max(0, ...steps.map(step => heightOf({ ...step, limit: null })));
  const isFar = highest > 0 && limit > highest * farAbove;
  return { most: isFar ? Math.ceil(highest * 1.25) : Math.max(1, highest, limit), limit };
}

/** The drawing is 100 units high, with 10 units per step. Caption and table explain it. */
function svg(steps: readonly Step[], most: number): Html {
  const width = steps.length * 10;
  const y = (n: number) => Number((100 - (n / most) * 100).toFixed(2));
  const levels = [...lanes.keys()].map(i => (step: Step) => step.lanes[i]!);
  const series = [...levels, (step: Step) => step.others, (step: Step) => step.free];
  const classes = [...lanes, 'others', 'free'];
  const base = steps.map(() => 0);
  const bars = series.map((of, i) => {
    const path = steps.map((step, n) => {
      const height = of(step);
      if (height <= 0) return '';
      const from = base[n]!;
      base[n] = Math.min(most, from + height);
      // Free credits form one area; used credits are drawn inside it.
      const [x, wide] = classes[i] === 'free' ? [n * 10, 10] : [n * 10 + 1, 8];
      return `M${x} ${y(from)}V${y(base[n]!)}h${wide}V${y(from)}z`;
    });
    return html`<path class="of-${classes[i]!}" d="${path.join('')}"/>`;
  });
  const limit = steps
    .map((step, n) => (step.limit === null || step.limit > most ? '' : `M${n * 10} ${y(step.limit)}h10`))
    .join('');
  const refused = steps.map((step, n) => (step.refused === 0 ? '' : `M${n * 10 + 5} 0V100`)).join('');
  return html`<svg viewBox="0 0 ${width} 100" preserveAspectRatio="none" aria-hidden="true">${bars}<path class="of-limit" d="${limit}"/><path class="of-refused" d="${refused}"/></svg>`;
}

const rounded = (n: number): string => (Number.isInteger(n) ? amount(n) : n.toFixed(1));

function table(steps: readonly Step[], at: Date): Html {
  const busy = steps.filter(step => heightOf({ ...step, limit: 0 }) > 0 || step.refused > 0);
  if (busy.length === 0) return html`<p class="none">No request was made in this time.</p>`;
  return html`
<div class="wide tall" role="region" aria-label="Credits in figures" tabindex="0"><table><thead><tr><th scope="col">from</th>${lanes.map(lane => html`<th scope="col" class="n">${names[lane]}</th>`)}<th scope="col" class="n">others</th><th scope="col" class="n">free</th><th scope="col" class="n">limit</th><th scope="col" class="n">refused</th></tr></thead><tbody>${busy
    .toReversed()
    .map(
      step =>
        html`<tr><th scope="row">${time(step.begins, at)}</th>${[...step.lanes, step.others, step.free].map(n => html`<td class="n">${rounded(n)}</td>`)}<td class="n">${step.limit === null ? '' : rounded(step.limit)}</td><td class="n">${step.refused}</td></tr>`,
    )}</tbody></table></div>
<p class="none">Times without a request are left out.</p>`;
}

/** Numbers only, so that nothing can close the script element. */
function json(steps: readonly Step[]): string {
  const short = (n: number | null) => (n === null ? null : Number(n.toFixed(2)));
  return JSON.stringify(
    steps.map(step => [
      step.begins.getTime() / 1000,
      ...step.lanes.map(short),
      ...[step.others, step.free, step.limit, step.refused].map(short),
    ]),
  );
}

/** A source without a graph: requests of the last 24 hours, relative to what a day allows. */
export function requestsOfDay(
  { name, label, unit }: Pick<Source, 'name' | 'label' | 'unit'>,
  buckets: readonly Bucket[],
  { limit, deferredUntil, at }: { limit: number | undefined; deferredUntil: Date | null; at: Date },
): Html {
  const sum = Math.round(buckets.reduce((all, bucket) => all + used(bucket) * bucket.minutes, 0));
  const refused = buckets.reduce((all, bucket) => all + bucket.refused, 0);
  const allowed = limit ?? buckets.findLast(({ credit_limit }) => credit_limit !== null)?.credit_limit ?? undefined;
  const hours = buckets.map(bucket => used(bucket) * bucket.minutes);
  const most = Math.max(1, ...hours);
  const path = hours
    .map((n, i) => (n === 0 ? '' : `M${i * 10 + 1} 100V${(100 - (n / most) * 100).toFixed(1)}h8V100z`))
    .join('');
  const share = allowed === undefined ? null : Math.min(100, (sum / allowed) * 100).toFixed(1);
  return html`
<h2 id="requests-${name}">${unit === 'credit' ? 'Credits of' : 'Requests to'} ${label}</h2>
<p><strong>${amount(sum)}</strong>${allowed === undefined ? ` ${sum === 1 ? unit : `${unit}s`}` : ` of ${count(allowed, unit)}`} in the last 24 hours${refused > 0 ? `, ${count(refused, 'request')} refused` : ''}.${
    deferredUntil !== null && deferredUntil > at ? html` It resumes at ${time(deferredUntil, at)}.` : null
  }</p>
${share === null ? null : html`<svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect width="${share}" height="1"/></svg>`}
<svg class="hours" viewBox="0 0 240 100" preserveAspectRatio="none" aria-hidden="true"><path d="${path}"/></svg>
<p class="none small">By the hour, the last one is now; ${amount(most)} at most.</p>`;
}
