/** Notifies waiters within a process, so that they need not poll. */
export interface Bell {
  ring(): void;
  /** Aborts at the next notification. Ask for it before looking. */
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
