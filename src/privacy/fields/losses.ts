/** What field rules cost: what works no more, or with less, without a field. Pure. */
import { type FieldRules, matches, rulesFor } from '../../engine/http/field-rules.ts';

/** As the operator wrote them, each once. */
export const rulesIn = (of: FieldRules | undefined): string[] => [...new Set(of?.rules.map(({ written }) => written))];

/** `search of messages`, `question labels`: as the kind declares it for each field that the rule names. */
export function lostBy(of: FieldRules | undefined, written: string): string[] {
  const rule = of?.rules.find(one => one.written === written);
  if (!of || !rule) return [];
  const only = { kinds: of.kinds, rules: [rule] };
  const lost = Object.entries(of.kinds).flatMap(([kind, { uses = {} }]) =>
    rulesFor(only, kind).length === 0
      ? []
      : Object.entries(uses).flatMap(([field, what]) => (matches(rule.path[0]!, field) ? what : [])),
  );
  return [...new Set(lost)];
}
