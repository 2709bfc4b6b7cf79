/** The small changes of a file of the product: one sign, one number, one line or one side of a condition is another. */
import { readFileSync } from 'node:fs';

export interface Mutant {
  readonly file: string;
  readonly line: number;
  readonly what: string;
  readonly before: string;
  readonly after: string;
}

/** What stands in a line of code or of SQL, and what may stand there instead. Both are told apart by spaces and case. */
const swaps: readonly (readonly [RegExp, readonly string[] | ((found: string) => readonly string[])])[] = [
  [/ < /g, [' <= ', ' >= ']],
  [/ <= /g, [' < ']],
  [/ > /g, [' >= ', ' <= ']],
  [/ >= /g, [' > ']],
  [/ === /g, [' !== ']],
  [/ !== /g, [' === ']],
  [/ = (?=\$\d)/g, [' <> ']],
  [/ \+ /g, [' - ']],
  [/ - /g, [' + ']],
  [/ && /g, [' || ']],
  [/ \|\| /g, [' && ']],
  [/ and /g, [' or ']],
  [/ or /g, [' and ']],
  [/\bnot (?=[a-z])/g, ['']],
  [/!(?=[\w(])/g, ['']],
  [/\bMath\.max\b/g, ['Math.min']],
  [/\bMath\.min\b/g, ['Math.max']],
  [/\bMath\.floor\b/g, ['Math.ceil']],
  [/\bMath\.ceil\b/g, ['Math.floor']],
  [/\bleast\(/g, ['greatest(']],
  [/\bgreatest\(/g, ['least(']],
  [/\.some\(/g, ['.every(']],
  [/\.every\(/g, ['.some(']],
  [/\btrue\b/g, ['false']],
  [/\bfalse\b/g, ['true']],
  [/(?<![\w$.'])0(?![\w'.])/g, ['1']],
  [/(?<![\w$.'])1(?![\w'.])/g, ['0', '2']],
  [/(?<![\w$.'"-])([2-9]|[1-9]\d+)(?![\w'"%-])/g, found => [String(Number(found) - 1), String(Number(found) + 1)]],
  [/ [+-] (?:\w+\.)*\w+(?:\([^()]*\))?/g, ['']],
  [/ \?\? [\w.]+/g, ['']],
  [/\bsecondMs\b/g, ['(2 * secondMs)']],
  [/\.at\(-1\)/g, ['.at(0)']],
  [/'waiting'/g, ["'running'"]],
  [/'running'/g, ["'waiting'"]],
  [/\bearliestMs\b/g, ['latestMs']],
  [/\blatestMs\b/g, ['earliestMs']],
];

/** A line that may be left out: a statement that declares nothing and answers nothing, or a condition of a query. */
const isDispensable = (line: string) =>
  /^\s*(?!\s|(const|let|return|import|export|type|throw|case|readonly)\b|\w+\??:|[})/*])[^\s].*;$/.test(line) ||
  /^\s*(and|or) .*[^`;]$/.test(line);

const isCode = (line: string) =>
  !/^\s*(\/\/|\/?\*|import\b|export (type|interface)|(readonly )?\w+\??: [\w<>[\] |]+;|\| \{ readonly\b|\w+\([^()]*\): [\w<>]+;$)/.test(
    line,
  );

/** `where`: a file, and of it only these functions if any are named. */
export function mutantsOf(where: string): Mutant[] {
  const [file = '', ...functions] = where.split(' ');
  const from = readFileSync(file, 'utf8');
  const lines = from.split('\n');
  const mutants: Mutant[] = [];
  const note = (n: number, instead: string, what: string) => {
    const after = [...lines.slice(0, n), instead, ...lines.slice(n + 1)].join('\n');
    mutants.push({ file, line: n + 1, what, before: from, after });
  };
  let within: string | undefined;
  for (const [n, line] of lines.entries()) {
    within = /^(?:export )?(?:async )?(?:function|const) (\w+)/.exec(line)?.[1] ?? within;
    if (!isCode(line) || (functions.length > 0 && !functions.includes(within ?? ''))) continue;
    for (const [pattern, others] of swaps)
      for (const { index, 0: found } of line.matchAll(pattern))
        for (const other of typeof others === 'function' ? others(found) : others) {
          if (other === found) continue;
          const instead = line.slice(0, index) + other + line.slice(index + found.length);
          note(n, instead, `${line.trim()}  →  ${instead.trim()}`);
        }
    const at = /^(\s*(?:\} )?(?:else )?if \()(?=.)/.exec(line)?.[1];
    if (at !== undefined)
      for (const always of ['false && ', 'true || ']) {
        // The condition ends where its bracket does, in this line or in a later one.
        const rest = lines.slice(n).join('\n').slice(at.length);
        const end = closing(rest);
        const whole = `${at}${always}(${rest.slice(0, end)})${rest.slice(end)}`;
        mutants.push({
          ...{ file, line: n + 1, what: `${line.trim()}  →  if (${always}…)`, before: from },
          after: [...lines.slice(0, n), whole].join('\n'),
        });
      }
    for (const instead of withoutParts(line)) note(n, instead, `${line.trim()}  →  ${instead.trim()}`);
    if (isDispensable(line)) note(n, '', `${line.trim()}  →  (left out)`);
  }
  // One change may be made in two ways.
  return [...new Map(mutants.map(mutant => [mutant.after, mutant])).values()];
}

/** The line with one side of each `and` and `or`, with the sides of each choice exchanged, and with one argument less. */
function* withoutParts(line: string): Generator<string> {
  for (const { index, 0: sign } of line.matchAll(/ (&&|\|\|) /g)) {
    const [from, to] = [sideBefore(line, index), sideAfter(line, index + sign.length)];
    yield line.slice(0, from) + line.slice(index + sign.length);
    yield line.slice(0, index) + line.slice(to);
  }
  for (const { index } of line.matchAll(/ \? /g)) {
    const middle = sideAfter(line, index + 3);
    if (!line.startsWith(' : ', middle)) continue;
    const end = sideAfter(line, middle + 3);
    yield `${line.slice(0, index)} ? ${line.slice(middle + 3, end)} : ${line.slice(index + 3, middle)}${line.slice(end)}`;
  }
  for (const { index, 0: call } of line.matchAll(/\bMath\.(min|max)\(/g)) {
    const begin = index + call.length;
    const [first, ...others] = argumentsOf(line.slice(begin, begin + closing(line.slice(begin))));
    if (others.length === 0) continue;
    const all = [first!, ...others];
    const after = line.slice(begin + all.join(', ').length);
    for (let n = 0; n < all.length; n++) yield line.slice(0, begin) + all.toSpliced(n, 1).join(', ') + after;
  }
}

const depthOf = (letter: string | undefined) =>
  '([{'.includes(letter ?? ' ') ? 1 : ')]}'.includes(letter ?? ' ') ? -1 : 0;

/** Where the side ends that begins here. */
function sideAfter(line: string, begin: number): number {
  for (let at = begin, depth = 0; at < line.length; at++) {
    if (depth === 0 && (depthOf(line[at]) < 0 || /^([,;]| (&&|\|\||[?:]) )/.test(line.slice(at, at + 4)))) return at;
    depth += depthOf(line[at]);
  }
  return line.length;
}

/** Where the side begins that ends here. */
function sideBefore(line: string, end: number): number {
  for (let at = end, depth = 0; at > 0; at--) {
    if (depth === 0 && (depthOf(line[at - 1]) > 0 || /( (&&|\|\||[?:=]|=>|return)|,|^) $/.test(line.slice(0, at))))
      return at;
    depth -= depthOf(line[at - 1]);
  }
  return 0;
}

function argumentsOf(text: string): string[] {
  const all: string[] = [];
  for (let at = 0; at < text.length; ) {
    let end = at;
    for (let depth = 0; end < text.length && (depth > 0 || text[end] !== ','); end++) depth += depthOf(text[end]);
    all.push(text.slice(at, end));
    at = end + 2;
  }
  return all;
}

function closing(text: string): number {
  for (let depth = 1, at = 0; at < text.length; at++) {
    if (text[at] === '(') depth++;
    else if (text[at] === ')' && --depth === 0) return at;
  }
  return text.length;
}
