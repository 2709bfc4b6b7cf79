/**
 * Forecasts for commands: of a sync or a backfill the stored result of a recent `plan`, or an estimate without requests; of a sweep
 * or a verification what its rows cost.
 */

import type { Context } from '../../engine/context.ts';
import type { StreamKey } from '../../engine/database/stream-key.ts';
import type { Cost } from '../../engine/forecast/cost-of-rows.ts';
import { type AskedFor, type ForecastTotals, freshPlan, keepForecast } from '../../engine/forecast/forecast-rows.ts';
import { plan, totalsOf } from '../../engine/forecast/plan.ts';
import type { Question } from '../../engine/forecast/planning.ts';
import type { SourceName } from '../../engine/http/request.ts';
import { isSampled } from '../../engine/verify/audit/audited.ts';
import { wasRead } from '../../engine/verify/findings.ts';
import { streams } from '../../sources/index.ts';
import { count, duration } from '../../words.ts';
import { say } from '../output/terminal.ts';

/** Key that matches a plan with a run of the same question. */
export function askedFor({ kind: _, ...question }: Question): AskedFor {
  return JSON.parse(JSON.stringify(question));
}

/** Forecast of a run; undefined before a first load without a plan, when nothing is known. */
async function forecastFor(ctx: Context, question: Question): Promise<ForecastTotals | undefined> {
  const { kind } = question;
  const asked = { kind, question: askedFor(question) };
  const planned = await freshPlan(ctx.pg, ctx.account, asked, new Date(ctx.clock.now()));
  return planned ?? totalsOf(await plan(question, { ctx, counts: false }));
}

export async function openWithForecast<T extends { readonly run: number }>(
  ctx: Context,
  question: Question,
  open: () => Promise<T>,
): Promise<T> {
  const forecast = await forecastFor(ctx, question);
  const opened = await open();
  if (forecast) await keepForecast(ctx.pg, opened.run, forecast);
  return opened;
}

/** The line by which a sweep or a verification says what it takes. */
export function sayCost(what: string, { credits, seconds }: Cost): void {
  say(`${what} takes about ${count(credits, 'credit')}, ${duration(seconds)} at the configured limits.`);
}

/** Configured sources with at least one stream that was read. Only mirrored rows can be compared. */
export async function sourcesRead({ pg, account, sources, streams }: Context): Promise<Set<SourceName>> {
  const read = new Set<SourceName>();
  for (const { key, source, jobs } of streams)
    if (sources.has(source) && jobs.verify !== undefined && (await wasRead(pg, account, key))) read.add(source);
  return read;
}

/** Streams of these sources that `verify` compares. A sample includes only streams with random access to records. */
export function verifiable(sources: Pick<ReadonlySet<SourceName>, 'has'>, sample: number | null): StreamKey[] {
  return streams
    .filter(
      stream =>
        sources.has(stream.source) && stream.jobs.verify !== undefined && (sample === null || isSampled(stream)),
    )
    .map(({ key }) => key);
}
