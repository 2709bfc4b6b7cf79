/** BullMQ's metrics of each account's queue, labelled by account instead of by BullMQ's queue name. */
import type { Queue } from 'bullmq';

/** Prometheus text format, with one HELP and TYPE per metric. */
export async function exposed(queues: ReadonlyMap<string, Pick<Queue, 'exportPrometheusMetrics'>>): Promise<string> {
  const texts = await Promise.all([...queues].map(([account, queue]) => queue.exportPrometheusMetrics({ account })));
  return merged(texts);
}

/** Groups samples of the same metric from several texts, as the format requires. */
// @internal Tests merge texts of queues that are not there.
export function merged(texts: readonly string[]): string {
  const metrics = new Map<string, { words: string[]; samples: string[] }>();
  for (const line of texts.flatMap(text => text.split('\n'))) {
    const name = /^(?:# (?:HELP|TYPE) )?(\w+)/.exec(line)?.[1];
    if (name === undefined) continue;
    const metric = metrics.get(name) ?? { words: [], samples: [] };
    metrics.set(name, metric);
    if (!line.startsWith('#')) metric.samples.push(line.replace(/queue="[^"]*", ?/, ''));
    else if (!metric.words.includes(line)) metric.words.push(line);
  }
  return [...metrics.values()].flatMap(({ words, samples }) => [...words, ...samples, '']).join('\n');
}
