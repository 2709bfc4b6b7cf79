/** Open sources as tests make them: a given way to send, and settings that a test names. */
import type { AuditConfig, OpenSource } from '../../src/engine/context.ts';
import type { Send } from '../../src/engine/http/send.ts';
import { makeBell } from '../../src/engine/notifier.ts';
import type { Bound } from '../../src/engine/runs/accounts/accounts.ts';
import { books } from '../../src/sources/books/books.ts';
import type { BooksSettings } from '../../src/sources/books/open.ts';
import { customers } from '../../src/sources/helpdesk/customers.ts';
import { helpdesk } from '../../src/sources/helpdesk/helpdesk.ts';
import { tickets } from '../../src/sources/helpdesk/tickets.ts';
import { users } from '../../src/sources/helpdesk/users.ts';
import type { ListStream, Row, Source } from '../../src/sources/source.ts';

/** The lists of the help desk as they are declared. */
export const deskLists: readonly ListStream<Row>[] = [users, customers, tickets];

export function listStream(name: string): ListStream<Row> {
  return deskLists.find(stream => stream.name === name || stream.key === name)!;
}

const limits = { credits: 1e9, periodMs: 60_000, requestsPerSecond: 1e9, reserve: 0 };
const noAudit: AuditConfig = { perHour: 0 };

const openSource = (
  declaration: OpenSource['declaration'] & Pick<Source, 'name'>,
  send: Send,
  lookbackMs: number,
): OpenSource => ({
  ...{ name: declaration.name, declaration, limits, send, lookbackMs },
  stored: makeBell(),
  thaw: async () => {},
});

export function openHelpdesk(
  send: Send,
  { lookbackMs = 120_000, audit = noAudit, declaration = helpdesk } = {},
): OpenSource {
  return { ...openSource(declaration, send, lookbackMs), audit };
}

export function openBooks(send: Send, own: Partial<BooksSettings> = {}): OpenSource & BooksSettings {
  const settings = { owners: [], shelfAgeMs: 0, volumeAgeMs: 0 };
  return { ...openSource(books, send, 0), ...settings, ...own };
}

/** The sources of a context. */
export const sourcesOf = (...opened: readonly OpenSource[]): ReadonlyMap<string, OpenSource> =>
  new Map(opened.map(source => [source.name, source]));

/** The same context with an audit of the help desk. */
export function withAudit<C extends { readonly sources: ReadonlyMap<string, OpenSource> }>(
  ctx: C,
  audit: AuditConfig,
): C {
  const source = { ...ctx.sources.get('helpdesk')!, audit };
  return { ...ctx, sources: new Map([...ctx.sources, ['helpdesk', source]]) };
}

/** Sources as an account is bound to them. */
export const boundTo = (addresses: Readonly<Record<string, URL>>): Bound[] =>
  Object.entries(addresses).map(([name, address]) => {
    const { address: setting, label } = [helpdesk, books].find(source => source.name === name)!;
    return { name, address, setting, label };
  });
