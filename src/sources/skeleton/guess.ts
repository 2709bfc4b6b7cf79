/** Guesses by the name of a field: what it tells of people, and the declaration of a value. Each guess is for a person to confirm. */
import { ExactNumber } from '../../engine/exact-json.ts';
import { timeOf } from '../record/check.ts';

type Guess = 'name' | 'contact' | 'text' | undefined;

const contact =
  /(?:^|_)(?:e_?mails?|mail|phones?|mobile|fax|tel|telephone|address|addresses|street|zip|postcode|postal_code|iban|ip|ip_address|username|login|handle|twitter)(?:_|$)|^(?:from|to|cc|bcc|reply_(?:to|cc))$/;
const name =
  /(?:^|_)(?:first_?name|last_?name|full_?name|sur_?name|given_name|family_name|nick_?name|display_name|author|owner|person|customer|contact|user|assignee|sender|recipient|salutation|from|to)(?:_name)?$|^name$/;
const free =
  /(?:^|_)(?:notes?|comments?|message|body|bio|about|description|summary|subject|content|text|birth_?da(?:y|te)|date_of_birth|gender|ssn|tax_id|passport)(?:_|$)/;

/** What may have a fraction, though all of some values are whole. */
const divisible = /(?:^|_)(?:amount|balance|cost|hours?|price|rate|sum|total|value|weight)(?:_|$)/;

/** `firstName` and `first-name` are `first_name`. */
const plainly = (field: string): string =>
  field
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replaceAll(/\W+/g, '_')
    .toLowerCase();

/** What a field of this name may tell of a person. Undefined: it seems to tell of nobody. */
function tellsOf(field: string): Guess {
  const words = plainly(field);
  if (contact.test(words)) return 'contact';
  if (name.test(words)) return 'name';
  return free.test(words) ? 'text' : undefined;
}

/** A text field: `text('Email.').personal('contact')`. */
export const textOf = (maker: 'text' | 'texts', says: string, field: string): string => {
  const tells = tellsOf(field);
  return `${maker}(${says})${tells === undefined ? '.plain()' : `.personal('${tells}')`}`;
};

/** A word in a key, quoted if it has to be. */
export const keyOf = (field: string): string =>
  /^[A-Za-z_$][\w$]*$/.test(field) ? field : `'${field.replaceAll(/['\\]/g, '')}'`;

/** Words of a field: `first_name` → `First name.` */
export const saysOf = (field: string): string => {
  const words = plainly(field).replaceAll('_', ' ').trim();
  return `'${words.charAt(0).toUpperCase()}${words.slice(1)}.'`;
};

/** The declaration of a field of which values were seen; undefined: it has no column. */
export function declaredBy(field: string, values: readonly unknown[]): string | undefined {
  const there = values.filter(value => value !== null && value !== undefined);
  const says = saysOf(field);
  const all = (is: (value: unknown) => boolean) => there.length > 0 && there.every(is);
  const isText = (value: unknown): value is string => typeof value === 'string';
  if (all(value => typeof value === 'boolean')) return `flag(${says})`;
  const isWhole = all(value => Number.isInteger(value) || value instanceof ExactNumber);
  if (isWhole && !divisible.test(plainly(field))) return `integer(${says})`;
  if (isWhole || all(value => typeof value === 'number')) return `number(${says})`;
  if (all(value => isText(value) && !Number.isNaN(timeOf(value)))) return `time(${says})`;
  if (all(value => isText(value) && /^\d{4}-\d\d-\d\d$/.test(value))) return `date(${says})`;
  if (all(value => Array.isArray(value) && value.every(isText))) return textOf('texts', says, field);
  if (there.some(value => typeof value === 'object')) return undefined;
  return textOf('text', says, field);
}
