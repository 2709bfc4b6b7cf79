/**
 * Hostile text for `--naughty`. Half of it is valid JSON that databases refuse (NUL, lone surrogates). The rest is valid
 * everywhere and breaks programs that parse, escape or measure text wrongly.
 */
import { pick, type Rng } from '../random.ts';

const REFUSED = [
  'before\u0000after',
  '\ud83d alone',
  'tail \udc00',
  '\u0000',
  '\udc00\ud83d turned round',
  'x\u0000\u0000',
];

const BORNE = [
  // What looks like a value
  'null',
  'undefined',
  'NaN',
  '-0',
  '1e400',
  '0x1F',
  '00012',
  '9007199254740993',
  '1/0',
  '٠١٢٣٤٥',
  'true',
  '[object Object]',
  // What looks like code
  "'; drop table tickets; --",
  `" or ""="`,
  '<script>alert(1)</script>',
  '<img src=x onerror=alert(1)>',
  '</textarea><!--',
  ']]>',
  '<%= 7*7 %>{{7*7}}#{7*7}',
  '%s%n%x %d',
  '$1 $& \\1',
  '../../../../etc/hostname\\..\\',
  '=1+1',
  '+cmd|" /C calc"!A0',
  '\\N',
  '\\u0000 written out',
  '"a""b","c',
  // What is not seen
  '\u200b',
  '\ufeff at the start',
  '\u00a0\u2003\u3000',
  'soft\u00adhyphen',
  'a\u202eesrever\u202c b',
  '\u2066isolated\u2069',
  'line\u2028and paragraph\u2029',
  '\u0001\u0007\u001b[31mred\u001b[0m\u007f\u0085',
  '\ufffe\uffff',
  'tab\tand\r\nline',
  ' ',
  // What has an odd size
  'ﷺ',
  'ẞßſıİ',
  'Z\u0351\u036b\u0343a\u0322\u0321l\u0334\u0327g\u0315o',
  'e\u0301 é',
  '👩🏽‍❤️‍💋‍👨🏿🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}',
  '𝕳𝖆𝖗𝖇𝖔𝖚𝖗 𐐔',
  'สวัสดีครับ்',
  'x'.repeat(3000),
];

export function refusedText(rng: Rng): string {
  return pick(rng, REFUSED);
}

/** Puts hostile text before, after, or instead of the text. */
export function spoil(rng: Rng, text: string | null): string {
  const place = rng();
  const naughty = rng() < 0.5 ? refusedText(rng) : pick(rng, BORNE);
  if (place < 0.4) return naughty + (text ?? '');
  return place < 0.8 ? (text ?? '') + naughty : naughty;
}

/** Puts hostile text before or after the text, never instead: unique values stay unique. */
export function spoilEdge(rng: Rng, text: string): string {
  const naughty = rng() < 0.5 ? refusedText(rng) : pick(rng, BORNE);
  return rng() < 0.5 ? naughty + text : text + naughty;
}
