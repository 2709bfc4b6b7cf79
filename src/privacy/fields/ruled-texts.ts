/** Field rules on stored JSON texts. Pure. */

import type { Column } from '../../engine/commit/merge.ts';
import { parseEachDigit, parseJson } from '../../engine/exact-json.ts';
import { fieldsOf, objectOf } from '../../engine/json-text.ts';
import { applyRules, concernsKind, type FieldRules, isRuled, kindOf } from './field-rules.ts';

/** A record as the rules want it. A record that is nested too deep for the rules keeps only the fields that it needs. */
export function ruledRecord(of: FieldRules, kind: string, text: string): string {
  try {
    return applyRules(of, kind, text);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const { needed } = kindOf(of, kind);
    return objectOf([...fieldsOf(text)].filter(([name]) => needed.includes(name)));
  }
}

/** Like `ruledRecord`, for a text that may not be JSON. Undefined: the text cannot be checked. */
export function ruledText(of: FieldRules, kind: string, text: string): string | undefined {
  if (!concernsKind(of, kind)) return text;
  try {
    parseJson(text);
    return applyRules(of, kind, text);
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
    throw error;
  }
}

/** True if two JSON texts say the same: PostgreSQL writes other spaces. Texts that are nested too deep count as different. */
export function same(one: string, other: string): boolean {
  if (one === other) return true;
  try {
    return JSON.stringify(parseEachDigit(one)) === JSON.stringify(parseEachDigit(other));
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

export const readsRecord = ({ sql }: Column): boolean => sql.includes('record');
/** True if the SQL of a column reads a parameter of the merge. */
export const isDerived = ({ sql }: Column): boolean => /\$\d/.test(sql);

/** True if a rule concerns a field in the SQL of a column. */
export const readsRuled = (of: FieldRules, kind: string, { sql }: Column): boolean =>
  [...sql.matchAll(/'([A-Za-z_]+)'/g)].some(([, field]) => isRuled(of, kind, field!));
