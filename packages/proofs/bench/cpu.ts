/** What processes have used, as Linux counts it. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import type pg from 'pg';

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

interface Stat {
  readonly parent: number;
  readonly seconds: number;
  /** Of its children that have ended. */
  readonly endedSeconds: number;
}

function statOf(pid: number): Stat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
    const [user, system, endedUser, endedSystem] = fields.slice(11, 15) as [number, number, number, number];
    return {
      parent: fields[1]!,
      seconds: (user + system) / ticksPerSecond,
      endedSeconds: (endedUser + endedSystem) / ticksPerSecond,
    };
  } catch {
    return undefined; // It has ended meanwhile.
  }
}

/** Seconds of processor that a process has used. */
export const cpuOf = (pid: number): number => statOf(pid)?.seconds ?? 0;

/** The same of all children that have ended, and of theirs. */
export const endedCpu = (): number => statOf(process.pid)!.endedSeconds;

/** Seconds of processor that the process of this session has used, to the nanosecond. */
export async function sessionCpu(session: pg.Pool | pg.ClientBase): Promise<() => number> {
  const { rows } = await session.query<{ pid: number }>('select pg_backend_pid() as pid');
  return () => Number(readFileSync(`/proc/${rows[0]!.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e9;
}

/** The same of a whole PostgreSQL: those of connections that have ended too. */
export async function serverCpu(pool: pg.Pool): Promise<() => number> {
  const { rows } = await pool.query('select pg_backend_pid() as pid');
  const postmaster = statOf(rows[0].pid)!.parent;
  const once = () => {
    const live = readdirSync('/proc')
      .map(name => (/^\d+$/.test(name) ? statOf(Number(name)) : undefined))
      .filter(stat => stat?.parent === postmaster);
    return live.reduce((all, stat) => all + stat!.seconds, 0);
  };
  return () => {
    for (;;) {
      const before = statOf(postmaster)!;
      const live = once();
      const after = statOf(postmaster)!;
      // Else one has ended meanwhile, and is in both or in neither.
      if (before.endedSeconds === after.endedSeconds) return after.seconds + after.endedSeconds + live;
    }
  };
}

/** MB that a process holds now. */
export const memoryOf = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024;

/** The most that it ever held, in MB; 0 if it has ended. */
export function peakOf(pid: number): number {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}
