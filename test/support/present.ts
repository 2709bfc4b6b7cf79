import type { Clock } from '../../src/clock.ts';
import { attend, type Presence, type Process } from '../../src/engine/runs/workers.ts';

/** This process alone, for one account. */
export async function bePresent(url: string, me: Process, clock: Clock): Promise<Presence> {
  const attendance = await attend(url, clock);
  const presence = await attendance.enter(me).catch(async error => {
    await attendance[Symbol.asyncDispose]();
    throw error;
  });
  return {
    ...presence,
    async [Symbol.asyncDispose]() {
      await presence[Symbol.asyncDispose]();
      await attendance[Symbol.asyncDispose]();
    },
  };
}
