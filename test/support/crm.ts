/**
 * A made-up service with people: contacts with an e-mail address, phone numbers, a chat name, and postal addresses in a
 * table of their own.
 */
import type pg from 'pg';
import { addMirrors } from '../../src/engine/database/mirrors.ts';
import { children, id, oneOf, record, reference, text, texts, time } from '../../src/sources/record/record.ts';
import { fullRefresh } from '../../src/sources/service/declared.ts';
import { defineService } from '../../src/sources/service/service.ts';
import type { ListStream, Row, Stream } from '../../src/sources/source.ts';

const address = record('addresses', 'Addresses.', { id: id(), street: text('Street.').personal('text') });
const contact = record('contacts', 'Contacts.', {
  id: id(),
  name: text('Name.').personal('name'),
  mail: text('E-mail address.').personal('contact', { column: 'email' }),
  phones: texts('Phone numbers.').personal('contact'),
  note: text('Note.').personal('text'),
  chat: text('Chat name.').personal('contact'),
  stage: oneOf(['new', 'won']),
  company_id: reference('companies', 'The company'),
  created_at: time('Creation time.'),
  addresses: children(address),
});

const crm = defineService({
  ...{ name: 'crm', label: 'the CRM', says: 'The CRM.', limits: [] },
  paginator: { type: 'page_number', pageParam: 'page', limit: 100 },
  streams: [fullRefresh(contact, '/contacts')],
});

export const contacts = crm.streams[0] as ListStream<Row> & Stream;

export const contactRules = contacts.personal!;

/** Its tables and masked views, as a migration makes them. */
export async function makeCrm(pool: pg.Pool): Promise<void> {
  const client = await pool.connect();
  try {
    await addMirrors(client as unknown as pg.Client, [crm]);
  } finally {
    client.release();
  }
}

export const ada = (more: object = {}) => ({
  id: 'p1',
  name: 'Ada Secret',
  mail: 'Ada <ADA@secret.example>',
  phones: ['+49 (30) 555-2345'],
  note: 'secret note',
  stage: 'won',
  company_id: 'f1',
  nickname: 'secret nickname',
  created_at: '2026-01-01T00:00:00Z',
  addresses: [{ id: 'a1', street: 'secret street' }],
  ...more,
});

export const bo = (more: object = {}) => ({
  ...{ id: 'p2', name: 'Bo', mail: 'bo@other.example', phones: ['+49 30 777 8888'], note: 'calm', stage: 'new' },
  ...{ created_at: '2026-01-02T00:00:00Z', addresses: [{ id: 'a2', street: 'Elm' }] },
  ...more,
});
