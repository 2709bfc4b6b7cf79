/** A job: a name, the shape of its payload, and its work. Each file in jobs/ holds one. */
import type { z } from 'zod';
import type { JobContext } from '../context.ts';

interface JobDefinition<T> {
  readonly name: string;
  readonly payload: z.ZodType<T>;
  readonly run: (ctx: JobContext, payload: T) => Promise<void>;
}

/** A definition whose payload has been checked against its own schema. */
export interface Job {
  readonly name: string;
  readonly run: (ctx: JobContext, payload: unknown) => Promise<void>;
}

export function defineJob<T>({ name, payload, run }: JobDefinition<T>): Job {
  return { name, run: (ctx, data) => run(ctx, payload.parse(data)) };
}
