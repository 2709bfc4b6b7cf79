/** A job: a name, the shape of its payload, and its work. Each file in jobs/ holds one. */
import type { z } from 'zod';
import type { JobContext } from '../context.ts';

interface JobDefinition<T, C> {
  readonly name: string;
  readonly payload: z.ZodType<T>;
  readonly run: (ctx: C, payload: T) => Promise<void>;
}

/** A definition whose payload has been checked against its own schema. */
export interface Job<C = JobContext> {
  readonly name: string;
  readonly run: (ctx: C, payload: unknown) => Promise<void>;
}

export function defineJob<T, C = JobContext>({ name, payload, run }: JobDefinition<T, C>): Job<C> {
  // To compile the check takes longer than to run it.
  return { name, run: (ctx, data) => run(ctx, payload.parse(data, { jitless: true })) };
}
