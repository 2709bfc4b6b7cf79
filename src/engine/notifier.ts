/** Wakes whoever waits for something, within a process: so that nobody has to look for it all the time. */
export interface Bell {
  ring(): void;
  /** Aborts at the next ring: to be asked for before looking. */
  next(): AbortSignal;
}

export function makeBell(): Bell {
  let waiting = new AbortController();
  return {
    ring() {
      const rung = waiting;
      waiting = new AbortController();
      rung.abort();
    },
    next: () => waiting.signal,
  };
}
