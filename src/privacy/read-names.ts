/**
 * Reads the names in statements by PostgreSQL's own parser. A thread of its own, because the parser gives back no memory after a
 * statement that is nested too deeply.
 */
import { type MessagePort, parentPort } from 'node:worker_threads';
import { loadModule, parseSync } from 'libpg-query';
import type { Named, Names } from './judge.ts';

type Node = Readonly<Record<string, unknown>>;

/** Statements that run code outside of the syntax tree, or send messages to other sessions. */
const acting: Readonly<Record<string, string>> = { DoStmt: 'DO', CallStmt: 'CALL', NotifyStmt: 'NOTIFY' };

function namesIn(tree: unknown): Names {
  const names: Names = { acts: [], named: [] };
  const left: unknown[] = [tree];
  for (let node = left.pop(); node !== undefined; node = left.pop()) {
    if (typeof node !== 'object' || node === null) continue;
    for (const [kind, value] of Object.entries(node)) {
      if (kind in acting) names.acts.push(acting[kind]!);
      left.push(value);
    }
    names.named.push(...namedIn(node as Node));
  }
  return names;
}

/** The names in a node of the syntax tree itself. The names of its fields show its kind. */
function namedIn(node: Node): Named[] {
  const { funcname, names, relname, schemaname, fields, indirection, name, operName, useOp } = node;
  const named: Named[] = [];
  // A call with the name of a type is a cast.
  if (Array.isArray(funcname)) named.push(qualified('function', funcname), qualified('type', funcname));
  if (Array.isArray(names)) named.push(qualified('type', names));
  if (typeof relname === 'string')
    named.push({ kind: 'relation', schema: (schemaname as string | undefined) ?? null, name: relname });
  // `t.f` may be the call f(t).
  for (const part of [fields, indirection].flatMap(textsOf)) named.push({ kind: 'field', schema: null, name: part });
  for (const operator of [name, operName, useOp])
    if (Array.isArray(operator)) named.push(qualified('operator', operator));
  return named;
}

function qualified(kind: Named['kind'], parts: unknown): Named {
  const texts = textsOf(parts);
  return { kind, schema: texts.at(-2) ?? null, name: texts.at(-1) ?? '' };
}

const textsOf = (parts: unknown): string[] =>
  (Array.isArray(parts) ? (parts as { String?: { sval?: string } }[]) : []).flatMap(
    ({ String: one }) => one?.sval ?? [],
  );

await loadModule();
parentPort!.on('message', ({ sql, port }: { sql?: string; port: MessagePort }) => {
  if (sql === undefined) {
    parentPort!.close();
    return;
  }
  try {
    // The parser takes no empty text.
    port.postMessage(sql.trim() === '' ? { acts: [], named: [] } : namesIn(parseSync(sql)));
  } catch (error) {
    const isWrong = error instanceof Error && 'sqlDetails' in error;
    // Any other error leaves memory behind: this thread has to end soon.
    port.postMessage(isWrong ? { wrong: error.message } : { wrong: 'it is nested too deeply', isSpent: true });
  }
});
