/**
 * Messages between customers and the bookshop: subjects, mails and answers, as plain text and HTML, with nested quotes,
 * signatures, emoji, and sometimes a log of a hundred kilobytes.
 */

import { between, pick, type Rng } from '../random.ts';
import type { Language } from './languages.ts';

/** Emoji of several code points: family, skin tone, two flags, rainbow flag, heart with variation selector. */
const EMOJI = ['👩‍👩‍👧‍👦', '👍🏽', '🇳🇴🇯🇵', '🏳️‍🌈', '❤️‍🩹', '📚', '🧑🏿‍💻', '🙏'];

const AUTOMATIC = [
  'Thank you, your message of {date} has arrived as {order}. We answer within one working day.\n\nThis is an automatic reply.',
  'We are closed until Monday 9:00. Urgent matters about deliveries: reply with the word URGENT and the number {order}.',
  'It is night at Harbour Lane. {count} letters lie before yours; you will hear from us by {date}.\n\n(Sent without human hands.)',
  'Your case {order} has been opened. Please keep this number in the subject when you write again.',
  'Our shop in {city} is at the book fair until {date}, so answers take a little longer. Your number: {order}.',
];

const NOTES = [
  'Called the carrier, the parcel {order} is in {city}.',
  'Third complaint about {title}, tell purchasing?',
  'Refunded {price} by hand. cc @Ines',
  'VIP, please be quick with {order} 🙏',
  'Customer phoned as well, same topic ({order}).\n- wants a call back\n- after {count} past 16:00',
  'Replacement for {title} goes out on {date}.',
  'Waiting for the publisher, they promised {count} copies for {date}.',
  'Paid {price} by bank transfer on {date}, please match with {order}.',
  'Address in {city} corrected for {order}, old label binned.',
  'Voucher over {price} given, valid until {date}.',
  'Asked the warehouse to look behind the shelf: {order}, {count} books.',
  'Do not close before {date}, @Tom is on it.',
  'Same as {order}, answered there.',
  'The photo shows the {city} print run of {title}, known fault on page {count}.',
  'No answer on the phone, tried {count} times. Next try on {date}.',
  'Checked: charged {price} once, the other one is a reservation.',
];

const MORE_NOTES = [
  'Please check again on {date}.',
  'See also {order}.',
  'It is about {price}.',
  'Told them {count} days at most.',
  'Writes from {city}, so no courier on Fridays.',
];

const SPAM = ['You have WON!!! Claim now 💰💰💰', 'cheap SEO for your shop', 'RE: invoice_8831 overdue (urgent)', ''];

/** Lines of the log files that some customers paste into a mail: 60 to 120 KB. */
const LOG_LINES = [
  'reader[812] WARN shelf 17 answered late, 3 retries, giving up <timeout>',
  'reader[812] INFO opened "/books/lighthouse.epub" in 412 ms',
  'sync[40] ERROR {"code":500,"path":"C:\\\\Users\\\\me\\\\Library","message":"disk & network"}',
];

const TITLES = [
  'The Lighthouse Keeper',
  'Die Straße nach Süden',
  'Le Quai des brumes & autres',
  '海辺の本屋',
  'Nº 17',
  'מגדלור',
  'Winter in Porto Velho',
  'Das dritte Zimmer',
  'La casa de las llaves',
  'Книга приливов',
  '雨の日の図書館',
  'Kleine Geschichte der Knöpfe',
  'Un été sans horloge',
  'Seven Loaves',
];
const THINGS = words(
  'Clockmaker Orchard Ferry Cartographer Staircase Beekeeper Harbour Winter Piano Lantern Glassblower',
);
const OTHERS = words('Salt Rain Kestrels Brass Silence Letters Snow Tides Marble Thorns Foxes Amber Thunder Ink');
const CITIES = words(
  'Rotterdam Bristol Leeds Hamburg Lyon Porto Sevilla Osaka Gdańsk Cork Antwerp Haifa Busan Pune Turin',
);

const SIGNATURES = [
  '--\n📖 "So many books" | www.reading.example\n🇬🇧🇫🇷',
  '--\nSent from my phone',
  '--\nHarbour Lane Books\n12 Harbour Lane',
  '-- \nDr. M. Whitfield\n+44 20 7946 0018',
  '-- \nReading Circle {city} | {count} readers, {count} opinions',
  '-- \nNow reading: {title}',
  '--\nSent from a train somewhere near {city}',
];

type Dates = Pick<Language, 'date'>;

/** Date format of automatic replies and notes of the shop. */
const SHOP: Dates = { date: 'd/m' };

function words(text: string): string[] {
  return text.split(' ');
}

export function subject(rng: Rng, language: Language): string | null {
  const chance = rng();
  if (chance < 0.015) return null;
  if (chance < 0.025) return '';
  const plain = composed(rng, language, pick(rng, language.subjects));
  if (chance < 0.16) return `Re: ${plain}`;
  if (chance < 0.2) return `Fwd: AW: ${plain}`;
  if (chance < 0.25) return `${plain} ${pick(rng, EMOJI)}`;
  if (chance < 0.5) return `[HL-${between(rng, 10_000, 99_999)}] ${plain}`;
  return plain;
}

export function spamSubject(rng: Rng): string {
  return pick(rng, SPAM);
}

export function noteText(rng: Rng): string {
  if (rng() < 0.004) return '';
  const note = composed(rng, SHOP, pick(rng, NOTES));
  return rng() < 0.5 ? `${note} ${composed(rng, SHOP, pick(rng, MORE_NOTES))}` : note;
}

export function automaticText(rng: Rng): string {
  return composed(rng, SHOP, pick(rng, AUTOMATIC));
}

export function signature(rng: Rng, language: Language): string | null {
  return rng() < 0.3 ? composed(rng, language, pick(rng, SIGNATURES)) : null;
}

/** Longest text that a reply quotes, in characters. */
const LONGEST_QUOTE = 20_000;

export interface Written {
  body: string | null;
  htmlized: boolean;
}

/** A message that a reply answers and may quote. */
export interface Answered extends Written {
  from_name: string | null;
  created_at: string;
}

/** A message of a customer ('in') or of the shop ('out'); mail quotes the answered message. */
export function letter(
  rng: Rng,
  language: Language,
  side: 'in' | 'out',
  name: string,
  answered: Answered | null,
): Written {
  const chance = rng();
  if (chance > 0.999) return { body: pastedLog(rng), htmlized: false };
  if (chance < 0.005) return { body: chance < 0.002 ? null : '', htmlized: false };
  if (chance < 0.02) return { body: pick(rng, EMOJI) + pick(rng, EMOJI), htmlized: false };
  const [sentences, others] =
    side === 'in' ? [language.questions, language.pleas] : [language.answers, language.offers];
  const chosen = [...someOf(rng, sentences, rng() < 0.45 ? 2 : 1), ...someOf(rng, others, rng() < 0.5 ? 1 : 0)];
  const told = chosen.map(one => composed(rng, language, one));
  const paragraphs = told.map((one, at) => (at === 0 ? one : one.charAt(0).toUpperCase() + one.slice(1)));
  const greeting = pick(rng, side === 'in' && rng() < 0.25 ? language.toTheShop : language.greetings);
  const parts = [greeting, ...paragraphs];
  const end = [pick(rng, language.closings), name];
  return rng() < 0.55
    ? { body: html(language, [...parts, ...end], answered), htmlized: true }
    : { body: plain(language, [...parts, end.join('\n')], rng() < 0.6 ? answered : null), htmlized: false };
}

/** `count` random items without repetition. */
function someOf<T>(rng: Rng, items: readonly T[], count: number): T[] {
  const first = between(rng, 0, items.length - 1);
  if (count < 2) return count === 1 ? [items[first]!] : [];
  return [items[first]!, items[(first + between(rng, 1, items.length - 1)) % items.length]!];
}

/** The sentence with its placeholders filled. */
function composed(rng: Rng, dates: Dates, sentence: string): string {
  if (!sentence.includes('{')) return sentence;
  return sentence.replaceAll(/\{(\w+)\}/g, (_, what) => {
    switch (what) {
      case 'order':
        return `HL-${between(rng, 10_000, 99_999)}`;
      case 'title':
        return rng() < 0.5 ? pick(rng, TITLES) : `The ${pick(rng, THINGS)} of ${pick(rng, OTHERS)}`;
      case 'price':
        return priceOf(between(rng, 400, 9000), pick(rng, ['£', '€', '¥', 'CHF ']));
      case 'count':
        return String(between(rng, 2, 30));
      case 'city':
        return pick(rng, CITIES);
      default:
        return dateIn(dates, between(rng, 1, 12), between(rng, 1, 28));
    }
  });
}

function priceOf(cents: number, currency: string): string {
  return currency + (currency === '¥' ? cents : (cents / 100).toFixed(2));
}

function dateIn({ date }: Dates, month: number, day: number): string {
  return date.replace('m', String(month)).replace('d', String(day));
}

function pastedLog(rng: Rng): string {
  let log = 'Here is what it says:\n\n';
  const end = between(rng, 60_000, 120_000);
  for (let second = 0; log.length < end; second++) {
    const time = new Date(second * 1000).toISOString().slice(11, 19);
    log += `2024-03-09 ${time} ${pick(rng, LOG_LINES)}\n`;
  }
  return log;
}

/** Plain text above the quoted message; each round adds `> ` to the quoted lines. */
function plain(language: Language, parts: readonly string[], answered: Answered | null): string {
  const text = parts.join('\n\n');
  if (!answered || !isQuoted(answered)) return text;
  const quoted = answered.htmlized ? withoutTags(answered.body) : answered.body;
  return `${text}\n\n${attribution(language, answered)}\n> ${quoted.replaceAll('\n', '\n> ')}`;
}

function html(language: Language, parts: readonly string[], answered: Answered | null): string {
  let text = language.rtl ? '<div dir="rtl">' : '<div dir="ltr">';
  for (const part of parts) text += `<p>${escaped(part)}</p>`;
  if (!answered || !isQuoted(answered)) return `${text}</div>`;
  const quoted = answered.htmlized ? answered.body : `<pre>${escaped(answered.body)}</pre>`;
  text += `</div><p>${escaped(attribution(language, answered))}</p>`;
  return `${text}<blockquote type="cite" style="border-left:2px solid #ccc">${quoted}</blockquote>`;
}

function isQuoted(answered: Answered): answered is Answered & { body: string } {
  return answered.body !== null && answered.body !== '' && answered.body.length <= LONGEST_QUOTE;
}

function attribution(language: Language, { from_name, created_at }: Answered): string {
  const date = dateIn(language, Number(created_at.slice(5, 7)), Number(created_at.slice(8, 10)));
  return language.wrote.replace('{date}', date).replace('{name}', () => from_name ?? '?');
}

const ENTITIES: Readonly<Record<string, string>> = { '&amp;': '&', '&lt;': '<', '&gt;': '>' };

/** Text of an HTML message without tags and without its quote. */
function withoutTags(html: string): string {
  const latest = html
    .split('</div>', 1)[0]!
    .replaceAll('</p>', '\n\n')
    .replaceAll(/<[^>]*>/g, '');
  return latest.trim().replaceAll(/&(?:amp|lt|gt);/g, entity => ENTITIES[entity]!);
}

function escaped(text: string): string {
  if (!/[&<>]/.test(text)) return text;
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
