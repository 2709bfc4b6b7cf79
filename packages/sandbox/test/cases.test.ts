/** The table of cases: every row and rule of both specifications has at least one case (see cases/case.ts). */
import { describe, expect, it } from 'vitest';
import { defaultOf, SWITCHES, type Switch } from '../src/switches.ts';
import { books } from './cases/books-cases.ts';
import { booksErrors } from './cases/books-errors.ts';
import { booksNotes } from './cases/books-notes.ts';
import { booksQuirks } from './cases/books-quirks.ts';
import { booksSwitches } from './cases/books-switches.ts';
import type { BooksCase, DeskCase } from './cases/case.ts';
import { clients } from './cases/clients.ts';
import { changes } from './cases/help-desk-changes.ts';
import { conventions } from './cases/help-desk-conventions.ts';
import { credentials } from './cases/help-desk-credentials.ts';
import { contacts, customers } from './cases/help-desk-customers.ts';
import { errors } from './cases/help-desk-errors.ts';
import { limits } from './cases/help-desk-limits.ts';
import { attachments, messages } from './cases/help-desk-messages.ts';
import { newTickets } from './cases/help-desk-new-tickets.ts';
import { habits } from './cases/help-desk-notes.ts';
import { envelopes, pages } from './cases/help-desk-pages.ts';
import { resources, states } from './cases/help-desk-resources.ts';
import { switched } from './cases/help-desk-switches.ts';
import { tickets } from './cases/help-desk-tickets.ts';
import { verbs } from './cases/help-desk-verbs.ts';
import { RULES } from './cases/rules.ts';
import { runBooksCase, runDeskCase } from './cases/run.ts';

const DESK: readonly DeskCase[] = [
  ...[...conventions, ...verbs, ...envelopes, ...pages, ...resources, ...states, ...tickets, ...changes, ...newTickets],
  ...[...messages, ...attachments, ...customers, ...contacts, ...credentials, ...errors, ...limits],
  ...[...switched, ...habits, ...clients],
];
const BOOKS: readonly BooksCase[] = [...books, ...booksNotes, ...booksQuirks, ...booksErrors, ...booksSwitches];
const ALL = [...DESK, ...BOOKS];
const nameOf = ({ rule, what }: DeskCase | BooksCase) => `${rule}: ${what}`;

describe('The table', () => {
  it('has at least 350 cases, each once', () => {
    expect(ALL.length).toBeGreaterThanOrEqual(350);
    const names = ALL.map(nameOf).sort();
    expect(names.filter((name, i) => name === names[i - 1])).toEqual([]);
  });

  it('has a case for every rule, and no case of a rule that is not there', () => {
    const held = new Set(ALL.flatMap(({ rule, also = [] }) => [rule, ...also]));
    expect(Object.keys(RULES).filter(rule => !held.has(rule))).toEqual([]);
    expect([...held].filter(rule => !Object.hasOwn(RULES, rule))).toEqual([]);
  });
});

describe('The switches', () => {
  const tried = { helpdesk: DESK, books: BOOKS } as const;
  const rows = (['helpdesk', 'books'] as const).flatMap(service =>
    (SWITCHES[service] as readonly Switch[]).map(row => ({ service, row })),
  );

  it.each(rows.map(one => [`${one.service} ${one.row.name}`, one] as const))(
    '%s has its cases',
    (_, { service, row }) => {
      const values = tried[service].map(({ options }) => (options as Record<string, unknown> | undefined)?.[row.name]);
      const others = 'values' in row ? Object.values(row.values) : 'of' in row ? row.of : [];
      expect(values.some(value => value !== undefined)).toBe(true);
      expect(others.filter(value => value !== defaultOf(row) && !values.flat().includes(value))).toEqual([]);
    },
  );
});

describe('The help desk', () => {
  it.each(DESK.map(one => [nameOf(one), one] as const))('%s', (_, one) => runDeskCase(one));
});

describe('The book catalog', () => {
  it.each(BOOKS.map(one => [nameOf(one), one] as const))('%s', (_, one) => runBooksCase(one));
});
