/**
 * Converts HTML to plain text in linear time. The tokenizer streams, so nested elements use no call stack. Depth, work
 * and output are bounded. Beyond a bound the layout (marks of quotes, lists and rules) is dropped, and the words stay.
 * Long input is converted in pieces, with a yield to the event loop after each.
 */
import type { Tokenizer, TokenizerCallbacks } from 'htmlparser2';
import { hidden, isBlock, Layout, type Opened } from './text-layout.ts';

export interface PlainText {
  readonly text: string;
  /** Whether a bound was exceeded. Layout is missing then, but no word. */
  readonly simplified: boolean;
}

/** Characters per piece. A piece takes a few milliseconds. */
const pieceLength = 64 * 1024;
/** Largest number of elements with layout. A long newsletter has 5,000 elements. */
const mostElements = 50_000;
/** Upper bound for the length of a character reference. A piece never ends within a reference. */
const longestReference = 64;

/** Loaded with the first HTML. */
let parser: Promise<typeof import('htmlparser2')> | undefined;

export async function plainTextOf(html: string): Promise<PlainText> {
  parser ??= import('htmlparser2');
  const { Tokenizer } = await parser;
  const reader = new Reader(html, Tokenizer);
  for (let from = 0; from < html.length; ) {
    const to = endOfPiece(html, from);
    reader.read(html.slice(from, to));
    from = to;
    if (from < html.length) await new Promise<void>(resolve => void setImmediate(resolve));
  }
  return reader.end();
}

function endOfPiece(html: string, from: number): number {
  const to = from + pieceLength;
  if (to >= html.length) return html.length;
  const reference = html.slice(to - longestReference, to).lastIndexOf('&');
  return reference === -1 ? to : to - longestReference + reference;
}

const names = (text: string): ReadonlySet<string> => new Set(text.split(' '));

/** Start tags that implicitly end the innermost element, with the names of the elements that they end. */
const endedBy = new Map<string, ReadonlySet<string>>([
  ['tr', names('tr th td')],
  ['th', names('th')],
  ['td', names('thead th td')],
  ['body', names('head link script')],
  ['li', names('li')],
  ['option', names('option')],
  ['optgroup', names('optgroup option')],
  ...each('dd dt', 'dd dt'),
  ...each('rt rp', 'rt rp'),
  ...each('tbody tfoot', 'thead tbody'),
  ...each('select input output button datalist textarea', 'input option optgroup select button datalist textarea'),
  ...each('p h1 h2 h3 h4 h5 h6 address article aside blockquote details div dl fieldset figcaption figure', 'p'),
  ...each('footer form header hr main nav ol pre section table ul', 'p'),
]);

function each(beginning: string, ended: string): [string, ReadonlySet<string>][] {
  return [...names(beginning)].map(name => [name, names(ended)]);
}

/** Elements without an end tag. */
const empty = names(
  'area base basefont br col command embed frame hr img input isindex keygen link meta param source track wbr',
);
/** Within these elements a tag may close itself, except inside the integrating elements below. */
const foreign = names('math svg');
const integrating = names('mi mo mn ms mtext annotation-xml foreignobject desc title');

interface Element {
  readonly name: string;
  readonly opened: Opened;
}

/** Tracks the open elements while the tokenizer reports tags, including unbalanced tags. */
class Reader implements TokenizerCallbacks {
  readonly #html: string;
  readonly #layout = new Layout();
  readonly #tokenizer: Tokenizer;
  readonly #open: Element[] = [];
  /** Number of open elements by name. An end tag without an open element is recognised without a search. */
  readonly #count = new Map<string, number>();
  readonly #isForeign: boolean[] = [];
  /** Text since the last tag, and the range in the HTML that follows the text. */
  #texts: string[] = [];
  #textFrom = 0;
  #textTo = 0;
  #elements = 0;
  /**
   * Whether the bound on elements is exceeded. From there on the text keeps its words and line breaks, without layout.
   */
  #isFlat = false;
  #tag = '';
  #attribute = '';
  /** Attributes of the current `ol` tag. */
  #attributes = new Map<string, string>();

  constructor(html: string, tokenizer: typeof Tokenizer) {
    this.#html = html;
    this.#tokenizer = new tokenizer({}, this);
  }

  read(piece: string): void {
    this.#tokenizer.write(piece);
    this.#tell();
  }

  end(): PlainText {
    this.#tokenizer.end();
    this.#endAll();
    return { text: this.#layout.text, simplified: this.#layout.simplified };
  }

  /** Joins adjacent text ranges, because the tokenizer may split one text into several. */
  ontext(from: number, to: number): void {
    if (from !== this.#textTo) this.#keepText();
    if (this.#textFrom === this.#textTo) this.#textFrom = from;
    this.#textTo = to;
  }

  ontextentity(codePoint: number): void {
    this.#keepText();
    this.#texts.push(String.fromCodePoint(codePoint));
  }

  onopentagname(from: number, to: number): void {
    this.#tag = this.#html.slice(from, to).toLowerCase();
  }

  onattribname(from: number, to: number): void {
    if (this.#tag === 'ol') this.#attribute = this.#html.slice(from, to).toLowerCase();
  }

  onattribdata(from: number, to: number): void {
    if (this.#tag === 'ol' && !this.#attributes.has(this.#attribute))
      this.#attributes.set(this.#attribute, this.#html.slice(from, to));
  }

  onopentagend(): void {
    this.#begin(this.#tag);
  }

  onselfclosingtag(): void {
    this.#begin(this.#tag);
    if (this.#isForeign.at(-1) && this.#open.at(-1)?.name === this.#tag) this.#close();
  }

  onclosetag(from: number, to: number): void {
    const name = this.#html.slice(from, to).toLowerCase();
    if (this.#isFlat) {
      this.#addFlat(name, false);
      return;
    }
    if (foreign.has(name) || integrating.has(name)) this.#isForeign.pop();
    if (name === 'br') this.#begin(name);
    else if (this.#count.get(name)) while (this.#close() !== name);
    else if (name === 'p') {
      this.#begin(name);
      this.#close();
    }
  }

  onattribentity(): void {}
  onattribend(): void {}
  oncomment(): void {}
  oncdata(): void {}
  ondeclaration(): void {}
  onprocessinginstruction(): void {}
  onend(): void {}

  #begin(name: string): void {
    if (this.#elements++ === mostElements) this.#flatten();
    if (this.#isFlat) {
      this.#addFlat(name, true);
      return;
    }
    const ended = endedBy.get(name);
    while (ended?.has(this.#open.at(-1)?.name ?? '')) this.#close();
    this.#tell();
    const opened = this.#layout.open(name, this.#open.at(-1)?.name, this.#attributes);
    if (this.#attributes.size > 0) this.#attributes = new Map();
    if (empty.has(name)) {
      this.#layout.close(opened);
      return;
    }
    this.#open.push({ name, opened });
    this.#count.set(name, (this.#count.get(name) ?? 0) + 1);
    if (foreign.has(name)) this.#isForeign.push(true);
    else if (integrating.has(name)) this.#isForeign.push(false);
  }

  /** Ends the innermost element. Returns its name. */
  #close(): string {
    this.#tell();
    const { name, opened } = this.#open.pop()!;
    this.#count.set(name, this.#count.get(name)! - 1);
    this.#layout.close(opened);
    return name;
  }

  #endAll(): void {
    this.#tell();
    while (this.#open.length > 0) this.#close();
  }

  #flatten(): void {
    this.#endAll();
    this.#layout.flatten();
    this.#isFlat = true;
  }

  #addFlat(name: string, isHidden: boolean): void {
    if (hidden.has(name)) {
      this.#tell();
      this.#layout.isHidden = isHidden;
    }
    if (name !== 'br' && name !== 'tr' && name !== 'li' && !isBlock(name)) return;
    this.#keepText();
    if (this.#texts.at(-1) !== '\n') this.#texts.push('\n');
  }

  #keepText(): void {
    if (this.#textFrom < this.#textTo) this.#texts.push(this.#html.slice(this.#textFrom, this.#textTo));
    this.#textFrom = this.#textTo;
  }

  #tell(): void {
    this.#keepText();
    if (this.#texts.length === 0) return;
    this.#layout.write(this.#texts.join(''));
    this.#texts = [];
  }
}
