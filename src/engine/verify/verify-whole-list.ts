/** Verifies a list that is read whole, as any other list. */
import type { ListStream, Row } from '../../sources/source.ts';
import type { Context } from '../context.ts';
import type { Outcome } from '../load/list-loop.ts';
import type { Claim } from '../runs/claims.ts';
import { verifyList } from './verify-list.ts';

export const verifyWholeList = (ctx: Context, claim: Claim, stream: ListStream<Row>): Promise<Outcome> =>
  verifyList(ctx, claim, stream);
