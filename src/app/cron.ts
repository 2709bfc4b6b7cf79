/**
 * Checks cron expressions, in the dialect of node-cron, which runs the schedules (BullMQ has another one). node-cron reads some
 * typos as something else: `5-1` as a range over the end of the hour, and every 70th minute as every 60th. These are refused.
 */
import { createTask, parse, validate } from 'node-cron';

interface Field {
  readonly name: string;
  readonly first: number;
  readonly last: number;
  /** Names that may replace the numbers, in order from `first`. */
  readonly names?: readonly string[];
  readonly also?: string;
}

const second: Field = { name: 'second', first: 0, last: 59 };
const fields: readonly Field[] = [
  { name: 'minute', first: 0, last: 59 },
  { name: 'hour', first: 0, last: 23 },
  { name: 'day of month', first: 1, last: 31, also: 'L for the last day' },
  {
    name: 'month',
    first: 1,
    last: 12,
    names: ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'],
  },
  { name: 'weekday', first: 0, last: 7, names: ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] },
];

/** Why an expression cannot be a schedule, as the end of a sentence that begins with the name of its setting. */
export function cronFault(expression: string): string | undefined {
  // The accounts of a file usually have the same, and the file is read each minute.
  if (!known.has(expression)) {
    if (known.size >= mostKnown) known.clear();
    known.set(expression, faultOf(expression));
  }
  return known.get(expression);
}
const known = new Map<string, string | undefined>();
const mostKnown = 1000;

function faultOf(expression: string): string | undefined {
  const given = expression.split(/ +/);
  if (/[^\S ]/.test(expression)) return 'has a tab or a line break between its fields: write blanks';
  if (given.length < 5 || given.length > 6)
    return 'must have five fields (minute, hour, day of month, month, weekday), or six with seconds first, or be empty';
  const all = given.length === 6 ? [second, ...fields] : fields;
  for (const [i, field] of all.entries()) {
    const alone = [...all.keys()].map(place => (place === i ? given[i] : '*')).join(' ');
    const fault = validate(alone) ? readOtherwise(given[i]!, field) : `allowed are ${allowed(field)}`;
    if (fault !== undefined) return `has the ${field.name} ${given[i]}: ${fault}`;
  }
  // The fields are valid one by one, but no month has such a day.
  return isPossible(expression) && hasDueTime(expression)
    ? undefined
    : `is never due: no such day is in a month of it (day ${given.at(-3)}, month ${given.at(-2)})`;
}

function allowed({ first, last, names = [], also }: Field): string {
  const named = names.length > 0 ? ` or ${names[0]!.toUpperCase()}-${names.at(-1)!.toUpperCase()}` : '';
  const range = `${first + 1}-${first + 4}`;
  return `${first} to ${last}${named}, *, a list (${first + 1},${first + 4}), a range (${range}), a step (*/2)${also ? `, and ${also}` : ''}`;
}

/** Finds a field that node-cron reads in another way than its author can have meant. */
function readOtherwise(text: string, { first, last, names = [] }: Field): string | undefined {
  const numberOf = (word: string) => {
    const place = names.indexOf(word.slice(0, 3).toLowerCase());
    return place < 0 ? Number(word) : place + first;
  };
  for (const part of text.split(',')) {
    const [, range = '', from, to, step] = /^(\*|(\w+)-(\w+))(?:\/(\d+))?$/.exec(part) ?? [];
    const [least, most] = range === '*' ? [first, last] : [numberOf(from ?? ''), numberOf(to ?? '')];
    if (least > most) {
      if (step !== undefined) return 'a range cannot go backwards; write two, each with its step';
      if (last === 7 && from === '7') return `a range cannot go backwards; write 0-${to}`;
      const end = last === 7 ? 6 : last;
      const named = /^\D/.test(from!) ? names.map(one => one.toUpperCase()) : undefined;
      const forwards = named
        ? [...named.slice(least - first), ...named.slice(0, most - first + 1)].join(',')
        : `${from}-${end},${first}-${to}`;
      return `a range cannot go backwards; write ${forwards}`;
    }
    if (step !== undefined && Number(step) > most - least) return `a step there is at most ${most - least}`;
  }
  return undefined;
}

function isPossible(expression: string): boolean {
  try {
    return parse(expression) !== undefined;
  } catch {
    return false;
  }
}

/** A valid expression may never be due; scheduling it would fail. */
function hasDueTime(expression: string): boolean {
  const task = createTask(expression, () => {}, { timezone: 'UTC' });
  try {
    return task.getNextRuns(1).length > 0;
  } catch {
    return false;
  } finally {
    void task.destroy();
  }
}
