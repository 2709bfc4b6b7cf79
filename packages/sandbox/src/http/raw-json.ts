/**
 * Numbers that keep their spelling in JSON, such as `1.334E7` and numbers beyond doubles. The runtime has `rawJSON`; the
 * type definitions lack it.
 */
const json = JSON as JSON & { rawJSON(text: string): object; isRawJSON(value: unknown): boolean };

export const raw = (text: string): object => json.rawJSON(text);
export const isRaw = (value: unknown): boolean => json.isRawJSON(value);
