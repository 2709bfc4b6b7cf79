/** A draft of a source of which only the name is known: one list, and the questions that decide how it is read. */
import type { Draft } from './draft.ts';

export const smallDraft = (name: string, as: string): Draft => ({
  name,
  as,
  label: name,
  says: `The service ${name}.`,
  records: [
    {
      as: 'item',
      name: 'items',
      says: 'Items, one row for each.',
      asks: [
        'What does the service call its records? The first text names their table, the second one is its comment.',
        'A record of any list is declared so. Records within it that have an id: lines: children(line).',
      ],
      fields: [
        { code: 'id: id(),' },
        {
          code: "name: text('Name.').personal('name'),",
          asks: [
            'Which fields does the service send? A field that is not declared is counted as drift, and stays in _payload.',
            "Does it tell of a person? .personal('name'), .personal('contact') of an address or a number, .personal('text'); .plain() tells of nobody.",
          ],
        },
        {
          code: "status: oneOf(['open', 'closed']),",
          asks: ['Which values are there? Any other one is stored, and counted as drift.'],
        },
        { code: "amount: number('Its value.'),", asks: ['A number that is written as a text is a text.'] },
        {
          code: "updated_at: time('When it was last changed.').always(),",
          asks: ['Does each change move this time, and does each record have it? Otherwise leave .always() out.'],
        },
      ],
    },
  ],
  options: [
    {
      code: 'limits: [perMinute(60)],',
      asks: [
        'How many requests does it allow? perSecond, perMinute, perHour, perDay, also several of them.',
        "Do headers say what is left? perMinute(60, { remaining: 'X-RateLimit-Remaining', resets: 'X-RateLimit-Reset' })",
      ],
    },
    {
      code: "// keyHeader: 'X-Api-Key',",
      asks: ['Which header carries the key? Without this line it is Authorization: Bearer KEY.'],
    },
    {
      code: "paginator: { type: 'offset', offsetParam: 'offset', limitParam: 'limit', limit: 100 },",
      asks: [
        'How is a list divided? offset, page_number (pageParam), cursor (cursorParam, cursorPath) or single_page.',
        'What is the largest page that it gives? That is the limit.',
      ],
    },
    {
      code: "dataSelector: 'data',",
      asks: ['Where in the body are the records? Without this line the body is the list.'],
    },
  ],
  streams: [
    {
      code: "fullRefresh(item, '/items', { updatedAt: 'updated_at' }),",
      asks: [
        'Can the list be asked for what has changed since a time, and is it then in the order of the changes, oldest first?',
        "incremental(item, '/items', { cursor: 'updated_at', startParam: 'updated_since' }); in the order of creation: created(…).",
        "Is there a request for one record? get: '/items/:id'. Does the list hide records that exist? deletionsUnknown: 'why'.",
      ],
    },
  ],
});
