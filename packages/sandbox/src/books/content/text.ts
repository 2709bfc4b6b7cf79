/**
 * Invented books in several languages and scripts: titles, blurbs, publishers, subjects. Author names come from
 * ../texts/, by language.
 */
import { between, pick, type Rng } from '../../random.ts';

interface Shelfware {
  titles: readonly string[];
  blurbs: readonly string[];
  publishers: readonly string[];
}

const ENGLISH_NOUNS =
  'Lighthouse,Orchard,Cartographer,Winter Ferry,Salt Road,Night Gardener,Tide Clock,Paper Fox'.split(',');
const ENGLISH_TAILS = ' of Harrow Sound,, Revisited,’s Daughter, at Low Water, & Other Stories,: A Novel,'.split(',');

const ENGLISH: Shelfware = {
  titles: ENGLISH_NOUNS.flatMap(noun => ENGLISH_TAILS.map(tail => `The ${noun}${tail}`)),
  blurbs: [
    'When the last ferry of the season leaves without her, Maud Penhallow has six months and one locked room.',
    'A patient, funny account of how tides are measured, and of the people who stayed awake to do it.',
    '“Nobody drew the coast,” he said, “they drew what they hoped for.”',
    'With 48 plates, an index, and a chapter on mistakes – the author’s own & those of others.',
    'Three sisters, an orchard nobody wants, and a letter that was posted in 1911 <and never opened>.',
    'Praised by readers on four continents; now in paperback with a new afterword.',
  ],
  publishers: ['Harrow & Finch', 'Saltmarsh Press', 'Third Gull Books, Inc.', 'University of Eastmere Press'],
};

const WARES: Record<string, Shelfware> = {
  en: ENGLISH,
  de: {
    titles: [
      'Das Gewicht der Möwen',
      'Die Straße nach Übermorgen',
      'Kleine Fibel der Gezeiten',
      'Nachtzüge',
      'Straßenbäume',
    ],
    blurbs: [
      'Ein Dorf hinter dem Deich, ein Sommer ohne Wind und eine Frage, die niemand laut stellt.',
      'Mit zahlreichen Abbildungen, einem Glossar und einem Nachwort für Zweifler.',
      '»Größe ist«, sagt Tante Käthe, »wenn man trotzdem grüßt.«',
    ],
    publishers: ['Verlag am Deich', 'Möwe & Söhne', 'Edition Grünspan GmbH'],
  },
  fr: {
    titles: ['L’Été des balances', 'Où dort la marée', 'Leçons d’équilibre à l’usage des mouettes', 'Le Dernier Bac'],
    blurbs: [
      'Un village, une fanfare, et le silence qu’elle laisse derrière elle.',
      'Ce livre n’explique rien ; il montre, avec tendresse, comment on se trompe.',
    ],
    publishers: ['Éditions du Bac', 'Presses de l’Île Haute'],
  },
  es: {
    titles: ['El mapa y la sal', 'Años de niebla', '¿Quién pintó el muelle?', 'Pequeño tratado de los vientos'],
    blurbs: [
      'Una niña, un faro y la última carta de un cartógrafo que nunca vio el mar.',
      'Ensayo breve sobre el arte de llegar tarde.',
    ],
    publishers: ['Ediciones Muelle', 'Casa Niebla'],
  },
  ja: {
    titles: ['潮時計の夜', '灯台守の娘', '紙の狐（上）', '紙の狐（下）', '𠮷野川の渡し'],
    blurbs: ['港町の小さな書店で始まる、静かな再生の物語。', '潮の満ち引きを記録しつづけた人々の、百年の記録。'],
    publishers: ['潮文庫', '小さな灯台社'],
  },
  ar: {
    titles: ['حارس المنارة', 'بستان لا يريده أحد', 'ساعة المدّ (الجزء 2)'],
    blurbs: ['رواية عن مدينة تنسى أسماء شوارعها كل شتاء.', 'كتاب هادئ عن الخرائط وعن الذين رسموها.'],
    publishers: ['دار المرفأ', 'منشورات الضفة'],
  },
  he: {
    titles: ['שעון הגאות', 'הפרדס שאיש לא רצה', 'שומר המגדלור: רומן'],
    blurbs: ['סיפור על שלוש אחיות, מכתב אחד וחורף ארוך.', 'ספר על מפות, ועל מי שציירו אותן בלילה.'],
    publishers: ['הוצאת הנמל'],
  },
  ru: {
    titles: ['Дочь смотрителя', 'Солёная дорога', 'Последний паром. Том 1'],
    blurbs: [
      'Роман о городе, который каждую зиму забывает названия своих улиц.',
      'Книга о картах и о тех, кто их чертил.',
    ],
    publishers: ['Издательство «Причал»'],
  },
  hi: {
    titles: ['ज्वार की घड़ी', 'काग़ज़ की लोमड़ी', 'आख़िरी नाव'],
    blurbs: ['समुद्र किनारे के एक छोटे क़स्बे की कहानी।', 'नक़्शों और उन्हें बनाने वालों की किताब।'],
    publishers: ['घाट प्रकाशन'],
  },
};

export const SUBJECTS = [
  'Fiction',
  'Fiction / Sea Stories',
  'History',
  'Science',
  'Cooking',
  'Poetry',
  'Juvenile Fiction',
];

const SHELF_TITLES =
  'Summer reading,For the train,Lent to Jo,Übersetzungen,海の本,كتب للعطلة,Book club 📚,Signed copies,Maybe,To sell'.split(
    ',',
  );

const EDITIONS = ['Revised Edition', 'A Memoir', 'Volume II', 'With a New Afterword', 'Notes from the Shore'];

export function waresOf(language: string): Shelfware {
  return WARES[language] ?? ENGLISH;
}

/** One to 30 sentences; lists cut long ones. */
export function blurb(rng: Rng, language: string): string {
  const { blurbs } = waresOf(language);
  const sentences = Array.from({ length: between(rng, 1, rng() < 0.2 ? 30 : 8) }, () => pick(rng, blurbs));
  return sentences.join(' ');
}

export function edition(rng: Rng): string {
  return pick(rng, EDITIONS);
}

/** A shelf title; titles repeat, so they are no key. */
export function shelfName(rng: Rng): string {
  return pick(rng, SHELF_TITLES);
}
