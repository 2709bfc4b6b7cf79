/** What a run will take, as commands ask for it: what `plan` has said a moment ago, or what is known here without a request. */
import type { Config } from '../../app/config.ts';
import type { Context } from '../../app/context.ts';
import { type AskedFor, type Foreseen, freshPlan, keepForecast } from '../../engine/forecast/forecast-rows.ts';
import { foreseenOf, type Given, plan, type Question } from '../../engine/forecast/plan.ts';
import type { SourceName } from '../../engine/http/request.ts';
import { wasRead } from '../../engine/verify/findings.ts';
import { listStream, streams } from '../../sources/index.ts';
import type { Stream } from '../../sources/source.ts';

const streamOf = <K extends Stream['kind']>(kind: K): Extract<Stream, { kind: K }> =>
  streams.find((stream): stream is Extract<Stream, { kind: K }> => stream.kind === kind)!;

/** `counts`: whether credits may be used to count what there is. */
export const givenFor = (config: Pick<Config, 'limits' | 'books'>, ctx: Context, counts: boolean): Given => ({
  ctx,
  counts,
  desk: {
    users: listStream('users'),
    customers: listStream('customers'),
    tickets: listStream('tickets'),
    messages: streamOf('detail'),
  },
  catalog: { shelves: streamOf('shelves'), volumes: streamOf('volumes') },
  limits: { helpdesk: config.limits, ...(config.books && { books: config.books.limits }) },
});

/** By this a plan and a run are known to be of the same question. */
export function askedFor({ kind: _, ...question }: Question): AskedFor {
  return JSON.parse(JSON.stringify(question));
}

/** Undefined where nothing is known yet, as before a first load that nobody has planned. */
export async function foretell(config: Config, ctx: Context, question: Question): Promise<Foreseen | undefined> {
  const { kind } = question;
  const asked = { kind, question: askedFor(question) };
  const planned = await freshPlan(ctx.pg, ctx.account, asked, new Date(ctx.clock.now()));
  return planned ?? foreseenOf(await plan(question, givenFor(config, ctx, false)));
}

/** Opens the run, and keeps with it what it is expected to take. */
export async function foretold<T extends { readonly run: number }>(
  config: Config,
  ctx: Context,
  question: Question,
  open: () => Promise<T>,
): Promise<T> {
  const forecast = await foretell(config, ctx, question);
  const opened = await open();
  if (forecast) await keepForecast(ctx.pg, opened.run, forecast);
  return opened;
}

/** Sources that are configured and have been read: what of them was never read cannot be wrong. */
export async function sourcesRead({ pg, account, sources }: Context): Promise<Set<SourceName>> {
  const first = { helpdesk: 'tickets', books: 'shelves' } as const;
  const read = new Set<SourceName>();
  for (const source of sources) if (await wasRead(pg, account, first[source])) read.add(source);
  return read;
}

/** The streams of these sources that are compared: of a sample those whose records are chosen at random. */
export function verifiable(sources: ReadonlySet<SourceName>, sample: number | null): string[] {
  const sampled = ['customers', 'tickets', 'shelves', 'volumes'];
  return streams
    .filter(({ name, source }) => sources.has(source) && (sample === null || sampled.includes(name)))
    .map(({ name }) => name);
}
