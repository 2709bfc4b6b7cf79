/** The features that field rules disable or weaken. Pure. */
import { type FieldRule, type FieldRules, rulesFor } from '../../engine/http/rules/field-rules.ts';
import { matches } from '../../engine/http/rules/foreign-values.ts';

/** The rules without repetitions, in any spelling. */
export const rulesIn = (of: FieldRules | undefined): FieldRule[] =>
  [...new Map(of?.rules.toReversed().map(rule => [rule.full, rule])).values()].reverse();

/** `search of messages`, `question labels`: as the kind declares it for each field that the rule names. */
export function lostBy(of: FieldRules | undefined, fullRule: string): string[] {
  const rule = of?.rules.find(({ full }) => full === fullRule);
  if (!of || !rule) return [];
  const only = { kinds: of.kinds, rules: [rule] };
  const lost = Object.entries(of.kinds).flatMap(([kind, { uses = {} }]) =>
    rulesFor(only, kind).length === 0
      ? []
      : Object.entries(uses).flatMap(([field, what]) => (matches(rule.path[0]!, field) ? what : [])),
  );
  return [...new Set(lost)];
}
