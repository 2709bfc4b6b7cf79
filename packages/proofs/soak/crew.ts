/** Workers that are started again whenever they end, as whoever runs them would, and what became of those nobody ended. */
import { setTimeout as delay } from 'node:timers/promises';
import { startWorker, type WorkerProcess } from '../../../test/support/workers.ts';
import { pick, type Rng } from '../../sandbox/src/random.ts';

interface Member {
  readonly place: number;
  readonly worker: WorkerProcess;
  /** Its number in sync.workers, once it is at work. */
  id: number | undefined;
  /** Somebody has ended it. */
  asked: boolean;
}

export interface Crew {
  /** Ends one at random, which is replaced at once. Answers who it was. */
  end(rng: Rng, signal: 'SIGKILL' | 'SIGTERM'): Promise<string>;
  /** All of them at one moment. */
  killAll(): Promise<void>;
  /** One at random stands still for so long, unless it is killed meanwhile. */
  suspend(rng: Rng, ms: number): Promise<string>;
  /** SIGTERM to all, and nobody in their place: what they exited with. */
  leave(): Promise<(number | null)[]>;
  /** What those said that were at work and ended by themselves, or left in another way than they were asked to. */
  readonly strays: string[];
  /** Those that did not begin, because a server was away. */
  readonly notBegun: string[];
  readonly ended: { SIGKILL: number; SIGTERM: number };
}

const nameOf = ({ id }: Member): string => (id === undefined ? 'a worker that had just begun' : `worker ${id}`);

/** What it complained of, without the stack that may follow. */
const firstOf = (text: string) => /^error.*/im.exec(text)?.[0] ?? text.trim().split('\n')[0];

export async function hire(count: number, env: Record<string, string>, stack: AsyncDisposableStack): Promise<Crew> {
  const strays: string[] = [];
  const notBegun: string[] = [];
  const ended = { SIGKILL: 0, SIGTERM: 0 };
  let closing = false;
  const begin = (place: number) => {
    const member: Member = { place, worker: startWorker(env), id: undefined, asked: false };
    members[place] = member;
    member.worker.id.then(
      id => {
        member.id = id;
      },
      () => {},
    );
    void member.worker.finished.then(async ({ code, signal, stderr }) => {
      if (member.asked || closing) return;
      const words = `${nameOf(member)} ended with ${code ?? signal}: ${firstOf(stderr)}`;
      (member.id === undefined ? notBegun : strays).push(words);
      await delay(500);
      if (!closing) begin(place);
    });
  };
  const members: Member[] = [];
  const stop = async (member: Member, signal: 'SIGKILL' | 'SIGTERM') => {
    member.asked = true;
    ended[signal]++;
    member.worker.kill(signal);
    // Without this one that stands still would not hear of it.
    if (signal === 'SIGTERM') member.worker.kill('SIGCONT');
    const { code, stderr } = await member.worker.finished;
    if (signal === 'SIGTERM' && code !== 0 && member.id !== undefined) strays.push(`${nameOf(member)}: ${stderr}`);
    return code;
  };
  const replace = async (member: Member, signal: 'SIGKILL' | 'SIGTERM') => {
    await stop(member, signal);
    if (!closing) begin(member.place);
  };
  /** Not one that somebody else is ending now. */
  const oneOf = (rng: Rng) => {
    const there = members.filter(({ asked }) => !asked);
    return pick(rng, there.length > 0 ? there : members);
  };
  stack.defer(async () => {
    closing = true;
    for (const { worker } of members) worker.kill('SIGKILL');
    await Promise.all(members.map(({ worker }) => worker.finished));
  });
  for (let place = 0; place < count; place++) begin(place);
  await Promise.all(members.map(({ worker }) => worker.id));
  return {
    strays,
    notBegun,
    ended,
    async end(rng, signal) {
      const member = oneOf(rng);
      if (!member.asked) await replace(member, signal);
      return nameOf(member);
    },
    async killAll() {
      await Promise.all(members.filter(({ asked }) => !asked).map(member => replace(member, 'SIGKILL')));
    },
    async suspend(rng, ms) {
      const member = oneOf(rng);
      member.worker.kill('SIGSTOP');
      void delay(ms, undefined, { ref: false }).then(() => member.worker.kill('SIGCONT'));
      return nameOf(member);
    },
    async leave() {
      closing = true;
      return Promise.all(members.map(member => stop(member, 'SIGTERM')));
    },
  };
}
