/** Works on Redmine through its own interface, as people do: node redmine.work.ts SECONDS. */
import { client, env, oneOf, work } from '../work.ts';

// 500: of many changes of one issue at once some fail.
const ask = client(env('REDMINE_BASE_URL'), { 'x-redmine-api-key': env('REDMINE_KEY') }, [404, 409, 422, 500]);
const word = () => oneOf(['lamp', 'door', 'wire', 'bolt', 'hinge', 'Ärger', '🔧', '"quoted"']);

await ask('POST', '/projects.json', { project: { name: 'Desk', identifier: 'desk' } });
const listed = async (name: string) =>
  ((await ask('GET', `/${name}.json?limit=100`)) as Record<string, { id: number }[]>)[name]!;
const [statuses, [field]] = [await listed('issue_statuses'), await listed('custom_fields')];
const categories = async () =>
  ((await ask('GET', '/projects/desk/issue_categories.json')) as { issue_categories: { id: number }[] })
    .issue_categories;

/** A ticket of the last hundreds, or a very old one. */
let newest = (await ask('GET', '/issues.json?status_id=*&sort=id:desc&limit=1')).issues[0]?.id ?? 0;
const some = () =>
  Math.random() < 0.8 ? Math.max(1, newest - Math.floor(Math.random() * 200)) : 1 + Math.floor(Math.random() * newest);

async function create() {
  const issue = {
    project_id: 'desk',
    subject: `${word()} ${word()}`,
    description: word().repeat(20),
    estimated_hours: 1.5,
  };
  const custom_fields = [{ id: field!.id, value: word() }];
  const made = await ask('POST', '/issues.json', { issue: { ...issue, custom_fields } });
  newest = Math.max(newest, made?.issue.id ?? 0);
}
const change = (issue: object, id = some()) => ask('PUT', `/issues/${id}.json`, { issue });
/** Many changes within a second. */
const all = () =>
  Promise.all(Array.from({ length: 20 }, () => change({ done_ratio: 10 * Math.floor(Math.random() * 11) })));
/** No list says so. */
async function editNote() {
  const journals = (await ask('GET', `/issues/${some()}.json?include=journals`))?.issue.journals ?? [];
  const noted = journals.find(({ notes }: { notes: string }) => notes);
  if (noted) await ask('PUT', `/journals/${noted.id}.json`, { journal: { notes: `edited: ${word()}` } });
}
/** Of its issues no list says that they have another category now. */
async function dropCategory() {
  const gone = (await categories())[0];
  if (gone) await ask('DELETE', `/issue_categories/${gone.id}.json`);
}
const addUser = (n = Date.now() % 1e9) =>
  ask('POST', '/users.json', {
    user: {
      login: `u${n}`,
      firstname: word(),
      lastname: 'Meyer',
      mail: `u${n}@example.org`,
      password: 'long-enough-1',
    },
  });
async function dropUser() {
  const gone = (await listed('users')).findLast(({ id }) => id > 20);
  if (gone) await ask('DELETE', `/users/${gone.id}.json`);
}

await work([
  [8, create],
  [8, () => change({ subject: `${word()} again`, priority_id: oneOf([1, 2, 3, 4]) })],
  [8, () => change({ notes: `${word()}: a note`, private_notes: Math.random() < 0.2 })],
  [6, () => change({ status_id: oneOf(statuses).id })],
  [2, async () => change({ category_id: oneOf(await categories())?.id ?? '' })],
  [2, () => change({ custom_fields: [{ id: field!.id, value: word() }] })],
  [1, all],
  [2, () => ask('DELETE', `/issues/${some()}.json`)],
  [1, editNote],
  [1, () => ask('POST', '/projects/desk/issue_categories.json', { issue_category: { name: `c${Date.now()}` } })],
  [1, dropCategory],
  [1, () => addUser()],
  [1, dropUser],
]);
