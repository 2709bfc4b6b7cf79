/** Serves one agent over stdin and stdout. Stdout carries the protocol only. */
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import type { Agents } from './server.ts';

/** Resolves when the client closes its end, or `signal` aborts. */
export async function serveOverStdio(agents: Agents, pii: boolean, signal: AbortSignal): Promise<void> {
  const ended = new Promise<void>(resolve => {
    process.stdin.once('end', resolve);
    process.stdin.once('close', resolve);
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
  // An error that concerns every question ends the command here.
  await agents.serve(pii);
  const served = serveStdio(() => agents.serve(pii), { maxSubscriptions: 1 });
  await ended;
  await served.close();
  await agents.close();
}
