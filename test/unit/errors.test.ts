import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { bearerDialect } from '../../src/engine/http/bearer-dialect.ts';
import {
  Away,
  describeOutage,
  isAway,
  machineRefusal,
  messageOf,
  quotedBy,
  quoting,
  Retry,
  StreamFailed,
  stackOf,
} from '../../src/errors.ts';
import { booksDialect } from '../../src/sources/books/dialect.ts';
import { getVolume } from '../../src/sources/books/endpoints.ts';
import { helpdeskDialect } from '../../src/sources/helpdesk/dialect.ts';

const withCode = (code: string) => Object.assign(new Error('what it says'), { code });
const ofPostgres = (code: string) => Object.assign(new pg.DatabaseError('what it says', 12, 'error'), { code });

describe('what is waited for, since the database or the way to it is away', () => {
  test.for([
    // A connection that failed, a server that may not be written to, and a session that idled.
    ...['08000', '08006', '25006', '25P03', '57P05'],
    // A disk or a memory that is full, and too many connections.
    ...['53000', '53100', '53200', '53300'],
    // A server that stops, has crashed, starts, or whose database is gone.
    ...['57P01', '57P02', '57P03', '57P04'],
  ])('PostgreSQL: %s', code => {
    expect(isAway(ofPostgres(code))).toBe(true);
  });

  test.for([
    ...['ECONNABORTED', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EHOSTDOWN', 'EHOSTUNREACH'],
    ...['ENETDOWN', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN', 'EMFILE', 'ENFILE'],
  ])('the network: %s', code => {
    expect(isAway(withCode(code))).toBe(true);
  });

  test.for([
    'Connection terminated unexpectedly',
    'Connection terminated due to connection timeout',
    'Client has encountered a connection error and is not queryable',
    'Client was closed and is not queryable',
    'timeout exceeded when trying to connect',
  ])('a connection that broke: %s', message => {
    expect(isAway(new Error(message))).toBe(true);
  });
});

test.for([
  ["READONLY You can't write against a read only replica.", true],
  ["OOM command not allowed when used memory > 'maxmemory'.", true],
  ['MISCONF Redis is configured to save RDB snapshots, but it is unable to persist to disk.', true],
  ['LOADING Redis is loading the dataset in memory', true],
  ['WRONGTYPE Operation against a key holding the wrong kind of value', false],
] as const)('a Redis that says %s: waited for is %s', ([message, waited]) => {
  expect(isAway(Object.assign(new Error(message), { name: 'ReplyError' }))).toBe(waited);
});

describe('what is not', () => {
  test.for([
    // Mistakes in a statement or a value, and what a right is missing for.
    ...['25001', '25P02', '22003', '23505', '28P01', '40P01', '42P01', '42501', '57014', 'XX000'],
    // A statement that needs more than it may have, however often.
    ...['53400', '54000'],
  ])('PostgreSQL: %s', code => {
    expect(isAway(ofPostgres(code))).toBe(false);
  });

  test.for(['ENOSPC', 'EACCES', 'ERR_INVALID_URL'])('the machine: %s', code => {
    expect(isAway(withCode(code))).toBe(false);
  });

  test.for([new Error('below zero'), new TypeError('x is not a function'), 'ECONNREFUSED', undefined])(
    'anything else: %s',
    error => {
      expect(isAway(error)).toBe(false);
    },
  );
});

test.for([
  [Object.assign(new Error('x'), { code: 'ENOSPC' }), 'the disk is full (ENOSPC)'],
  [Object.assign(new Error('x'), { code: 'EACCES', path: '/lake' }), 'this user has no right to it: /lake (EACCES)'],
  [Object.assign(new Error('x'), { code: 'EMFILE' }), 'this process may open no more files (EMFILE)'],
  [
    Object.assign(new Error('x'), { code: 'ENOENT', syscall: 'uv_cwd' }),
    'the folder in which the command runs was deleted (ENOENT)',
  ],
  [Object.assign(new Error('x'), { code: 'ENOENT', syscall: 'open' }), undefined],
  [new TypeError('x is not a function'), undefined],
] as const)('a refusal of the machine is said with its remedy, and is no bug: %s', ([error, says]) => {
  const refusal = machineRefusal(error);
  expect(refusal?.message).toBe(says);
  if (says !== undefined)
    expect(refusal).toMatchObject({ exitCode: 1, remedy: expect.stringMatching(/\w{10}|\w+ \w+/) });
});

describe('what is said of it', () => {
  test.for([
    ['25006', 'the database cannot be used: read-only (what it says)'],
    ['53100', 'the database cannot be used: disk full (what it says)'],
    ['53200', 'the database cannot be used: out of memory (what it says)'],
    ['53300', 'the database cannot be used: too many connections (what it says)'],
    ['57P03', 'the database cannot be used: starting or stopping (what it says)'],
    ['08006', 'the database does not answer: what it says'],
  ] as const)('%s', ([code, words]) => {
    expect(describeOutage(ofPostgres(code))).toBe(words);
    // As people are told it, it is waited for as well, and keeps its words.
    const told = new Away(ofPostgres(code));
    expect([isAway(told), describeOutage(told, 'the warehouse'), told.exitCode]).toEqual([true, words, 1]);
  });

  test('an error of Redis has its cause too, and the missing server has the name that the caller gives', () => {
    const full = Object.assign(new Error('MISCONF it says'), { name: 'ReplyError' });
    expect(describeOutage(full)).toBe('Redis cannot be used: it cannot write to its disk (MISCONF it says)');
    expect(describeOutage(withCode('ECONNREFUSED'), 'the queue')).toBe('the queue does not answer: what it says');
  });
});

describe('what is stored of an error', () => {
  const said = (text: string) => ({ status: 422, header: () => undefined, text, withToken: true });
  const dialects = {
    helpdesk: helpdeskDialect,
    books: booksDialect({ apiKey: 'key', hasToken: true }),
    bearer: bearerDialect({ address: 'ADDRESS', token: 'TOKEN' }),
  };

  test.for(Object.entries(dialects))('%s: no failure has a word of the reply', ([, dialect]) => {
    const words = 'Ann Example <ann@example.org>';
    const bodies = [
      words,
      `<html>${words}</html>`,
      JSON.stringify({ message: words, error: { message: words, status: words, errors: [{ reason: words }] } }),
    ];
    for (const status of [302, 400, 401, 403, 404, 408, 409, 410, 422, 429, 451, 500, 503])
      for (const text of bodies) {
        const { message, remedy } = dialect.failure(
          getVolume('v'),
          { ...said(text), status },
          { shown: 'GET /it', asOf: 0 },
        );
        expect(message).toMatch(new RegExp(`^GET /it: ${status}\\b`));
        expect(message + remedy).not.toMatch(/ann/i);
      }
  });

  test('the words are found through causes and wrapping errors, and in no property', () => {
    const error = quoting(new Retry('GET /it: 500'), 'Ann Example');
    const outer = new StreamFailed('tickets', new Retry(`${error.message}; gave up`, error));
    expect(quotedBy(outer)).toBe('Ann Example');
    expect(inspect(outer, { depth: 9, showHidden: true })).not.toContain('Ann');
  });

  test('values that PostgreSQL, DuckDB or a parser quotes are left out of the message', () => {
    const refused = Object.assign(new Error('invalid input syntax for type integer: "Ann"'), { code: '22P02' });
    expect(messageOf(refused)).toBe('the database refuses a value (22P02)');
    for (const before of ['', 'the lake: '])
      expect(messageOf(new Error(`${before}Conversion Error: Could not convert string "Ann"`))).toBe(
        'the database refuses a value (Conversion Error)',
      );
    expect(messageOf(new SyntaxError('Unexpected token A in JSON: Ann'))).toBe('a text could not be parsed');
    expect(messageOf(Object.assign(new Error('relation "x" does not exist'), { code: '42P01' }))).toBe(
      'relation "x" does not exist',
    );
  });
});

test('the stack of a bug names the source of each line, where many share a file', () => {
  const bundled = join(mkdtempSync(join(tmpdir(), 'stack-')), 'chunk.js');
  writeFileSync(bundled, '// src/first.ts\none();\n// src/engine/second.ts\n  // a word\ntwo();\n');
  const { href } = pathToFileURL(bundled);
  const lines = [`${href}:5:9`, `${href}:2:28`, 'file:///nowhere/a.js:1:2', 'node:internal/x:1:1'];
  const error = Object.assign(new Error('a bug'), { stack: lines.map(line => `    at f (${line})`).join('\n') });
  const sources = [', src/engine/second.ts', ', src/first.ts', '', ''];
  expect(stackOf(error)).toBe(lines.map((line, n) => `    at f (${line}${sources[n]})`).join('\n'));
});
