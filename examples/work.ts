/** What the workers of the examples share: requests to a service, and chance. */

/** Sends JSON. Undefined for a refusal whose status `may` names. Throws Error for any other one. */
export function client(base: string, headers: Readonly<Record<string, string>>, may: readonly number[]) {
  return async (method: string, path: string, body?: unknown) => {
    const reply = await fetch(base + path, {
      method,
      // A server may end a connection that is kept in the moment in which it is used again.
      headers: { ...headers, 'content-type': 'application/json', connection: 'close' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await reply.text();
    if (!(reply.ok || may.includes(reply.status))) throw new Error(`${method} ${path}: ${reply.status} ${text}`);
    return reply.ok && text.trim() !== '' ? JSON.parse(text) : undefined;
  };
}

export const env = (name: string): string => {
  const value = process.env[name];
  if (value === undefined)
    throw new Error(`${name} is not set: start.sh has written it into the file env of its folder`);
  return value;
};

export const oneOf = <T>(many: readonly T[]): T => many[Math.floor(Math.random() * many.length)]!;

/** `acts`: what may happen, each as often as its number says. `node NAME.work.ts 60`: for so many seconds. */
export async function work(acts: readonly (readonly [often: number, act: () => Promise<unknown>])[]): Promise<void> {
  const until = Date.now() + Number(process.argv[2] ?? 60) * 1000;
  const all = acts.flatMap(([often, act]) => Array<() => Promise<unknown>>(often).fill(act));
  let done = 0;
  const alone = async () => {
    for (; Date.now() < until; done++) await oneOf(all)();
  };
  await Promise.all([alone(), alone(), alone()]);
  console.log(`${done} changes`);
}
