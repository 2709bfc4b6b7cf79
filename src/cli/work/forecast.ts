/** What a run will take, as commands ask for it: what `plan` has said a moment ago, or what is known here without a request. */

import type { Context } from '../../engine/context.ts';
import type { StreamKey } from '../../engine/database/stream-key.ts';
import { type AskedFor, type Foreseen, freshPlan, keepForecast } from '../../engine/forecast/forecast-rows.ts';
import { foreseenOf, plan, type Question } from '../../engine/forecast/plan.ts';
import type { SourceName } from '../../engine/http/request.ts';
import { wasRead } from '../../engine/verify/findings.ts';
import { streams } from '../../sources/index.ts';

/** By this a plan and a run are known to be of the same question. */
export function askedFor({ kind: _, ...question }: Question): AskedFor {
  return JSON.parse(JSON.stringify(question));
}

/** Undefined where nothing is known yet, as before a first load that nobody has planned. */
export async function foretell(ctx: Context, question: Question): Promise<Foreseen | undefined> {
  const { kind } = question;
  const asked = { kind, question: askedFor(question) };
  const planned = await freshPlan(ctx.pg, ctx.account, asked, new Date(ctx.clock.now()));
  return planned ?? foreseenOf(await plan(question, { ctx, counts: false }));
}

/** Opens the run, and keeps with it what it is expected to take. */
export async function foretold<T extends { readonly run: number }>(
  ctx: Context,
  question: Question,
  open: () => Promise<T>,
): Promise<T> {
  const forecast = await foretell(ctx, question);
  const opened = await open();
  if (forecast) await keepForecast(ctx.pg, opened.run, forecast);
  return opened;
}

/** Configured sources with a stream that was read: only rows that were read can differ. */
export async function sourcesRead({ pg, account, sources, streams }: Context): Promise<Set<SourceName>> {
  const read = new Set<SourceName>();
  for (const { key, source, jobs } of streams)
    if (sources.has(source) && jobs.audit !== undefined && (await wasRead(pg, account, key))) read.add(source);
  return read;
}

/** The streams of these sources that verify compares; of a sample those with random records. */
export function verifiable(sources: ReadonlySet<SourceName>, sample: number | null): StreamKey[] {
  return streams
    .filter(
      ({ source, jobs, sampled }) => sources.has(source) && jobs.verify !== undefined && (sample === null || sampled),
    )
    .map(({ key }) => key);
}
