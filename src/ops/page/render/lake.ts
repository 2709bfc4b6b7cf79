/** Says how far the lake is, in one line; nothing while it is off. */
import type { LakeStatus } from '../../../lake/state.ts';
import { amount, type Html, html, text, time } from './html.ts';

export function lakeLine(lake: LakeStatus | undefined, at: Date): Html | null {
  if (lake === undefined) return null;
  const { moment, pending, state, last_error: error } = lake;
  return html`<p class="lake">${moment === null ? 'The lake is empty.' : html`The lake has the warehouse as of ${time(moment, at)}; ${amount(pending)} ${pending === 1 ? 'change is' : 'changes are'} pending.`}${state === 'failing' ? html` <b class="severity is-warning">Its last export failed: ${text(error ?? '')}</b>` : null}</p>`;
}
