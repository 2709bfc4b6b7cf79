/**
 * A made-up source with people: contacts with an e-mail address, phone numbers (a column alone), a chat name (in `_payload`
 * alone), and postal addresses in a table of their own.
 */
import type pg from 'pg';
import {
  apart,
  buildMerge,
  derived,
  elements,
  page,
  text,
  textAt,
  texts,
  time,
} from '../../src/engine/commit/merge.ts';
import { addMirrors } from '../../src/engine/database/mirrors.ts';
import { rulesOf } from '../../src/privacy/declared.ts';
import { identify, type PersonalData, type Stream } from '../../src/sources/source.ts';

const personal: PersonalData = { columns: ['name', 'note', 'street'], contacts: ['mail', 'phones', 'chat'] };

export const contacts = {
  kind: 'list',
  ...identify('crm', 'contacts'),
  personal,
  merge: buildMerge(
    {
      name: 'crm.contacts',
      from: page,
      leftOut: ['addresses', 'note', 'phones'],
      columns: [
        text('id'),
        text('name'),
        text('mail', 'email'),
        // Not declared as personal: it is taken out of a field that is.
        derived('mail_domain', `split_part(record ->> 'mail', '@', 2)`),
        apart(texts('phones')),
        apart(text('note')),
        text('stage'),
        textAt('company.id', 'company_id'),
        time('created_at'),
      ],
    },
    [
      {
        name: 'crm.addresses',
        from: `(select p.id as contact_id, a.record, row_number() over (order by p.n, a.n) as n
          from contacts_row p join contacts_written using (id),
            ${elements(`p.record -> 'addresses'`)} with ordinality as a (record, n)) e`,
        parent: 'contact_id',
        columns: [text('id'), derived('contact_id', 'contact_id'), text('street')],
      },
    ],
  ),
} as const;

export const contactRules = rulesOf(contacts)!;

/** Its tables and masked views, as a migration makes them. */
export async function makeCrm(pool: pg.Pool): Promise<void> {
  const client = await pool.connect();
  const streams = [{ ...contacts, jobs: {} } as unknown as Stream];
  try {
    const schemaFiles = [new URL('crm.sql', import.meta.url)];
    await addMirrors(client as unknown as pg.Client, [{ name: 'crm', streams, schemaFiles }]);
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
  company: { id: 'f1', name: 'Acme' },
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
