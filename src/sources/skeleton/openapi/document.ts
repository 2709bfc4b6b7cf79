/** An OpenAPI 3 or Swagger 2 document, as far as a draft needs it: operations, their parameters and replies, references resolved. Pure. */
import { isObject } from '../../../engine/http/request.ts';

/** A schema without references and compositions. */
export interface Schema {
  readonly type: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean' | undefined;
  readonly format?: string | undefined;
  readonly description?: string | undefined;
  readonly values?: readonly string[] | undefined;
  readonly maximum?: number | undefined;
  readonly minimum?: number | undefined;
  readonly byDefault?: unknown;
  readonly properties: ReadonlyMap<string, () => Schema>;
  readonly required: ReadonlySet<string>;
  readonly items?: (() => Schema) | undefined;
}

export interface Parameter {
  readonly name: string;
  readonly schema: Schema;
  readonly isRequired: boolean;
}

/** A GET that answers JSON. */
export interface Operation {
  readonly path: string;
  readonly query: readonly Parameter[];
  readonly reply: Schema;
  /** Names of the headers of the reply. */
  readonly headers: readonly string[];
}

interface Security {
  readonly type: string;
  readonly in?: string;
  readonly name?: string;
  readonly scheme?: string;
}

export interface Document {
  readonly title: string | undefined;
  readonly address: string | undefined;
  readonly operations: readonly Operation[];
  readonly security: readonly Security[];
}

type Raw = Record<string, unknown>;
const objectAt = (raw: unknown, name: string): Raw => (isObject(raw) && isObject(raw[name]) ? raw[name] : {});
const textAt = (raw: unknown, name: string): string | undefined =>
  isObject(raw) && typeof raw[name] === 'string' ? raw[name] : undefined;
const listAt = (raw: unknown, name: string): readonly unknown[] =>
  isObject(raw) && Array.isArray(raw[name]) ? raw[name] : [];

/** Undefined: it is no such document. */
export function documentOf(raw: unknown): Document | undefined {
  if (!isObject(raw) || !isObject(raw.paths) || !(textAt(raw, 'openapi') ?? textAt(raw, 'swagger'))) return undefined;
  const reader = new Reader(raw);
  return {
    title: textAt(raw.info, 'title'),
    address: addressOf(raw),
    operations: Object.keys(raw.paths).flatMap(path => reader.operation(path) ?? []),
    security: Object.values({
      ...objectAt(raw.components, 'securitySchemes'),
      ...objectAt(raw, 'securityDefinitions'),
    }).flatMap(one => (isObject(one) ? [reader.at(one) as unknown as Security] : [])),
  };
}

function addressOf(raw: Raw): string | undefined {
  const [server] = listAt(raw, 'servers');
  const url = textAt(server, 'url');
  if (url !== undefined)
    return url.replaceAll(/\{(\w+)\}/g, (all, name) =>
      String(objectAt(objectAt(server, 'variables'), name).default ?? all),
    );
  const host = textAt(raw, 'host');
  const [scheme = 'https'] = listAt(raw, 'schemes').toSorted().reverse();
  return host === undefined ? undefined : `${scheme}://${host}${textAt(raw, 'basePath') ?? ''}`;
}

/** Deeper compositions say nothing that a table could hold. */
const deepest = 12;

class Reader {
  readonly #raw: Raw;
  constructor(raw: Raw) {
    this.#raw = raw;
  }

  /** What a reference leads to. */
  at(value: unknown): Raw {
    let found = value;
    for (let i = 0; i < deepest && isObject(found) && typeof found.$ref === 'string'; i++) {
      const names = found.$ref.startsWith('#/') ? found.$ref.slice(2).split('/') : [];
      const plain = names.map(name => decodeURIComponent(name).replaceAll('~1', '/').replaceAll('~0', '~'));
      found = plain.reduce<unknown>(
        (inner, name) => (isObject(inner) ? inner[name] : undefined),
        plain.length > 0 ? this.#raw : undefined,
      );
    }
    return isObject(found) ? found : {};
  }

  schema(value: unknown, depth = 0): Schema {
    const raw = this.at(value);
    const parts = depth < deepest ? [...listAt(raw, 'allOf'), ...this.#firstOf(raw)] : [];
    const all = parts.map(part => this.schema(part, depth + 1));
    const own = listAt(raw, 'type').find(one => one !== 'null') ?? raw.type;
    const properties = new Map(all.flatMap(one => [...one.properties]));
    for (const [name, one] of Object.entries(objectAt(raw, 'properties'))) properties.set(name, () => this.schema(one));
    const values = listAt(raw, 'enum').filter(one => typeof one === 'string');
    const first = <K extends keyof Schema>(name: K) => all.find(one => one[name] !== undefined)?.[name];
    const numberAt = (name: string) => (typeof raw[name] === 'number' ? (raw[name] as number) : undefined);
    const type = (own ?? first('type') ?? (properties.size > 0 ? 'object' : undefined)) as Schema['type'];
    return {
      ...{ type, properties },
      format: textAt(raw, 'format') ?? first('format'),
      description: textAt(raw, 'description') ?? textAt(raw, 'title') ?? first('description'),
      values: values.length > 0 ? values : first('values'),
      maximum: numberAt('maximum') ?? first('maximum'),
      minimum: numberAt('minimum') ?? first('minimum'),
      byDefault: raw.default ?? first('byDefault'),
      required: new Set([...all.flatMap(one => [...one.required]), ...listAt(raw, 'required').map(String)]),
      items: raw.items === undefined ? first('items') : () => this.schema(raw.items),
    };
  }

  /** Of several forms the first one that is not null. */
  #firstOf(raw: Raw): unknown[] {
    const forms = [...listAt(raw, 'oneOf'), ...listAt(raw, 'anyOf')].filter(one => this.at(one).type !== 'null');
    return forms.slice(0, 1);
  }

  /** The GET of a path, if it answers JSON. */
  operation(path: string): Operation | undefined {
    const item = this.at(objectAt(this.#raw, 'paths')[path]);
    const get = item.get;
    if (!isObject(get)) return undefined;
    const responses = objectAt(get, 'responses');
    const success = this.at(responses['200'] ?? responses['2XX'] ?? responses['201'] ?? responses.default);
    const content = objectAt(success, 'content');
    const json = Object.keys(content).find(type => /\bjson\b/.test(type)) ?? Object.keys(content)[0];
    const schema = success.schema ?? (json === undefined ? undefined : objectAt(content, json).schema);
    if (schema === undefined) return undefined;
    const parameters = [...listAt(item, 'parameters'), ...listAt(get, 'parameters')].map(one => this.at(one));
    return {
      path,
      query: parameters
        .filter(one => one.in === 'query' && typeof one.name === 'string')
        .map(one => ({
          name: String(one.name),
          schema: this.schema(one.schema ?? one),
          isRequired: one.required === true,
        })),
      reply: this.schema(schema),
      headers: Object.keys(objectAt(success, 'headers')),
    };
  }
}
