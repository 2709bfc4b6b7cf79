/**
 * Validates JSON bodies (help desk 7). Each error names its field and the expected value; all errors together become one
 * 422. Unknown fields are ignored, as unknown query parameters are. Types are strict: `"true"` is no boolean and 5 no
 * string. Null unsets a single value and `[]` a list (section 1); body-shapes.ts says which fields can be unset.
 */
import { Refusal } from '../http/refusal.ts';

/** Errors per reply; bounds the reply to a huge invalid body. */
const MOST_FAILURES = 100;
/** Objects in one array; protects the sandbox from huge bodies. */
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

/** One JSON object. After an error a method returns a placeholder of the right type, because the 422 discards the result. */
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

  /** Whether the field is present, null included. */
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

  /** A non-empty string. */
  name(name: string): string {
    const value = this.text(name);
    if (this.#fields[name] === '') this.fail(name, 'must not be empty');
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

  /** One of the words; undefined after an error, because further checks depend on the word. */
  oneOf<T extends string>(name: string, allowed: readonly T[]): T | undefined {
    const value = this.#fields[name];
    const found = allowed.find(one => one === value);
    return found ?? this.#expected(name, allowed.map(one => `"${one}"`).join(' or '), undefined);
  }

  /** Id of an existing record. */
  idOf(name: string, among: { has(id: string): boolean }, what: string): string {
    const id = this.text(name);
    if (typeof this.#fields[name] === 'string') this.#look(name, id, among, what);
    return id;
  }

  /** Ids of existing records, without duplicates. */
  idsOf(name: string, among: { has(id: string): boolean }, what: string): string[] {
    const ids = this.texts(name);
    for (const id of ids) this.#look(name, id, among, what);
    return ids;
  }

  #look(name: string, id: string, among: { has(id: string): boolean }, what: string): void {
    if (!among.has(id)) this.fail(name, `there is no ${what} ${shown(id)}`);
  }

  /** An array of strings, without duplicates. */
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

/** The received value for an error message, shortened. */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'an array';
  if (isObject(value)) return 'an object';
  if (typeof value !== 'string') return String(value);
  return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
}
