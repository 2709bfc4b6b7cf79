/** Names of constants in a draft: each one once, and none that the language or an import has. */
import { makers } from './draft.ts';

const taken =
  'arguments await break case catch class const continue debugger default delete do else enum eval export extends false finally for function if implements import in instanceof interface let new null package private protected public return static super switch this throw true try typeof undefined var void while with yield'.split(
    ' ',
  );

/** Makes of any text the name of a constant that is not in use yet: `line items` → `lineItems`. */
export function namesOnce(): (text: string) => string {
  const used = new Set([...taken, ...makers]);
  return text => {
    const words = text.split(/[^A-Za-z0-9]+/).filter(word => word !== '');
    const joined = words.map(
      (word, i) => (i === 0 ? word.charAt(0).toLowerCase() : word.charAt(0).toUpperCase()) + word.slice(1),
    );
    const name = joined.join('').replace(/^(?=\d|$)/, 'n');
    let free = name;
    for (let n = 2; used.has(free); n++) free = name + n;
    used.add(free);
    return free;
  };
}
