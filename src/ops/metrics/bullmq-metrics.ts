/** BullMQ's own figures of each account's queue. Its queues have names that nobody chose; ours are the accounts'. */
import type { Queue } from 'bullmq';

/** Prometheus' text format, each metric explained once. */
export async function exposed(queues: ReadonlyMap<string, Pick<Queue, 'exportPrometheusMetrics'>>): Promise<string> {
  const texts = await Promise.all([...queues].map(([account, queue]) => queue.exportPrometheusMetrics({ account })));
  return merged(texts);
}

/** Samples of the same metric from several texts stand together, as the format asks. */
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
