/**
 * Numbers that are written into a reply as given: `1.334E7` and what no double holds. The engine can do it; its types
 * do not say so yet.
 */
const json = JSON as JSON & { rawJSON(text: string): object; isRawJSON(value: unknown): boolean };

export const raw = (text: string): object => json.rawJSON(text);
export const isRaw = (value: unknown): boolean => json.isRawJSON(value);
