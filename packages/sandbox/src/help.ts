/**
 * What `sandbox --help` says beyond the options: what there is without credentials, the rules of what goes wrong, and the
 * admin port. The compiler holds it to what rules.ts and faults.ts know.
 */
import { ADMIN_ENDPOINTS } from './admin-endpoints.ts';
import type { PlainFault } from './faults.ts';
import type { FaultRule } from './rules.ts';

const RULE: Record<keyof FaultRule, string> = {
  id: 'its name, by which the admin port replaces and removes it; default rule-1, rule-2 …',
  service: 'helpdesk, books, or token (the token endpoint of the catalog); default any',
  method: '"GET", or a list of verbs; default any',
  path: 'below the base address, "/tickets/*": * is anything up to the next slash, ** anything; default any',
  query: '{"embed": "messages"}: values that parameters have to have, null for one that must be absent',
  after: 'so many of these requests go well first; default 0',
  every: 'of those that come then, each nth goes wrong; default 1',
  times: 'how often at most; default no end',
  share: 'of those that are left, the share that goes wrong, 0 to 1; default 1',
  seed: 'of the chance that share needs; default 1',
  fault: 'what goes wrong, one of those below; rules that meet go wrong together',
};

const FAULTS: Record<PlainFault['kind'], string> = {
  status: 'another status: status, and reason, headers such as Retry-After',
  reset: 'the connection breaks: after "before", "headers" or "half" of the body',
  delay: 'the reply is ms late',
  truncate: 'JSON that ends in the middle',
  html: 'a page of HTML with status 200',
  headers: 'headers to drop, and to set',
  set: 'one record differs: field (as in contacts.0.value) has another value, or is missing; of row id, or index',
  duplicate: 'a row of a list is there twice: id, or index',
  lag: 'what is read comes from a copy that is so many seconds behind, up to an hour: stale rows, and late ones',
  clock: 'the clock jumps by so many seconds, from then on',
  credits: 'another client uses so many credits',
};

const EXAMPLE = '[{"path": "/tickets", "after": 10, "times": 2, "fault": {"kind": "status", "status": 503}}]';

/** `called`: the words that start the command. `width`: of the terminal, in columns. */
export function sandboxHelp(called: string, width: number): string {
  return `
It prints its addresses and credentials when it begins. On the same port, without credentials:
${rows([
  ['/', 'a page with every endpoint, the settings in force and live counts'],
  ['/status.json', 'the same for programs'],
  ['/openapi.json', 'both services described for programs (OpenAPI 3.1); /openapi.yaml is how it was written'],
])}

Rules of what goes wrong on purpose are a JSON list, of this kind:
  ${EXAMPLE}
${rows(Object.entries(RULE))}

Kinds of fault; with "work": "undone" a status or a reset comes before the request has had its effect:
${rows(Object.entries(FAULTS))}

The admin port speaks JSON, and takes no credentials:
${rows(ADMIN_ENDPOINTS.map(({ method, path, says, takes }) => [`${method} ${path}`, takes ? `${says}: ${takes}` : says]))}

Examples:
  ${called}                                        # 2,000 tickets, and the limits of the real services
  ${called} --tickets 100000 --activity 60         # larger, and alive: a change every second
  ${called} --credits 1000000 --requests-per-second 1000       # no limits to speak of
  ${called} --since exclusive --window sliding --quiet note,labels   # the other reading of much
  ${called} --naughty 0.05 --faults faults.json --admin-port 4011    # with all that can go wrong`;

  function rows(list: readonly (readonly [string, string])[]): string {
    const indent = Math.max(...list.map(([term]) => term.length)) + 4;
    return list.map(([term, says]) => `  ${term.padEnd(indent - 2)}${folded(says, width, indent)}`).join('\n');
  }
}

/** Lines of at most this width, those behind the first one with blanks before them. */
function folded(text: string, width: number, indent: number): string {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!;
    if (line !== '' && indent + line.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.join(`\n${' '.repeat(indent)}`);
}
