/**
 * Reading the JSON of a body that somebody sent (help desk 7): nothing in it is sure. Whatever is wrong is noted with
 * the name of its field and what was expected there, reading goes on, and all of it is thrown as one 422. A field that
 * nobody asks for is ignored, as parameters of a query are. Types are strict: `"true"` is no boolean and 5 no string.
 * Unset is null for one value and `[]` for many (section 1); which fields may be unset, the shapes say (bodies.ts).
 */
import { Refusal } from '../refusal.ts';

/** Nobody reads more of them, and a list of a million wrong things should not become a longer one. */
const MOST_FAILURES = 100;
/** Objects in one array: nobody has more messages or contacts to send at once, and a sandbox has to outlive strangers. */
const MOST_OBJECTS = 1000;

export function read<T>(json: unknown, shape: (form: Form) => T): T {
  if (!isObject(json)) throw unprocessable([`the body: expected a JSON object, got ${shown(json)}`]);
  const failures: string[] = [];
  const result = shape(new Form(json, '', failures));
  if (failures.length > 0) throw unprocessable(failures);
  return result;
}

function unprocessable(failures: string[]): Refusal {
  return new Refusal(422, 'Unprocessable Entity', failures);
}

/** One object. A method that finds a failure returns something of the right type, which nobody uses. */
export class Form {
  readonly #fields: Readonly<Record<string, unknown>>;
  readonly #path: string;
  readonly #failures: string[];

  constructor(fields: Readonly<Record<string, unknown>>, path: string, failures: string[]) {
    this.#fields = fields;
    this.#path = path;
    this.#failures = failures;
  }

  fail(name: string, what: string): void {
    if (this.#failures.length < MOST_FAILURES) this.#failures.push(`${this.#path}${name}: ${what}`);
  }

  /** Whether the field is there, null included. */
  has(name: string): boolean {
    return Object.hasOwn(this.#fields, name);
  }

  /** Whether the field is absent or null. */
  unset(name: string): boolean {
    return !this.has(name) || this.#fields[name] === null;
  }

  text(name: string): string {
    const value = this.#fields[name];
    if (typeof value === 'string') return value;
    return this.#expected(name, 'a string', '');
  }

  /** A text that names something, and so cannot be empty. */
  name(name: string): string {
    const value = this.text(name);
    if (this.#fields[name] === '') this.fail(name, 'it cannot be empty');
    return value;
  }

  textOrNull(name: string): string | null {
    return this.unset(name) ? null : this.text(name);
  }

  flag(name: string): boolean {
    const value = this.#fields[name];
    if (typeof value === 'boolean') return value;
    return this.#expected(name, 'true or false', false);
  }

  /** Undefined where it is none of them, since what follows may depend on which it is. */
  oneOf<T extends string>(name: string, allowed: readonly T[]): T | undefined {
    const value = this.#fields[name];
    const found = allowed.find(one => one === value);
    return found ?? this.#expected(name, allowed.map(one => `"${one}"`).join(' or '), undefined);
  }

  /** The id of something that exists. */
  idOf(name: string, among: { has(id: string): boolean }, what: string): string {
    const id = this.text(name);
    if (typeof this.#fields[name] === 'string') this.#look(name, id, among, what);
    return id;
  }

  /** Ids of things that exist, each once. */
  idsOf(name: string, among: { has(id: string): boolean }, what: string): string[] {
    const ids = this.texts(name);
    for (const id of ids) this.#look(name, id, among, what);
    return ids;
  }

  #look(name: string, id: string, among: { has(id: string): boolean }, what: string): void {
    if (!among.has(id)) this.fail(name, `there is no ${what} ${shown(id)}`);
  }

  /** An array of strings, each once. */
  texts(name: string): string[] {
    const values = this.#array(name, 'an array of strings');
    for (const [at, value] of values.entries()) {
      if (typeof value !== 'string') this.#expected(`${name}[${at}]`, 'a string', '', value);
    }
    return [...new Set(values.filter(value => typeof value === 'string'))];
  }

  object<T>(name: string, shape: (form: Form) => T): T | undefined {
    const value = this.#fields[name];
    if (isObject(value)) return shape(new Form(value, `${this.#path}${name}.`, this.#failures));
    return this.#expected(name, 'an object', undefined);
  }

  objects<T>(name: string, shape: (form: Form) => T): T[] {
    const values = this.#array(name, 'an array of objects');
    if (values.length > MOST_OBJECTS) {
      this.fail(name, `expected ${MOST_OBJECTS} at most, got ${values.length}`);
      return [];
    }
    return values.flatMap((value, at) => {
      if (isObject(value)) return [shape(new Form(value, `${this.#path}${name}[${at}].`, this.#failures))];
      return this.#expected(`${name}[${at}]`, 'an object', [], value);
    });
  }

  #array(name: string, what: string): unknown[] {
    const value = this.#fields[name];
    return Array.isArray(value) ? value : this.#expected(name, what, []);
  }

  #expected<T>(name: string, what: string, instead: T, value = this.#fields[name]): T {
    this.fail(name, value === undefined ? `is missing: expected ${what}` : `expected ${what}, got ${shown(value)}`);
    return instead;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What came instead, in a few words. */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'an array';
  if (isObject(value)) return 'an object';
  if (typeof value !== 'string') return String(value);
  return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
}
