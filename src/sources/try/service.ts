/** Questions about a service as a whole: its clock, its headers, its key, and what a refusal at a limit looks like. Pure. */
import { count, duration } from '../../words.ts';
import type { Service } from '../service/service.ts';
import type { Answer, Asking } from './asking.ts';
import type { Notes } from './finding.ts';
import { shapeOf } from './page.ts';
import type { Places } from './places.ts';

interface Of {
  readonly notes: Notes;
  readonly places: Places;
  readonly service: Service<string>;
}

/** A `Date` is cut to its second. */
const grainMs = 500;
const noticedMs = 2500;

export function noteClock({ notes, places }: Of, { headers, atMs }: Answer): void {
  const date = headers.date;
  const told = Date.parse(String(date ?? ''));
  if (Number.isNaN(told)) {
    notes.wrong(
      'replies have no Date: nothing says when a reply was true, and each one would be asked for again',
      places.service('name'),
      'ask who runs the service, or the proxy between, for the header',
    );
    return;
  }
  const aheadMs = told + grainMs - atMs;
  if (Math.abs(aheadMs) <= noticedMs) notes.seen('its clock is that of this machine');
  else
    notes.seen(
      `its clock is ${duration(Math.abs(aheadMs) / 1000)} ${aheadMs > 0 ? 'ahead of' : 'behind'} this machine; the mirror goes by the service's`,
    );
}

const ofRate = /rate-?limit|quota|throttle/;
const ofLeft = /remaining|left|available/;
const ofReset = /reset/;

/** Headers that tell of a limit. */
export function noteRate({ notes, places, service }: Of, headers: Asking['headers']): void {
  const rate = [...headers.keys()].filter(name => ofRate.test(name));
  const declared = service.limits
    .flatMap(({ remaining, resets }) => [remaining, resets === 'midnight UTC' ? undefined : resets])
    .filter(name => name !== undefined);
  const isDeclared = (name: string) => declared.some(one => one.toLowerCase() === name);
  const lacking = declared.filter(name => !headers.has(name.toLowerCase()));
  if (lacking.length > 0)
    notes.note(
      `no reply has the header ${lacking.join(', ')}`,
      places.service('limits'),
      rate.length > 0 ? `take one of ${rate.join(', ')}` : 'take it out, unless it comes near the limit only',
    );
  const left = rate.find(name => ofLeft.test(name));
  const unsaid = rate.filter(name => !isDeclared(name) && (ofLeft.test(name) || ofReset.test(name)));
  const reset = rate.find(name => ofReset.test(name));
  if (left !== undefined && !declared.some(name => ofLeft.test(name.toLowerCase())))
    notes.note(
      `replies tell of a limit: ${rate.join(', ')}`,
      places.service('limits'),
      `the longest limit with { remaining: '${left}'${reset === undefined ? '' : `, resets: '${reset}'`} }`,
    );
  else if (
    unsaid.length > 0 &&
    lacking.length === 0 &&
    declared.length < 2 &&
    reset !== undefined &&
    !declared.some(isReset)
  )
    notes.note(
      `replies say when a limit ends: ${reset}`,
      places.service('limits'),
      `the longest limit with resets: '${reset}'`,
    );
  const retry = headers.has('retry-after');
  if (retry) notes.seen('a refusal says when to come again, by Retry-After');
}

const isReset = (name: string) => ofReset.test(name.toLowerCase());

export function noteRefusals({ notes, places }: Of, refusals: Asking['refusals']): void {
  const [first] = refusals;
  if (first === undefined) return;
  const what = `${count(refusals.length, 'request')} ${refusals.length === 1 ? 'was' : 'were'} refused at a limit with ${first.status}, ${first.says ? 'with' : 'without'} Retry-After`;
  notes.note(
    `${what}: the declared limits are wider than those of the service, or others use them too`,
    places.service('limits'),
    'the limits of the service',
  );
}

/** The first list, asked without a key. */
export function noteKey({ notes }: Of, answer: Answer): void {
  const { status } = answer;
  if (status === 200) notes.seen('a list answers without the key too');
  else notes.seen(`without the key it answers ${shapeOf(answer)}`);
}
