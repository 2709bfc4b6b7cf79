/**
 * What people write to a bookshop: subjects, mails and answers, as plain text and as HTML, with the conversation quoted
 * below them as deep as it went, signatures, emoji, and now and then a log of a hundred kilobytes.
 */
import type { Language } from './languages.ts';
import { between, pick, type Rng } from './random.ts';

/** Joined by invisible characters: a family, a skin tone, two flags, a rainbow flag, a heart with its variation. */
const EMOJI = ['👩‍👩‍👧‍👦', '👍🏽', '🇳🇴🇯🇵', '🏳️‍🌈', '❤️‍🩹', '📚', '🧑🏿‍💻', '🙏'];

const AUTOMATIC = [
  'Thank you, your message has arrived. We answer within one working day.\n\nThis is an automatic reply.',
  'We are closed until Monday 9:00. Urgent matters about deliveries: reply with the word URGENT.',
];

const NOTES = [
  'Called the carrier, the parcel is in Rotterdam.',
  'Third complaint about this title, tell purchasing?',
  'Refunded 23.90 by hand. cc @Ines',
  'VIP, please be quick 🙏',
  'Customer phoned as well, same topic.\n- wants a call back\n- after 16:00',
  '',
];

const SPAM = ['You have WON!!! Claim now 💰💰💰', 'cheap SEO for your shop', 'RE: invoice_8831 overdue (urgent)', ''];

/** Some people paste a whole file into a mail: up to 120 KB. */
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
];

const SIGNATURES = [
  '--\n📖 "So many books" | www.reading.example\n🇬🇧🇫🇷',
  '--\nSent from my phone',
  '--\nHarbour Lane Books\n12 Harbour Lane',
  '-- \nDr. M. Whitfield\n+44 20 7946 0018',
];

export function subject(rng: Rng, language: Language): string | null {
  const chance = rng();
  if (chance < 0.015) return null;
  if (chance < 0.025) return '';
  const plain = composed(rng, pick(rng, language.subjects));
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
  return pick(rng, NOTES);
}

export function automaticText(rng: Rng): string {
  return pick(rng, AUTOMATIC);
}

export function signature(rng: Rng): string | null {
  return rng() < 0.3 ? pick(rng, SIGNATURES) : null;
}

/** What is longer nobody quotes. */
const LONGEST_QUOTE = 20_000;

export interface Written {
  body: string | null;
  htmlized: boolean;
}

/** What a customer ('in') or somebody of the shop ('out') writes; mail quotes what it answers. */
export function letter(
  rng: Rng,
  language: Language,
  side: 'in' | 'out',
  name: string,
  answered: Written | null,
): Written {
  const chance = rng();
  if (chance > 0.999) return { body: pastedLog(rng), htmlized: false };
  if (chance < 0.01) return { body: chance < 0.004 ? null : '', htmlized: false };
  if (chance < 0.05) return { body: pick(rng, EMOJI) + pick(rng, EMOJI), htmlized: false };
  const sentences = side === 'in' ? language.questions : language.answers;
  const paragraphs = [pick(rng, sentences), ...(rng() < 0.5 ? [pick(rng, sentences)] : [])].map(one =>
    composed(rng, one),
  );
  return rng() < 0.55
    ? { body: html(language, paragraphs, name, answered), htmlized: true }
    : { body: plain(language, paragraphs, name, rng() < 0.4 ? answered : null), htmlized: false };
}

/** A sentence with everything that differs from one letter to the next. */
function composed(rng: Rng, sentence: string): string {
  if (!sentence.includes('{')) return sentence;
  return sentence.replaceAll(/\{(\w+)\}/g, (_, what) => {
    switch (what) {
      case 'order':
        return `HL-${between(rng, 10_000, 99_999)}`;
      case 'title':
        return pick(rng, TITLES);
      case 'price':
        return pick(rng, ['£', '€', '¥', 'CHF ']) + (between(rng, 400, 9000) / 100).toFixed(2);
      case 'count':
        return String(between(rng, 2, 30));
      default:
        return `${between(rng, 1, 28)}.${between(rng, 1, 12)}.`;
    }
  });
}

function pastedLog(rng: Rng): string {
  let log = 'Here is what it says:\n\n';
  const end = between(rng, 30_000, 120_000);
  for (let second = 0; log.length < end; second++) {
    const time = new Date(second * 1000).toISOString().slice(11, 19);
    log += `2024-03-09 ${time} ${pick(rng, LOG_LINES)}\n`;
  }
  return log;
}

/** Above what is answered, each line of it behind `> `; after some rounds it is `> > > `. */
function plain(language: Language, paragraphs: string[], name: string, answered: Written | null): string {
  const text = [language.greeting, ...paragraphs, `${language.closing}\n${name}`].join('\n\n');
  if (!answered?.body || answered.htmlized || answered.body.length > LONGEST_QUOTE) return text;
  return `${text}\n\n> ${answered.body.replaceAll('\n', '\n> ')}`;
}

function html(language: Language, paragraphs: string[], name: string, answered: Written | null): string {
  let text = language.rtl ? '<div dir="rtl">' : '<div dir="ltr">';
  for (const paragraph of [language.greeting, ...paragraphs]) text += asHtml(paragraph);
  text += asHtml(language.closing) + asHtml(name);
  if (!answered?.body || answered.body.length > LONGEST_QUOTE) return `${text}</div>`;
  const quoted = answered.htmlized ? answered.body : `<pre>${escaped(answered.body)}</pre>`;
  return `${text}</div><blockquote type="cite" style="border-left:2px solid #ccc">${quoted}</blockquote>`;
}

/** The same few hundred sentences and names again and again: each is made once. */
const made = new Map<string, string>();

function asHtml(sentence: string): string {
  const html = made.get(sentence) ?? `<p>${escaped(sentence)}</p>`;
  if (made.size < 10_000) made.set(sentence, html);
  return html;
}

function escaped(text: string): string {
  if (!/[&<>]/.test(text)) return text;
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
