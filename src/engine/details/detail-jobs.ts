/** The jobs of a stream of details, its records that wait, and its rejects. Each is loaded when it runs, so that a command starts quickly. */
import type { Stream, StreamJobs } from '../../sources/source.ts';
import { type ById, type Detail, unitOf } from './detail-rows.ts';
import { Listed } from './listed.ts';
import { Pending } from './pending.ts';

export const replay: NonNullable<Stream['replay']> = async replaying =>
  (await import('./replay-reply.ts')).replay(replaying);

const loop = () => import('./read-details.ts');

export const detailJobs = (stream: Detail | ById): Pick<StreamJobs, 'sync' | 'verify'> => ({
  sync: {
    read: async (ctx, claim) => (await loop()).readDetails(ctx, claim, stream),
    ...(stream.kind === 'detail' && { isDone: async (ctx, work) => (await loop()).isDone(ctx, work, stream) }),
  },
  verify: {
    read: async (ctx, claim) => (await import('../verify/details/verify-stream.ts')).verify(ctx, claim, stream),
  },
});

export const pendingOf = (stream: Detail | ById): NonNullable<Stream['pending']> => ({
  unit: unitOf(stream),
  cost: stream.request('', []).cost,
  isDue: async ctx => (await loop()).detailsAreDue(ctx, stream),
  countLeft: (db, { account, run }) =>
    stream.kind === 'detail' ? new Pending(db, account, stream).left(run) : new Listed(db, account, stream).count(),
});
