/** Progress of a command as one line: at a terminal it changes in place, elsewhere one is written every ten seconds. */
import { systemClock } from '../../clock.ts';
import { rewriteLine, say } from './terminal.ts';

/** Interval of lines without a terminal. */
const quietMs = 10_000;

export interface Line {
  show(text: string): void;
  end(): void;
}

export function showLine(): Line {
  const isTerminal = process.stderr.isTTY === true;
  let shownAtMs = systemClock.monotonic();
  return {
    show(text) {
      if (isTerminal) rewriteLine(text);
      if (isTerminal || systemClock.monotonic() - shownAtMs < quietMs) return;
      shownAtMs = systemClock.monotonic();
      say(text);
    },
    end() {
      if (isTerminal) rewriteLine('');
    },
  };
}
