// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is text of the product
/** Mistakes that are easily made in claims, and the smallest world, or the race, that finds each. */
import type { Replacement } from '../planted.ts';

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
const stream = { world: 'a stream, two workers, two deliveries' };
const ends = { world: 'two streams of a run, and how it ends' };

export const plantedInClaims: Readonly<Record<string, Planted>> = {
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
      "token = $3 and state = 'running' and ${counted} >= $9",
      "token >= $3 and state = 'running' and ${counted} >= $9",
    ),
    foundIn: stream,
  },
  'a stream that was returned may be committed to': {
    mistakes: sums("token = $3 and state = 'running' and ${counted} >= $9", 'token = $3 and ${counted} >= $9'),
    foundIn: stream,
  },
  'a live worker is robbed': {
    mistakes: claims(
      's.job is distinct from $3 and (s.worker = $4 or sync.is_alive(s.worker)) as held',
      's.job is distinct from $3 and s.worker = $4 as held',
    ),
    foundIn: stream,
  },
  'a worker robs itself': {
    mistakes: claims('(s.worker = $4 or sync.is_alive(s.worker)) as held', 'sync.is_alive(s.worker) as held'),
    foundIn: stream,
  },
  'a dead worker keeps its stream': {
    mistakes: claims('and (s.worker = $4 or sync.is_alive(s.worker)) as held', 'as held'),
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
    mistakes: claims('and (o.worker = $4 or sync.is_alive(o.worker))', ''),
    foundIn: { world: 'two runs of a stream' },
  },
  'what is paused is taken up': {
    mistakes: claims('sync.is_paused(s.account_id, s.stream_key) as paused', 'false as paused'),
    foundIn: { world: 'people pause' },
  },
  'a stream finishes twice': {
    mistakes: claims("token = $3 and state = 'running' and ${counted} >= $11", 'token = $3 and ${counted} >= $11'),
    foundIn: stream,
  },
  'who lost a stream returns it': {
    mistakes: claims(
      "where run_id = $1 and stream_key = $2 and token = $3 and state = 'running'`,\n    [claim.run",
      "where run_id = $1 and stream_key = $2 and $3::int > 0 and state = 'running'`,\n    [claim.run",
    ),
    foundIn: stream,
  },
  'an abandoned run keeps its tokens': {
    mistakes: runs(
      "set state = 'interrupted', token = token + 1, finished_at = $2,\n         error",
      "set state = 'interrupted', finished_at = $2,\n         error",
    ),
    foundIn: stream,
  },
  'a run is abandoned though somebody works at it': {
    mistakes: runs(
      "s.state = 'running' and sync.is_alive(s.worker))\n       returning id",
      "s.state = 'waiting' and sync.is_alive(s.worker))\n       returning id",
    ),
    foundIn: stream,
  },
  'a run ends before its last stream': {
    mistakes: runs(
      "where s.run_id = $1 and s.state in ('waiting', 'running'))`,\n    [run, now]",
      "where s.run_id = $1 and s.state in ('running'))`,\n    [run, now]",
    ),
    foundIn: ends,
  },
  'a job that failed ends the stream of another': {
    mistakes: claims(
      "(state = 'waiting' or (state = 'running' and job = $3))",
      "($3::text is not null and state in ('waiting', 'running'))",
    ),
    foundIn: { world: 'a job that fails beside another one' },
  },
  'who takes up does not hold the row': {
    mistakes: claims('\n       for update of s', ''),
    foundIn: { race: 'takes up tickets of run 1 as job a, while a person ends run 1' },
  },
  'two take up without the lock of the account': {
    mistakes: [
      ...claims('\n       for update of s', ''),
      ...runs('transaction(db, work, `${durably}; ${lockSql(account)}`);', 'transaction(db, work, durably);'),
    ],
    foundIn: { race: 'takes up tickets of run 1 as job a, while worker 2 takes up tickets of run 1 as job b' },
  },
};
