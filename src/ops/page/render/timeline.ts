/** Renders when work was done: a line for each kind of run or stream, a bar from beginning to end, the colour of its state. */
import { type Html, html, time } from './html.ts';

interface Bar {
  readonly from: Date;
  /** Null while the work lasts. */
  readonly to: Date | null;
  readonly state: string;
}

export interface Line {
  readonly name: string;
  readonly bars: readonly Bar[];
}

/** Bars are drawn at whole units. A bar is at least one wide, so that a second is visible in a day. */
const WIDTH = 720;

/** `says`: what the picture shows, for those who do not see it. */
export function timeline(
  lines: readonly Line[],
  { id, from, to, at, says }: { id: string; from: Date; to: Date; at: Date; says: Html | string },
): Html {
  const span = Math.max(1, to.getTime() - from.getTime());
  const times = [0, 0.25, 0.5, 0.75, 1].map(part => new Date(from.getTime() + span * part));
  const seconds = span < 30 * 60_000;
  return html`
<figure class="timeline" aria-labelledby="${id}" aria-describedby="${id}-sum">
${lines.map(({ name, bars }) => html`<div class="line" aria-hidden="true"><span>${name}</span>${svg(bars, from, to)}</div>`)}
<div class="line" aria-hidden="true"><span></span><div class="times">${times.map(one => time(one, at, { seconds }))}</div></div>
<figcaption id="${id}-sum">${says}</figcaption>
</figure>`;
}

function svg(bars: readonly Bar[], from: Date, to: Date): Html {
  const unit = (to.getTime() - from.getTime()) / WIDTH;
  const x = (one: Date) => Math.min(WIDTH, Math.max(0, Math.floor((one.getTime() - from.getTime()) / unit)));
  const drawn = new Map<string, Set<string>>();
  for (const bar of bars) {
    const left = Math.min(x(bar.from), WIDTH - 1);
    const right = Math.max(left + 1, x(bar.to ?? to));
    const paths = drawn.get(bar.state) ?? new Set();
    drawn.set(bar.state, paths.add(`M${left} 0H${right}V10H${left}z`));
  }
  // Failed runs are drawn above completed ones.
  const states = [...drawn].sort(([a], [b]) => Number(b === 'completed') - Number(a === 'completed'));
  return html`<svg viewBox="0 0 ${WIDTH} 10" preserveAspectRatio="none">${states.map(
    ([state, paths]) => html`<path class="is-${state}" d="${[...paths].join('')}"/>`,
  )}</svg>`;
}
