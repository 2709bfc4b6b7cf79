/**
 * The languages in which people write to a bookshop, the larger the share the more of them. `{order}`, `{title}`, `{date}`,
 * `{price}` and `{count}` stand for what differs from one sentence to the next.
 */
import { type Rng, weighted } from './random.ts';

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
    'Order {order}: {count} books, one missing',
    '{title} - a question',
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
    'On {date} I paid {price} for {title}, and I have not heard from you since.',
    'There were {count} books in order {order}, but only one in the parcel.',
    'It says "{title}" on the cover and something else inside. See the photo.',
    'I ordered two paperbacks three weeks ago and the tracking page has not moved since.',
    'The parcel arrived today, but the cover is torn and several pages are stuck together.',
    'My card was charged twice for the same order; could you check please?',
    'The e-book opens, but chapter 7 is missing & the index points to the wrong pages.',
    'Is there a chance to get the hardback before the 24th? It is a birthday present 🎁.',
    'I moved last month, so please send it to the new address below.',
  ],
  answers: [
    'Order {order} left us on {date}; the carrier says it is in your town.',
    'We have sent {price} back to your card. It takes three to five days.',
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
    'Bestellung {order}: {count} Bücher, eines fehlt',
    'Bestellung nicht angekommen',
    'Rückgabe: „Die Straße nach Süden“',
    'Rechnung fehlt',
    'Gutschein ungültig?',
  ],
  greeting: 'Guten Tag,',
  closing: 'Mit freundlichen Grüßen',
  questions: [
    'am {date} habe ich „{title}“ bestellt und {price} bezahlt; seitdem höre ich nichts.',
    'meine Bestellung vom vorletzten Montag ist bis heute nicht angekommen.',
    'das Buch hat Wasserflecken, ich würde es gern zurückschicken und umtauschen.',
    'der Gutschein über 25 € wird an der Kasse nicht angenommen – woran kann das liegen?',
  ],
  answers: [
    'Bestellung {order} hat unser Haus am {date} verlassen.',
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
    'le {date}, j’ai payé {price} pour « {title} », et rien n’est arrivé.',
    "Ma commande devait arriver avant Noël et je n'ai toujours aucune nouvelle.",
    "J'ai reçu le mauvais tome : le n° 3 au lieu du n° 2.",
    "Pourriez-vous m'envoyer la facture au nom de l'école ?",
  ],
  answers: [
    'La commande {order} est partie le {date}.',
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
    'El {date} pagué {price} por «{title}» y sigo esperando.',
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
    '{date}に注文した『{title}』（注文番号 {order}）がまだ届きません。',
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
  questions: [
    'دفعت {price} ثمن كتاب «{title}» بتاريخ {date} ولم يصلني شيء (رقم الطلب {order}).',
    'طلبت كتابين منذ أسبوعين ولم يصلا حتى الآن.',
    'وصل الكتاب وغلافه ممزق، هل يمكن استبداله؟',
  ],
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
  questions: [
    'הזמנתי את "{title}" בתאריך {date} (מספר {order}) ושילמתי {price}.',
    'הזמנתי ספר לפני שבועיים והוא עדיין לא הגיע.',
    'קיבלתי עותק פגום, אפשר להחליף?',
  ],
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
    '{date} я оплатила {price} за «{title}», заказ {order}, и ответа нет.',
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
  questions: [
    'मैंने {date} को {count} किताबें मँगाई थीं (ऑर्डर {order})।',
    'मैंने दो हफ़्ते पहले किताब मँगाई थी, अब तक नहीं आई।',
    'किताब के कुछ पन्ने फटे हुए हैं।',
  ],
  answers: ['संपर्क करने के लिए धन्यवाद, हम जाँच कर रहे हैं।', 'नई प्रति आज भेज दी गई है।'],
};

const PORTUGUESE: Language = {
  code: 'pt',
  share: 4,
  firstNames: ['João', 'Conceição', 'Inês'],
  lastNames: ['Guimarães', 'de Brito', 'Antunes'],
  subjects: ['Encomenda {order} atrasada', 'Livro com defeito: {title}', 'Recibo em falta'],
  greeting: 'Boa tarde,',
  closing: 'Com os melhores cumprimentos,',
  questions: [
    'Encomendei {count} livros em {date} e ainda não recebi nada.',
    'O livro {title} chegou com a lombada partida.',
  ],
  answers: [
    'Obrigada pela mensagem; a encomenda {order} segue hoje.',
    'Pedimos desculpa, o reembolso de {price} já foi feito.',
  ],
};

const CHINESE: Language = {
  code: 'zh',
  share: 4,
  firstNames: ['小梅', '志強', '玥'],
  lastNames: ['陳', '歐陽', '龍'],
  subjects: ['訂單 {order} 還沒收到', '请问《{title}》有货吗？', '发票抬头错误'],
  greeting: '您好：',
  closing: '谢谢！',
  questions: ['我在 {date} 订了 {count} 本书，到现在还没有发货。', '收到的书缺页，可以换一本吗？'],
  answers: ['感谢您的来信，订单 {order} 今天会重新寄出。', '很抱歉，{price} 已经退回到您的账户。'],
};

const KOREAN: Language = {
  code: 'ko',
  share: 3,
  firstNames: ['서연', '민준', '하늘'],
  lastNames: ['김', '남궁', '최'],
  subjects: ['주문 {order} 배송 문의', '환불 요청드립니다'],
  greeting: '안녕하세요,',
  closing: '감사합니다.',
  questions: [
    '{date}에 주문한 책 {count}권이 아직 도착하지 않았습니다.',
    '책 표지가 찢어져서 왔어요 😢 교환 가능할까요?',
  ],
  answers: ['문의해 주셔서 감사합니다. 오늘 다시 발송해 드리겠습니다.', '{price} 환불이 완료되었습니다.'],
};

const THAI: Language = {
  code: 'th',
  share: 2,
  firstNames: ['สมชาย', 'กัญญา', 'ปิ่น'],
  lastNames: ['ศรีสุข', 'ณ อยุธยา', 'วงศ์ใหญ่'],
  subjects: ['ยังไม่ได้รับหนังสือ {order}', 'ขอใบกำกับภาษี'],
  greeting: 'สวัสดีค่ะ',
  closing: 'ขอบคุณค่ะ',
  questions: ['สั่งหนังสือไป {count} เล่มเมื่อวันที่ {date} แต่ยังไม่ได้รับเลยค่ะ', 'หนังสือที่ได้รับมีหน้าขาดหายไป'],
  answers: ['ขอบคุณที่ติดต่อมานะคะ เราจะตรวจสอบให้ภายในวันพรุ่งนี้', 'เราคืนเงิน {price} ให้แล้วค่ะ'],
};

const LANGUAGES = [
  ENGLISH,
  GERMAN,
  FRENCH,
  SPANISH,
  JAPANESE,
  ARABIC,
  HEBREW,
  RUSSIAN,
  HINDI,
  PORTUGUESE,
  CHINESE,
  KOREAN,
  THAI,
];
const SHARES = LANGUAGES.map(language => [language, language.share] as const);

export function pickLanguage(rng: Rng): Language {
  return weighted(rng, SHARES);
}
