/** Languages of the bookshop's customers, with their shares. */

import { type Rng, weighted } from '../random.ts';
import { namesOf } from './names.ts';
import { ENGLISH, FRENCH, GERMAN, PORTUGUESE, SPANISH } from './phrases-latin.ts';
import { ARABIC, CHINESE, HEBREW, HINDI, JAPANESE, KOREAN, RUSSIAN, THAI } from './phrases-other.ts';

/**
 * `{order}`, `{title}`, `{date}`, `{price}`, `{count}` and `{city}` stand for what differs from one sentence to the next;
 * `{name}` and `{date}` in `wrote` for who wrote what is quoted, and when.
 */
export interface Phrases {
  /** Pattern of a date, with `d` and `m`. */
  date: string;
  subjects: readonly string[];
  greetings: readonly string[];
  /** Greetings that only customers write. */
  toTheShop: readonly string[];
  closings: readonly string[];
  questions: readonly string[];
  answers: readonly string[];
  /** Further sentences of customers, and of the shop. */
  pleas: readonly string[];
  offers: readonly string[];
  wrote: string;
}

export interface Language extends Phrases {
  code: string;
  share: number;
  rtl?: true;
  firstNames: readonly string[];
  lastNames: readonly string[];
  /** Prefixes of phone numbers, before eight more digits; unique across all languages. */
  dialling: readonly [string, string, string, string];
}

function language(code: string, share: number, phrases: Phrases, dialling: Language['dialling'], rtl?: true): Language {
  return { code, share, ...phrases, ...namesOf(code), dialling, ...(rtl && { rtl }) };
}

const LANGUAGES = [
  language('en', 42, ENGLISH, ['+4474', '+4477', '+4478', '+171']),
  language('de', 14, GERMAN, ['+49151', '+49160', '+49172', '+49176']),
  language('fr', 11, FRENCH, ['+331', '+334', '+336', '+337']),
  language('es', 9, SPANISH, ['+346', '+347', '+348', '+349']),
  language('ja', 7, JAPANESE, ['+813', '+8170', '+8180', '+8190']),
  language('ar', 6, ARABIC, ['+2010', '+2011', '+2012', '+2015'], true),
  language('he', 4, HEBREW, ['+9725', '+9727', '+120', '+164'], true),
  language('ru', 4, RUSSIAN, ['+790', '+791', '+792', '+796']),
  language('hi', 3, HINDI, ['+9170', '+9188', '+9197', '+9198']),
  language('pt', 4, PORTUGUESE, ['+3512', '+3519', '+55119', '+55219']),
  language('zh', 4, CHINESE, ['+86138', '+86139', '+86150', '+86186']),
  language('ko', 3, KOREAN, ['+822', '+8210', '+8211', '+8270']),
  language('th', 2, THAI, ['+666', '+667', '+668', '+669']),
];
const SHARES = LANGUAGES.map(language => [language, language.share] as const);

export function pickLanguage(rng: Rng): Language {
  return weighted(rng, SHARES);
}
