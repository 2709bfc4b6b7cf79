/**
 * The part of `--help` after the options: pages without credentials, fault rules, the admin port, examples. The types
 * of RULE and FAULTS make the compiler demand a line for every field in rules.ts and every kind in faults.ts.
 */
import { ADMIN_ENDPOINTS } from './admin/admin-endpoints.ts';
import type { PlainFault } from './admission/faults.ts';
import type { FaultRule } from './admission/rules.ts';

const RULE: Record<keyof FaultRule, string> = {
  id: 'name of the rule, for the admin port; default rule-1, rule-2 …',
  service: 'helpdesk, books, or token (the token endpoint of the catalog); default any',
  method: '"GET", or a list of verbs; default any',
  path: 'path below the base address, such as "/tickets/*": * matches up to the next slash, ** everything; default any',
  query: 'required parameter values, such as {"embed": "messages"}; null for a parameter that must be absent',
  after: 'number of matching requests that succeed first; default 0',
  every: 'after that, every nth request fails; default 1',
  times: 'how many requests fail at most; default unlimited',
  share: 'share of the remaining requests that fail, 0 to 1; default 1',
  seed: 'seed of the random choice for `share`; default 1',
  fault: 'one of the faults below; a request gets the faults of all rules that match it',
};

const FAULTS: Record<PlainFault['kind'], string> = {
  status: 'replies with another status: status, and optionally reason and headers such as Retry-After',
  reset: 'breaks the connection: after "before" (nothing sent), "headers" or "half" of the body',
  delay: 'sends the reply ms milliseconds late',
  truncate: 'cuts the JSON off in the middle',
  html: 'replies with an HTML page and status 200',
  headers: 'removes headers (drop) and sets headers (set)',
  set: 'changes one record, found by id or index: field (such as contacts.0.value) gets value, or goes missing without one',
  duplicate: 'repeats one row of a list, found by id or index',
  lag: 'reads from a stale copy, seconds behind (up to an hour): old versions of rows, and new rows missing',
  clock: 'makes the clock jump by seconds, permanently',
  credits: 'lets another client use that many credits',
};

const EXAMPLE = '[{"path": "/tickets", "after": 10, "times": 2, "fault": {"kind": "status", "status": 503}}]';

/** `called`: the words that start the command. `width`: terminal width in columns. */
export function sandboxHelp(called: string, width: number): string {
  return `
The sandbox prints its addresses and credentials at the start. On the same port, without credentials:
${rows([
  ['/', 'web page with endpoints, settings and live counts'],
  ['/status.json', 'the same data as JSON'],
  ['/openapi.json', 'OpenAPI 3.1 description of both services; /openapi.yaml is its source'],
])}

Fault rules are a JSON list:
  ${EXAMPLE}
${rows(Object.entries(RULE))}

Kinds of fault (with "work": "undone", a status or a reset comes before the request takes effect):
${rows(Object.entries(FAULTS))}

The admin port takes and returns JSON, without credentials:
${rows(ADMIN_ENDPOINTS.map(({ method, path, says, takes }) => [`${method} ${path}`, takes ? `${says}: ${takes}` : says]))}

Examples:
  ${called}                                        # 2,000 tickets, limits of the real services
  ${called} --tickets 100000 --activity 60         # a larger help desk, one change every second
  ${called} --credits 1000000 --requests-per-second 1000       # practically no limits
  ${called} --since exclusive --window sliding --quiet note,labels   # other readings of the specification
  ${called} --naughty 0.05 --faults faults.json --admin-port 4011    # with faults`;

  function rows(list: readonly (readonly [string, string])[]): string {
    const indent = Math.max(...list.map(([term]) => term.length)) + 4;
    return list.map(([term, says]) => `  ${term.padEnd(indent - 2)}${folded(says, width, indent)}`).join('\n');
  }
}

/** Wraps the text at `width` columns; later lines are indented. */
function folded(text: string, width: number, indent: number): string {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!;
    if (line !== '' && indent + line.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.join(`\n${' '.repeat(indent)}`);
}
