/** Lines of a declaration, found in the text of its file. A file that is written in a way of its own gets the nearest line. Pure. */

export interface Places {
  /** The stream with this path. */
  stream(path: string): string | undefined;
  /** An option of the stream with this path; if it has none, that of the service. */
  option(path: string, name: string): string | undefined;
  service(name: string): string | undefined;
  /** A field of a record; without one, the record. */
  field(record: string, name?: string): string | undefined;
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\/-]/g, '\\$&');
const literal = (text: string) => new RegExp(`['"\`]${escaped(text)}['"\`]`);
const named = (name: string) => new RegExp(`(?:^|[\\s{,'"])${escaped(name)}['"]?\\s*:`);
const makesStream = /\b(?:fullRefresh|incremental|created|feed|details)\(/;

/** `file`: as people name it. Without a file no line is known. */
export function placesIn(file: string | undefined, text: string): Places {
  const lines = text.split('\n').map(line => (/^\s*\/\//.test(line) ? '' : line));
  const at = (line: number) => (file === undefined ? undefined : `${file}:${Math.max(0, line) + 1}`);
  const from = (start: number, is: RegExp) => lines.findIndex((line, i) => i >= start && is.test(line));
  const start = Math.max(
    0,
    lines.findIndex(line => /\bdefineService\(/.test(line)),
  );
  const streamAt = (path: string) => {
    const found = lines.findIndex((line, i) => {
      const before = lines.slice(Math.max(0, i - 2), i + 1).join('\n');
      return literal(path).test(line) && makesStream.test(before);
    });
    return found < 0 ? from(start, /\bstreams\s*:/) : found;
  };
  const service = (name: string) => {
    const found = from(start, named(name));
    return found < 0 ? start : found;
  };
  return {
    stream: path => at(streamAt(path)),
    option(path, name) {
      const first = streamAt(path);
      const next = lines.findIndex((line, i) => i > first && makesStream.test(line));
      const end = next < 0 ? lines.length : next;
      const own = lines.findIndex((line, i) => i >= first && i < end && named(name).test(line));
      return at(own >= 0 ? own : service(name));
    },
    service: name => at(service(name)),
    field(record, name) {
      const first = lines.findIndex(
        (line, i) => literal(record).test(line) && /\brecord\(\s*$|\brecord\(/.test(`${lines[i - 1] ?? ''}\n${line}`),
      );
      if (name === undefined || first < 0) return at(first);
      const end = lines.findIndex((line, i) => i > first && /^\}\)/.test(line));
      const found = lines.findIndex((line, i) => i >= first && (end < 0 || i <= end) && named(name).test(line));
      return at(found < 0 ? first : found);
    },
  };
}
