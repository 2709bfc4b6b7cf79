/**
 * What people write to a bookshop: subjects, mails and answers in several languages and scripts, as plain text and as
 * HTML with the conversation quoted below it. Sentences are constants and are joined with `+`, so that the many bodies
 * of a large world share their text in memory until somebody reads them.
 */
import { between, pick, type Rng, weighted } from './random.ts';

export interface Language {
  code: string;
  share: number;
  rtl?: true;
  firstNames: readonly string[];
  lastNames: readonly string[];
  subjects: readonly string[];
  greeting: string;
  closing: string;
  questions: readonly string[];
  answers: readonly string[];
}

const ENGLISH: Language = {
  code: 'en',
  share: 42,
  firstNames: ['Olivia', 'Noah', 'Amelia', 'George', 'Priya', 'Siobhán', 'Kwame', 'Zoë', 'J.', "D'Arcy"],
  lastNames: ['Whitfield', 'O’Connell', 'Adeyemi', 'Smith-Jones', 'Patel', 'Macdonald', 'van der Berg', 'Li'],
  subjects: [
    'Where is my order?',
    'Damaged copy of "The Lighthouse Keeper"',
    'Refund for a double charge',
    'Audiobook will not download',
    'Signed edition - is it still available?',
    'Change of delivery address',
    'Wrong ISBN on the invoice',
    'Book club discount for 12 copies',
  ],
  greeting: 'Hello,',
  closing: 'Best wishes,',
  questions: [
    'I ordered two paperbacks three weeks ago and the tracking page has not moved since.',
    'The parcel arrived today, but the cover is torn and several pages are stuck together.',
    'My card was charged twice for the same order; could you check please?',
    'The e-book opens, but chapter 7 is missing & the index points to the wrong pages.',
    'Is there a chance to get the hardback before the 24th? It is a birthday present 🎁.',
    'I moved last month, so please send it to the new address below.',
  ],
  answers: [
    'Thank you for writing to us. I have asked the carrier and will come back to you by tomorrow.',
    'I am sorry about that. A new copy leaves our warehouse today, no need to send the old one back.',
    'The second charge was a reservation only; your bank releases it within five working days.',
    'Could you tell us the number of your order? It starts with HL and stands on the invoice.',
    'Good news: it is back in stock and reserved for you until Friday.',
  ],
};

const GERMAN: Language = {
  code: 'de',
  share: 14,
  firstNames: ['Jürgen', 'Käthe', 'Lena', 'Björn', 'Anneliese', 'Mehmet'],
  lastNames: ['Müller', 'Weiß', 'von Brühl', 'Yıldız', 'Öztürk-Groß', 'Schäfer'],
  subjects: [
    'Bestellung nicht angekommen',
    'Rückgabe: „Die Straße nach Süden“',
    'Rechnung fehlt',
    'Gutschein ungültig?',
  ],
  greeting: 'Guten Tag,',
  closing: 'Mit freundlichen Grüßen',
  questions: [
    'meine Bestellung vom vorletzten Montag ist bis heute nicht angekommen.',
    'das Buch hat Wasserflecken, ich würde es gern zurückschicken und umtauschen.',
    'der Gutschein über 25 € wird an der Kasse nicht angenommen – woran kann das liegen?',
  ],
  answers: [
    'vielen Dank für Ihre Nachricht. Wir haben die Sendung heute noch einmal auf den Weg gebracht.',
    'das tut uns leid! Den Rücksendeschein finden Sie im Anhang.',
    'die Rechnung liegt jetzt in Ihrem Kundenkonto unter „Meine Bestellungen“.',
  ],
};

const FRENCH: Language = {
  code: 'fr',
  share: 11,
  firstNames: ['Éloïse', 'François', 'Anaïs', 'Jérôme', 'Maëlys'],
  lastNames: ["L'Hôpital", 'Lefèvre', 'Nguyễn', 'Garçon', 'Benoît'],
  subjects: ['Commande en retard', "Livre abîmé à l'arrivée", 'Question sur ma facture', 'Édition épuisée ?'],
  greeting: 'Bonjour,',
  closing: 'Bien cordialement,',
  questions: [
    "Ma commande devait arriver avant Noël et je n'ai toujours aucune nouvelle.",
    "J'ai reçu le mauvais tome : le n° 3 au lieu du n° 2.",
    "Pourriez-vous m'envoyer la facture au nom de l'école ?",
  ],
  answers: [
    "Merci de votre message. Le colis est parti hier et devrait vous parvenir d'ici deux jours.",
    'Nous sommes désolés ; le bon tome vous sera envoyé sans frais.',
  ],
};

const SPANISH: Language = {
  code: 'es',
  share: 9,
  firstNames: ['Íñigo', 'María José', 'Nuño', 'Lucía'],
  lastNames: ['Peña', 'García Núñez', 'Ibáñez', 'Quiroga'],
  subjects: ['¿Dónde está mi pedido?', 'Devolución del libro', 'No puedo descargar el audiolibro'],
  greeting: 'Buenos días:',
  closing: 'Un saludo,',
  questions: [
    'Hice un pedido hace diez días y todavía no ha llegado.',
    '¿Podrían cambiarme el libro? Vino con páginas en blanco.',
  ],
  answers: [
    'Gracias por escribirnos. Hoy mismo lo reclamamos a la mensajería.',
    'Claro que sí: le enviamos otro ejemplar mañana.',
  ],
};

const JAPANESE: Language = {
  code: 'ja',
  share: 7,
  firstNames: ['さくら', '太郎', '美咲', 'ユキ'],
  lastNames: ['髙橋', '渡邊', '小林', '𠮷田'],
  subjects: ['注文した本が届きません', '領収書の発行について', '返品のお願い📦'],
  greeting: 'お世話になっております。',
  closing: 'よろしくお願いいたします。',
  questions: [
    '先週注文した文庫本がまだ届いていません。配送状況を教えていただけますか。',
    '届いた本の帯が破れていました。交換は可能でしょうか。',
  ],
  answers: [
    'お問い合わせありがとうございます。本日中に確認してご連絡いたします。',
    'ご迷惑をおかけし申し訳ございません。新しい商品をお送りします。',
  ],
};

const ARABIC: Language = {
  code: 'ar',
  share: 6,
  rtl: true,
  firstNames: ['فاطمة', 'يوسف', 'ليلى', 'عبد الرحمن'],
  lastNames: ['الخطيب', 'حدّاد', 'المصري', 'بن سعيد'],
  subjects: ['أين طلبي رقم 4471؟', 'استرجاع كتاب', 'سؤال عن الفاتورة (PDF)'],
  greeting: 'السلام عليكم،',
  closing: 'مع خالص التحية،',
  questions: ['طلبت كتابين منذ أسبوعين ولم يصلا حتى الآن.', 'وصل الكتاب وغلافه ممزق، هل يمكن استبداله؟'],
  answers: ['شكرًا لتواصلكم معنا، سنراجع الطلب ونعود إليكم غدًا.', 'نعتذر عن ذلك، أرسلنا نسخة جديدة اليوم.'],
};

const HEBREW: Language = {
  code: 'he',
  share: 4,
  rtl: true,
  firstNames: ['נועה', 'איתן', 'שִׁירָה'],
  lastNames: ['כהן', 'בן־דוד', 'לוי'],
  subjects: ['ההזמנה לא הגיעה', 'החזר כספי', 'שאלה על ספר אזל מהמלאי'],
  greeting: 'שלום רב,',
  closing: 'בברכה,',
  questions: ['הזמנתי ספר לפני שבועיים והוא עדיין לא הגיע.', 'קיבלתי עותק פגום, אפשר להחליף?'],
  answers: ['תודה על פנייתך, אנחנו בודקים ונחזור אליך מחר.', 'עותק חדש יישלח אליך היום ללא תשלום.'],
};

const RUSSIAN: Language = {
  code: 'ru',
  share: 4,
  firstNames: ['Алёна', 'Дмитрий', 'Софья'],
  lastNames: ['Щербакова', 'Йылмаз', 'Соловьёв'],
  subjects: ['Где мой заказ?', 'Возврат книги', 'Ошибка при оплате'],
  greeting: 'Здравствуйте!',
  closing: 'С уважением,',
  questions: [
    'Заказ оформлен десять дней назад, но посылка так и не пришла.',
    'Деньги списали дважды, проверьте, пожалуйста.',
  ],
  answers: [
    'Спасибо за письмо. Мы уточним у службы доставки и ответим завтра.',
    'Вторая сумма вернётся на карту в течение трёх дней.',
  ],
};

const HINDI: Language = {
  code: 'hi',
  share: 3,
  firstNames: ['अनन्या', 'विक्रम', 'ज्योत्स्ना'],
  lastNames: ['शर्मा', 'कुलकर्णी', 'अय्यर'],
  subjects: ['मेरा ऑर्डर कहाँ है?', 'किताब वापस करनी है'],
  greeting: 'नमस्ते,',
  closing: 'धन्यवाद,',
  questions: ['मैंने दो हफ़्ते पहले किताब मँगाई थी, अब तक नहीं आई।', 'किताब के कुछ पन्ने फटे हुए हैं।'],
  answers: ['संपर्क करने के लिए धन्यवाद, हम जाँच कर रहे हैं।', 'नई प्रति आज भेज दी गई है।'],
};

const LANGUAGES = [ENGLISH, GERMAN, FRENCH, SPANISH, JAPANESE, ARABIC, HEBREW, RUSSIAN, HINDI];
const SHARES = LANGUAGES.map(language => [language, language.share] as const);

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

/** Some people paste a whole file into a mail: 120 KB. */
const PASTED = '2024-03-09 11:02:44 reader[812] WARN shelf 17 answered late, 3 retries, giving up <timeout>\n'.repeat(
  1300,
);

const SIGNATURES = [
  '--\nSent from my phone',
  '--\nHarbour Lane Books\n12 Harbour Lane',
  '-- \nDr. M. Whitfield\n+44 20 7946 0018',
];

export function pickLanguage(rng: Rng): Language {
  return weighted(rng, SHARES);
}

export function subject(rng: Rng, language: Language): string | null {
  const chance = rng();
  if (chance < 0.015) return null;
  if (chance < 0.025) return '';
  const plain = pick(rng, language.subjects);
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
  if (chance > 0.999) return { body: PASTED, htmlized: false };
  if (chance < 0.01) return { body: chance < 0.004 ? null : '', htmlized: false };
  if (chance < 0.05) return { body: pick(rng, EMOJI) + pick(rng, EMOJI), htmlized: false };
  const sentences = side === 'in' ? language.questions : language.answers;
  const paragraphs = [pick(rng, sentences), ...(rng() < 0.5 ? [pick(rng, sentences)] : [])];
  return rng() < 0.55
    ? { body: html(language, paragraphs, name, answered), htmlized: true }
    : { body: plain(language, paragraphs, name), htmlized: false };
}

function plain(language: Language, paragraphs: string[], name: string): string {
  let text = language.greeting;
  for (const paragraph of paragraphs) text += `\n\n${paragraph}`;
  return `${text}\n\n${language.closing}\n${name}`;
}

function html(language: Language, paragraphs: string[], name: string, answered: Written | null): string {
  let text = language.rtl ? '<div dir="rtl">' : '<div dir="ltr">';
  for (const paragraph of [language.greeting, ...paragraphs]) text += asHtml(paragraph);
  text += asHtml(language.closing) + asHtml(name);
  if (!answered?.body || answered.body.length > 50_000) return `${text}</div>`;
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
