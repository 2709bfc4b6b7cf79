/**
 * A draft of a source: the text of a file that declares it. It compiles and loads as it stands. What nobody but the service can
 * answer is a question in a comment, behind `// ?`, at the line that depends on it.
 */

/** What a draft may import. */
export const makers =
  'children created date defineService details feed flag fullRefresh id incremental integer number object objects oneOf perDay perHour perMinute perSecond record reference text texts time'.split(
    ' ',
  );

/** A line of code, with the questions before it. */
export interface Line {
  readonly code: string;
  readonly asks?: readonly string[];
  /** A short question behind it. */
  readonly tail?: string | undefined;
}

export interface DraftRecord {
  /** Name of the constant. */
  readonly as: string;
  readonly name: string;
  readonly says: string;
  readonly asks?: readonly string[];
  readonly fields: readonly Line[];
}

export interface Draft {
  readonly name: string;
  readonly as: string;
  readonly label: string;
  readonly says: string;
  readonly asks?: readonly string[];
  /** Children before the records that hold them. */
  readonly records: readonly DraftRecord[];
  /** How the service is reached: limits, key, pages. */
  readonly options: readonly Line[];
  /** Of all of them. */
  readonly asksOfStreams?: readonly string[];
  readonly streams: readonly Line[];
  /** What the document has, and no declaration can say. */
  readonly leftOut?: readonly string[];
}

const width = 120;
const mark = '// ? ';

/** A question in lines of the width, with the mark before the first one. */
function asked(question: string, indent: string): string[] {
  const lines: string[] = [];
  let line = indent + mark.trimEnd();
  for (const word of question.split(/\s+/)) {
    if (line.length + word.length + 1 > width) {
      lines.push(line);
      line = `${indent}//  `;
    }
    line += ` ${word}`;
  }
  return [...lines, line];
}

const written = (lines: readonly Line[], indent: string): string[] =>
  lines.flatMap(({ code, asks = [], tail }) => [
    ...asks.flatMap(one => asked(one, indent)),
    ...code.split('\n').map(line => `${indent}${line}${tail === undefined ? '' : ` ${mark}${tail}`}`),
  ]);

/** A text in single quotes. */
export const quoted = (text: string): string =>
  `'${text
    .replaceAll('\\', '\\\\')
    .replaceAll("'", "\\'")
    .replaceAll(/[\r\n\u2028\u2029]+/g, ' ')}'`;

/** How many questions a file has. */
export const questionsIn = (text: string): number => text.split('\n').filter(line => line.includes(mark)).length;

/** A list in braces: on one line, or a line for each part. */
export function broken(before: string, parts: readonly string[], after: string, room = width): string[] {
  const line = before + parts.join(', ') + after;
  if (line.length <= room) return [line];
  return [before.trimEnd(), ...parts.map(part => `  ${part},`), after.trimStart()];
}

export function fileOf(draft: Draft): string {
  const { name, as, label, says, records, options, streams, asks = [], asksOfStreams = [], leftOut = [] } = draft;
  const body = [
    ...records.flatMap(one => [
      ...(one.asks ?? []).flatMap(ask => asked(ask, '')),
      `const ${one.as} = record(${quoted(one.name)}, ${quoted(one.says)}, {`,
      ...written(one.fields, '  '),
      '});',
      '',
    ]),
    ...leftOut.flatMap(one => asked(one, '')),
    ...(leftOut.length > 0 ? [''] : []),
    `export const ${as} = defineService({`,
    `  name: ${quoted(name)},`,
    `  label: ${quoted(label)},`,
    `  says: ${quoted(says)},`,
    ...written(options, '  '),
    ...asksOfStreams.flatMap(one => asked(one, '  ')),
    '  streams: [',
    ...written(streams, '    '),
    '  ],',
    '});',
    '',
  ];
  const code = body.filter(line => !line.trimStart().startsWith('//')).join('\n');
  const used = makers.filter(one => new RegExp(`\\b${one}\\(`).test(code));
  return [
    `/** ${says.replaceAll('*/', '* /')} */`,
    ...broken('import { ', used, " } from 'shelfdesk/source';"),
    '',
    '// Answer each question behind "// ?", and take it out. `shelfdesk source try` asks the service many of them.',
    '',
    ...asks.flatMap(one => asked(one, '')),
    ...(asks.length > 0 ? [''] : []),
    ...body,
  ].join('\n');
}
