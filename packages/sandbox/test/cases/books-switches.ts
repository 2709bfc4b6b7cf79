/** Open questions of the catalog specification: each switch with its default and its other values. */
import { type BooksCase, matching, ofLength, someText } from './case.ts';
import { OWNER } from './worlds.ts';

const rule = 'notes books ';
const MY = '/mylibrary/bookshelves';
const changed = 'volumesLastUpdated';

export const booksSwitches: BooksCase[] = [
  {
    rule: `${rule}shelf`,
    what: `shows ${changed} in lists by default`,
    ask: `GET ${MY}`,
    has: { items: ofLength(10) },
    text: /volumesLastUpdated/,
  },
  {
    rule: `${rule}shelf`,
    what: `shows ${changed} alone only, with shelfDates false`,
    options: { shelfDates: false },
    steps: [
      { ask: `GET ${MY}`, lacks: [`items.0.${changed}`, `items.9.${changed}`] },
      { ask: `GET ${MY}/1001`, has: { [changed]: someText } },
    ],
  },
  ...[true, false].map(
    (moveShows): BooksCase => ({
      rule: `${rule}volumePosition`,
      what: `and ${changed}, with moveShows ${moveShows}`,
      options: { moveShows },
      steps: [
        { ask: `POST ${MY}/1001/moveVolume?volumeId=v3&volumePosition=0`, later: 60 },
        { ask: `GET ${MY}/1001`, has: { [changed]: matching(moveShows ? /T12:01:00/ : /T12:00:00/) } },
      ],
    }),
  ),
  ...[true, false].map(
    (retryAfter): BooksCase => ({
      rule: `${rule}rateLimitExceeded`,
      what: `with retryAfter ${retryAfter}`,
      options: { requestsPerSecond: 1, retryAfter },
      steps: [
        { ask: 'GET /volumes/v1' },
        { ask: 'GET /volumes/v1', status: 429, answers: { 'retry-after': retryAfter ? '1' : null } },
      ],
    }),
  ),
  {
    rule: `${rule}page cap`,
    what: 'cuts pages, and the next page continues behind it',
    options: { pageCap: 4 },
    steps: [
      { ask: 'GET /volumes?q=numbered&maxResults=10', has: { items: ofLength(4) } },
      { ask: `GET ${MY}?maxResults=40`, has: { items: ofLength(4) } },
    ],
  },
  {
    rule: `${rule}startIndex`,
    what: 'of a search no deeper than searchDepth',
    options: { searchDepth: 20 },
    steps: [
      { ask: 'GET /volumes?q=numbered&startIndex=10', has: { items: ofLength(10) } },
      { ask: 'GET /volumes?q=numbered&startIndex=20', lacks: ['items'] },
    ],
  },
  {
    rule: `${rule}fields`,
    what: 'of a name that no reply has: nothing, by the default of fieldsChecked',
    ask: 'GET /volumes/v1?fields=id,nothing',
    is: { id: 'v1' },
  },
  {
    rule: `${rule}fields`,
    what: 'of a name that no reply has, with fieldsChecked',
    options: { fieldsChecked: true },
    ask: 'GET /volumes/v1?fields=id,nothing',
    status: 400,
  },
  {
    rule: `${rule}projection`,
    what: 'and what nobody knows: ignored, by the default of parametersChecked',
    ask: 'GET /volumes/v1?flavour=mint',
    has: { id: 'v1' },
  },
  {
    rule: `${rule}projection`,
    what: 'and what nobody knows, with parametersChecked',
    options: { parametersChecked: true },
    ask: 'GET /volumes/v1?flavour=mint',
    status: 400,
  },
  {
    rule: `${rule}volume`,
    what: 'has no userInfo by default',
    ask: `GET ${MY}/1001/volumes`,
    lacks: ['items.0.userInfo'],
  },
  ...(['steady', 'varies'] as const).map(
    (userInfo): BooksCase => ({
      rule: `${rule}volume`,
      what: `has userInfo on my shelves with userInfo ${userInfo}`,
      options: { userInfo },
      steps: [
        { ask: `GET ${MY}/1001/volumes`, has: { items: [{ userInfo: {} }, {}, {}] }, text: /"userInfo":\{"/ },
        { ask: `GET /users/${OWNER}/bookshelves/1001/volumes`, lacks: ['items.0.userInfo'] },
      ],
    }),
  ),
  ...[1, 5, 6, 7, 8].map(
    (shelf): BooksCase => ({
      rule: `${rule}shelf ids`,
      what: `${shelf} refuses changes with fixedShelvesLocked`,
      options: { fixedShelvesLocked: true },
      steps: [
        { ask: `POST ${MY}/${shelf}/addVolume?volumeId=v1`, status: 403 },
        { ask: `POST ${MY}/0/addVolume?volumeId=v1` },
      ],
    }),
  ),
  {
    rule: `${rule}shelf ids`,
    what: 'takes changes by the default of fixedShelvesLocked',
    ask: `POST ${MY}/1/addVolume?volumeId=v1`,
  },
  ...(['stays', 'moves'] as const).map(
    (addedAgain): BooksCase => ({
      rule: 'books 4 addVolume',
      what: `of what is there, with addedAgain ${addedAgain}`,
      options: { addedAgain },
      steps: [
        { ask: `POST ${MY}/1001/addVolume?volumeId=v3` },
        {
          ask: `GET ${MY}/1001/volumes`,
          has: { items: (addedAgain === 'stays' ? ['v1', 'v2', 'v3'] : ['v3', 'v1', 'v2']).map(id => ({ id })) },
        },
      ],
    }),
  ),
  ...['removeVolume?volumeId=v10', 'moveVolume?volumeId=v10&volumePosition=0'].map(
    (operation): BooksCase => ({
      rule: 'books 4 removeVolume',
      what: `${operation} with absentVolume done`,
      options: { absentVolume: 'done' },
      ask: `POST ${MY}/1001/${operation}`,
      is: {},
    }),
  ),
];
