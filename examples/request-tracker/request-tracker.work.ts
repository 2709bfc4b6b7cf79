/** Works on Request Tracker through its own interface, as people do: node request-tracker.work.ts SECONDS. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { client, env, oneOf, work } from '../work.ts';

// What a ticket is in may not allow the change, as when it was deleted; then Request Tracker answers with any of these.
const ask = client(
  env('RT_BASE_URL'),
  { authorization: `token ${env('RT_KEY')}` },
  [400, 403, 404, 409, 412, 422, 500],
);
const word = () => oneOf(['lamp', 'door', 'wire', 'bolt', 'hinge', 'Ärger', '🔧', '"quoted"']);
const address = () => `a${Math.floor(Math.random() * 200)}@example.org`;

let newest = Number((await ask('GET', '/tickets?query=id+%3E+0&orderby=id&order=DESC&per_page=1')).items[0]?.id ?? 0);
/** A ticket of the last hundreds, or a very old one. */
const some = () =>
  Math.random() < 0.8 ? Math.max(1, newest - Math.floor(Math.random() * 200)) : 1 + Math.floor(Math.random() * newest);

async function create() {
  const ticket = { Queue: 'General', Subject: `${word()} ${word()}`, Content: 'It is broken.', Requestor: address() };
  newest = Math.max(newest, Number((await ask('POST', '/ticket', ticket)).id));
}
const change = (fields: object, id = some()) => ask('PUT', `/ticket/${id}`, fields);
const write = (how: 'comment' | 'correspond') =>
  ask('POST', `/ticket/${some()}/${how}`, { Content: `${word()}: a note`, ContentType: 'text/plain' });
/** Many changes within a second or two. */
const all = () => Promise.all(Array.from({ length: 20 }, () => change({ Priority: Math.floor(Math.random() * 100) })));
/** Only its own tool removes a ticket with all that belongs to it. */
const shred = () =>
  promisify(execFile)('rt-shredder-5', [
    '--force',
    '--sqldump',
    'shredded.sql',
    '--plugin',
    `Tickets=query,id=${some()}`,
  ]);

await work([
  [8, create],
  [8, () => change({ Subject: `${word()} again` })],
  [6, () => write('comment')],
  [6, () => write('correspond')],
  [6, () => change({ Status: oneOf(['open', 'stalled', 'resolved', 'rejected']) })],
  [2, () => change({ Owner: oneOf(['root', 'Nobody']) })],
  [1, all],
  [2, () => change({ MergeInto: some() })],
  [2, () => ask('DELETE', `/ticket/${some()}`)],
  [1, shred],
  [1, () => ask('PUT', `/user/${address()}`, { RealName: `${word()} Meyer` })],
  [1, () => ask('PUT', `/user/${address()}`, { Disabled: oneOf([0, 1]) })],
]);
