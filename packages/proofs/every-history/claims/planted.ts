// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is text of the product
/** Mistakes that are easily made in claims, and the smallest world, or the race, that finds each. */
import type { Replacement } from '../planted.ts';
import type { PresencePlays } from './presence.ts';

export interface Planted {
  readonly mistakes: readonly Replacement[];
  /** A world, or a part of the name of a pair of acts that race. */
  readonly foundIn: { readonly world: string } | { readonly race: string };
}

const inFile =
  (file: string) =>
  (from: string, to: string): readonly Replacement[] => [{ file, from, to }];
const claims = inFile('src/engine/runs/claims.ts');
const runs = inFile('src/engine/runs/runs.ts');
const sums = inFile('src/engine/commit/sums.ts');
const slots = inFile('src/engine/runs/slots.ts');
const workers = inFile('src/engine/runs/workers.ts');
const living = inFile('src/status/workers.ts');
const unlocked = runs('transaction(db, work, `${begin}; ${lockSql(account)}`);', 'transaction(db, work, begin);');
const crash = { world: 'a page, several at once, and what a power cut takes back' };
const slot = { world: 'slots of the schedule, and a sweep that is open' };
const stream = { world: 'a stream, two workers, two deliveries' };
const ends = { world: 'two streams of a run, and how it ends' };

export const plantedInClaims: Readonly<Record<string, Planted>> = {
  'streams of two sources that end at once do not wait for each other': {
    mistakes: claims(
      'cross join lateral (select from sync.stored_runs where id = e.run_id for no key update) locked',
      '',
    ),
    foundIn: { race: 'worker 1 finishes tickets of run 1 under token 1, while worker 2 finishes books.shelves' },
  },
  'the token is not raised': {
    mistakes: claims("set token = token + 1, state = 'running', started_at", "set state = 'running', started_at"),
    foundIn: stream,
  },
  'a commit does not compare its token': {
    mistakes: sums(
      "token = $3 and state = 'running' and ${counted} >= $13",
      "$3::int is not null and state = 'running' and ${counted} >= $13",
    ),
    foundIn: stream,
  },
  'a commit takes any token that is not newer': {
    mistakes: sums(
      "token = ${claim.token} and state = 'running'\n        and ${raw(counted)} >= ${acknowledgedOf(claim)}\n      returning account_id",
      "token >= ${claim.token} and state = 'running'\n        and ${raw(counted)} >= ${acknowledgedOf(claim)}\n      returning account_id",
    ),
    foundIn: stream,
  },
  'a stream that was returned may be committed to': {
    mistakes: sums(
      "token = ${claim.token} and state = 'running'\n        and ${raw(counted)} >= ${acknowledgedOf(claim)}\n      returning account_id",
      'token = ${claim.token}\n        and ${raw(counted)} >= ${acknowledgedOf(claim)}\n      returning account_id',
    ),
    foundIn: stream,
  },
  'a live worker is robbed': {
    mistakes: claims(
      's.job is distinct from ${by.job} and (s.worker = ${by.worker} or sync.is_alive(s.worker)) as held',
      's.job is distinct from ${by.job} and s.worker = ${by.worker} as held',
    ),
    foundIn: stream,
  },
  'a worker robs itself': {
    mistakes: claims('(s.worker = ${by.worker} or sync.is_alive(s.worker)) as held', 'sync.is_alive(s.worker) as held'),
    foundIn: stream,
  },
  'a dead worker keeps its stream': {
    mistakes: claims('and (s.worker = ${by.worker} or sync.is_alive(s.worker)) as held', 'as held'),
    foundIn: stream,
  },
  'a stream that has ended is taken up': {
    mistakes: claims("!['waiting', 'running'].includes(found.state) || found.held", 'found.held'),
    foundIn: stream,
  },
  'two runs read one stream': {
    mistakes: claims('if (found.paused || found.busy !== null) {', 'if (found.paused) {'),
    foundIn: { world: 'two runs of a stream' },
  },
  'a run waits for one whose worker is dead': {
    mistakes: claims('and (o.worker = ${by.worker} or sync.is_alive(o.worker))', ''),
    foundIn: { world: 'two runs of a stream' },
  },
  'what is paused is taken up': {
    mistakes: claims('sync.is_paused(s.account_id, s.stream_key) as paused', 'false as paused'),
    foundIn: { world: 'people pause' },
  },
  'a stream finishes twice': {
    mistakes: claims(
      "token = ${claim.token} and state = 'running'\n            and ${raw(counted)} >=",
      'token = ${claim.token}\n            and ${raw(counted)} >=',
    ),
    foundIn: stream,
  },
  'who lost a stream returns it': {
    mistakes: claims(
      "and token = ${claim.token} and state = 'running'`);\n  return rowCount",
      "and ${claim.token}::int > 0 and state = 'running'`);\n  return rowCount",
    ),
    foundIn: stream,
  },
  'an abandoned run keeps its tokens': {
    mistakes: runs(
      "set state = 'interrupted', token = token + 1, finished_at = ${now},\n        error",
      "set state = 'interrupted', finished_at = ${now},\n        error",
    ),
    foundIn: stream,
  },
  'a run is abandoned though somebody works at it': {
    mistakes: runs(
      "s.state = 'running' and sync.is_alive(s.worker))\n      returning id",
      "s.state = 'waiting' and sync.is_alive(s.worker))\n      returning id",
    ),
    foundIn: stream,
  },
  'a run ends before its last stream': {
    mistakes: runs(
      "where s.run_id = r.id and s.state in ('waiting', 'running'))\n    returning",
      "where s.run_id = r.id and s.state in ('running'))\n    returning",
    ),
    foundIn: ends,
  },
  'a job that failed ends the stream of another': {
    mistakes: claims(
      "(state = 'waiting' or (state = 'running' and job = ${job.id}))",
      "(${job.id}::text is not null and state in ('waiting', 'running'))",
    ),
    foundIn: { world: 'a job that fails beside another one' },
  },
  'another account makes a stream busy': {
    mistakes: claims(
      "where account_id = s.account_id and state = 'running' offset 0) p",
      "where s.account_id > '' and state = 'running' offset 0) p",
    ),
    foundIn: { world: 'a stream of two accounts' },
  },
  'runs of another account are ended': {
    mistakes: runs(
      "where account_id = ${account} and state = 'running' and not",
      "where ${account}::text > '' and state = 'running' and not",
    ),
    foundIn: { world: 'a stream of two accounts' },
  },
  'a refused token ends the streams of all sources': {
    mistakes: runs('(o.exit_code = ${raw(exitCodes.interrupted)} or p.source = k.source)', 'true'),
    foundIn: { world: 'two streams of one source and one of another' },
  },
  'a proof builds upon what is lost': {
    mistakes: sums(
      "state = 'running'\n        and ${raw(counted)} >= ${acknowledgedOf(claim)}\n      returning account_id",
      "state = 'running'\n      returning account_id",
    ),
    foundIn: crash,
  },
  'what is rolled back is acknowledged': {
    mistakes: sums('acknowledgeWithin(client, claim, written.counted)', 'acknowledge(claim, written.counted)'),
    foundIn: crash,
  },
  'pages that share a transaction count once': {
    mistakes: sums('sum.noted.push(one)', 'sum.noted[0] = one'),
    foundIn: crash,
  },
  'an earlier slot is taken after a later one': {
    mistakes: slots('slot >= ${slot} and slot < ${latest(now)}', 'slot = ${slot} and slot < ${latest(now)}'),
    foundIn: slot,
  },
  'a slot of a wrong clock closes those before it': {
    mistakes: slots(
      'slot >= ${slot} and slot < ${latest(now)}',
      '(slot >= ${slot} or slot < ${latest(now)} and false)',
    ),
    foundIn: slot,
  },
  'a slot opens a run beside an open one': {
    mistakes: slots('if (open !== undefined) return', 'if (open === 0) return'),
    foundIn: slot,
  },
  'two take slots without the lock of the account': {
    mistakes: unlocked,
    foundIn: {
      race: 'claims the slot of nightly at minute -60, while worker 2 claims the slot of nightly at minute 0',
    },
  },
  'who takes up does not hold the row': {
    mistakes: claims('\n      for update of s', ''),
    foundIn: { race: 'takes up tickets of run 1 as job a, while a person ends run 1' },
  },
  'two take up without the lock of the account': {
    mistakes: [...claims('\n      for update of s', ''), ...unlocked],
    foundIn: { race: 'takes up tickets of run 1 as job a, while worker 2 takes up tickets of run 1 as job b' },
  },
};

/** And those in who lives, with the events that find each. */
export const plantedInPresence: Readonly<
  Record<string, { readonly mistakes: readonly Replacement[]; readonly foundIn: PresencePlays }>
> = {
  'who comes removes the living': {
    mistakes: workers('w.account_id = $1 and not sync.is_alive(w.id)', 'w.account_id = $1'),
    foundIn: { most: 1 },
  },
  'who comes removes the dead of other accounts': {
    mistakes: workers('w.account_id = $1 and not sync.is_alive(w.id)', 'not sync.is_alive(w.id)'),
    foundIn: { most: 1 },
  },
  'a dead process counts as living': {
    mistakes: living('sync.live_workers', 'sync.workers'),
    foundIn: { most: 1, first: ['works'] },
  },
  'who comes back has no lock': {
    mistakes: workers(
      'select pg_advisory_lock(${raw(lockClass)}, id) from entry`',
      'select ${raw(lockClass)}, id from entry`',
    ),
    foundIn: { most: 1, first: ['cut'] },
  },
  'who comes back is not written down again': {
    mistakes: workers('page_error from entry\n', 'page_error from entry where false\n'),
    foundIn: { most: 1, first: ['cut', 'other'] },
  },
  'who comes back no longer takes jobs': {
    mistakes: workers('await inTime(again, clock, sayWorks(again.client, held)).catch(() => {});', ''),
    foundIn: { most: 1, first: ['cut', 'works'] },
  },
  'who comes back believes to see all': {
    mistakes: workers('heldMs = clock.monotonic();', ''),
    foundIn: { most: 1, first: ['cut'] },
  },
  'who gets no answer waits for ever': {
    mistakes: workers('.then(session.destroy, () => {})', '.then(() => {}, () => {})'),
    foundIn: { most: 1 },
  },
};
