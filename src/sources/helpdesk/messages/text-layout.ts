/**
 * Lays out blocks, quotes, lists and headings as plain text, with the line breaks between blocks. A block's text is
 * completed when the block ends, and is then added to the enclosing block.
 */

/** Deepest nesting of blocks. Deeper blocks only start a new line. */
const mostBlocks = 500;
/**
 * Limit of characters that marks of quotes, lists and rules process, in total and in one step. Each level of marks
 * rewrites its text.
 */
const mostMarked = 4_000_000;
const longestMarked = 500_000;
/** Number of list items that are aligned together. */
const alignedItems = 1000;

const bullet = ' * ';
const rule = '-'.repeat(40);
const spaces = /[ \t\r\n\f\u200b]+/g;
/** Most texts have only single spaces. A search is cheaper than a replacement. */
const unevenSpace = /[\t\r\n\f\u200b]| {2}/;

/** Smallest numbers of line breaks before and after a block. */
const blocks = new Map<string, readonly [before: number, after: number]>([
  ...each('article aside div footer form header main nav section', 1, 1),
  ...each('blockquote h4 h5 h6 hr p pre table', 2, 2),
  ...each('h1 h2 h3', 3, 2),
]);

function each(names: string, before: number, after: number): [string, [number, number]][] {
  return names.split(' ').map(name => [name, [before, after]]);
}

/** Elements whose content is not shown. */
export const hidden: ReadonlySet<string> = new Set(['script', 'style']);
export const isBlock = (name: string): boolean => blocks.has(name) || isList(name);
const isList = (name: string): boolean => name === 'ul' || name === 'ol';
const headings = new Set(['h1', 'h2', 'h3', 'h4', 'h5', 'h6']);
const isHeading = (name: string): boolean => headings.has(name);

interface Block {
  readonly kind: 'block' | 'quote' | 'list' | 'item';
  readonly isPre: boolean;
  readonly after: number;
  before: number;
  text: string;
  /** Line breaks to write before the next text. */
  due: number;
  /** Whether the current line is empty. */
  isLineEmpty: boolean;
  /** Whether white space followed the last word. */
  hasSpace: boolean;
  /** Items of a list block. */
  readonly items: Item[];
  readonly markOf: () => string;
  /** Mark of an item block. */
  readonly mark: string;
}

interface Item {
  readonly mark: string;
  readonly text: string;
  readonly before: number;
  readonly after: number;
}

/** The blocks that an element opened. They are closed with the element. */
export interface Opened {
  readonly blocks: number;
  readonly is?: 'heading' | 'hidden' | 'body' | 'deep' | undefined;
  /**
   * Number of the `body` element that holds this element. Elements opened before a later `body` are ignored on closing.
   */
  readonly body: number;
}

export class Layout {
  #blocks: Block[] = [block()];
  #headings = 0;
  #marked = 0;
  /** Whether the text is in an implicit list item, which ends at the next tag. */
  #isInText = false;
  /** Number of `body` elements so far. If there is any, only content inside a `body` counts. */
  #bodies = 0;
  #isInBody = true;
  #isFlat = false;
  /** Whether the position is inside a hidden element. Hidden elements contain no other elements. */
  isHidden = false;
  simplified = false;

  get text(): string {
    return this.#blocks[0]!.text;
  }

  open(name: string, parent: string | undefined, attributes: ReadonlyMap<string, string>): Opened {
    this.#endText();
    if (hidden.has(name)) {
      this.isHidden = true;
      return { blocks: 0, is: 'hidden', body: this.#bodies };
    }
    if (name === 'body' && (this.#bodies === 0 || !this.#isInBody)) return this.#openBody();
    if (this.#isMuted) return { blocks: 0, body: this.#bodies };
    const before = this.#blocks.length;
    const isDeep = before > mostBlocks;
    const { kind, markOf } = this.#top;
    if (kind === 'list' && !isDeep) this.#push({ kind: 'item', before: 1, mark: name === 'li' ? markOf() : '' });
    const size = blocks.get(name);
    if (isDeep && (isBlock(name) || name === 'li')) {
      this.#breakLine();
      return { blocks: 0, is: 'deep', body: this.#bodies };
    }
    if (name === 'br') this.#addLine();
    if (isList(name)) {
      const isNested = parent === 'li';
      const lines = isNested ? 1 : 2;
      const mark = name === 'ul' ? () => bullet : numbersOf(attributes);
      this.#push({ kind: 'list', before: lines, after: lines, markOf: isNested ? () => mark().trimStart() : mark });
    }
    if (size !== undefined) {
      const [lines, after] = size;
      const isPre = name === 'pre' || this.#top.isPre;
      this.#push({ kind: name === 'blockquote' ? 'quote' : 'block', before: lines, after, isPre });
    }
    if (name === 'hr' && this.#mayMark(rule.length)) this.write(rule);
    if (isHeading(name)) this.#headings++;
    const is = isHeading(name) ? 'heading' : undefined;
    return { blocks: this.#blocks.length - before, is, body: this.#bodies };
  }

  close(opened: Opened): void {
    this.#endText();
    if (opened.is === 'hidden') this.isHidden = false;
    if (opened.body !== this.#bodies) return;
    if (opened.is === 'heading') this.#headings--;
    if (opened.is === 'deep') this.#breakLine();
    if (opened.is === 'body') this.#isInBody = false;
    for (let left = opened.blocks; left > 0; left--) this.#pop();
  }

  /** Drops the layout from here on. Only text and line breaks are written. */
  flatten(): void {
    this.#breakLine();
    this.#isInBody = true;
    this.#isFlat = true;
  }

  write(text: string): void {
    if (this.#isMuted) return;
    if (this.#top.kind === 'list') {
      if (text.trim() === '') return;
      this.#push({ kind: 'item', before: 1 });
      this.#isInText = true;
    }
    const top = this.#top;
    if (top.isPre || this.#isFlat) {
      top.text += text;
      top.isLineEmpty = false;
      return;
    }
    const shrunk = unevenSpace.test(text) ? text.replace(spaces, ' ') : text;
    const begins = shrunk.startsWith(' ') ? 1 : 0;
    const ends = shrunk.endsWith(' ') ? 1 : 0;
    if (shrunk.length <= begins) {
      if (top.due === 0) top.hasSpace = true;
      return;
    }
    if (top.due > 0) {
      top.text += '\n'.repeat(top.due);
      top.isLineEmpty = true;
      top.due = 0;
    }
    if (!top.isLineEmpty && (top.hasSpace || begins > 0)) top.text += ' ';
    const words = shrunk.slice(begins, shrunk.length - ends);
    top.text += this.#headings > 0 ? words.toUpperCase() : words;
    top.isLineEmpty = false;
    top.hasSpace = ends > 0;
  }

  get #top(): Block {
    return this.#blocks.at(-1)!;
  }

  get #isMuted(): boolean {
    return this.isHidden || !this.#isInBody;
  }

  #openBody(): Opened {
    if (this.#bodies === 0) this.#blocks = [block()];
    this.#bodies++;
    this.#headings = 0;
    this.#isInBody = true;
    return { blocks: 0, is: 'body', body: this.#bodies };
  }

  #endText(): void {
    if (this.#isInText) this.#pop();
    this.#isInText = false;
  }

  #push(given: Given): void {
    this.#blocks.push(block(given, this.#top.isPre));
  }

  #pop(): void {
    const ended = this.#blocks.pop()!;
    const top = this.#top;
    const after = Math.max(ended.due, ended.after);
    if (ended.kind === 'item') {
      top.items.push({ mark: ended.mark, text: ended.text, before: ended.before, after });
      if (top.items.length === alignedItems) this.#align(top);
      return;
    }
    if (ended.kind === 'list') {
      this.#align(ended);
      if (ended.text !== '') put(top, ended.text, ended.before, ended.after);
      return;
    }
    const isMarked = ended.kind === 'quote' && this.#mayMark(ended.text.length);
    put(top, isMarked ? quoted(ended.text) : ended.text, ended.before, after);
  }

  #align(list: Block): void {
    const width = Math.max(0, ...list.items.map(({ mark }) => mark.length));
    for (const { mark, text, before, after } of list.items.splice(0)) {
      const isMarked = this.#mayMark(text.length + width);
      put(list, isMarked ? mark.padEnd(width) + text.replaceAll('\n', `\n${' '.repeat(width)}`) : text, before, after);
    }
  }

  /** Writes a line break from the HTML. */
  #addLine(): void {
    const top = this.#top;
    top.text += '\n';
    top.isLineEmpty = true;
  }

  /** Starts a new line before the next text. */
  #breakLine(): void {
    this.simplified = true;
    const top = this.#top;
    if (!top.isPre) top.due = Math.max(top.due, top.text === '' ? 0 : 1);
    else if (!top.isLineEmpty) this.#addLine();
  }

  #mayMark(length: number): boolean {
    const may = length <= longestMarked && this.#marked + length <= mostMarked;
    if (may) this.#marked += length;
    else this.simplified = true;
    return may;
  }
}

type Given = Partial<Pick<Block, 'kind' | 'isPre' | 'before' | 'after' | 'markOf' | 'mark'>>;
const noMark = () => '';

/** Without spreading: a letter has a hundred of them. */
function block(given: Given = {}, isPreAround = false): Block {
  const { kind = 'block', isPre = isPreAround, before = 1, after = 1, markOf = noMark, mark = '' } = given;
  return { kind, isPre, before, after, text: '', due: 0, isLineEmpty: true, hasSpace: false, items: [], markOf, mark };
}

function put(around: Block, text: string, before: number, after: number): void {
  const lines = Math.max(around.due, before);
  if (around.text === '') {
    around.text = text;
    around.before = lines;
  } else around.text += '\n'.repeat(lines) + text;
  around.due = after;
  around.isLineEmpty = true;
}

function quoted(text: string): string {
  let [from, to] = [0, text.length];
  while (from < to && text[from] === '\n') from++;
  while (to > from && text[to - 1] === '\n') to--;
  return `> ${text.slice(from, to).replaceAll('\n', '\n> ')}`;
}

function numbersOf(attributes: ReadonlyMap<string, string>): () => string {
  const start = Number(attributes.get('start') ?? '1');
  let n = Number.isSafeInteger(start) ? start : 1;
  return () => ` ${n++}. `;
}
