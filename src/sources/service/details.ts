/** A stream of details, declared in a line: a list of its own for each record of a parent, as the comments of an issue. */

import type { StreamKey } from '../../engine/database/stream-key.ts';
import { detailJobs, pendingOf, replay } from '../../engine/details/detail-jobs.ts';
import type { Part } from '../../engine/forecast/plan-time.ts';
import type { Planning, Question } from '../../engine/forecast/planning.ts';
import type { Request } from '../../engine/http/request.ts';
import { declaredRules } from '../../privacy/declared.ts';
import { checkOf, factsOf } from '../record/check.ts';
import { personalOf } from '../record/personal.ts';
import { mergeOfDetails } from '../record/tables.ts';
import { type DetailStream, identify, type ListStream, type Row, type SourceTable, type Stream } from '../source.ts';
import type { DeclaredDetails, Shared } from './declared.ts';
import { limitOf, pageRequest, wholeReader } from './paginator.ts';

export function detailsOf(
  shared: Shared,
  { record, path, options }: DeclaredDetails,
  of: ListStream<Row>,
  table: SourceTable,
): Stream {
  const { dataSelector: within = shared.dataSelector, paginator: pages = shared.paginator, params } = options;
  const at = (id: string) => path.replace(':id', encodeURIComponent(id));
  const check = checkOf(record) as unknown as Request<Row>['record'];
  const named = { ...identify(shared.name, record.name), merge: mergeOfDetails(table) };
  const personal = personalOf(record);
  const stream: DetailStream<Row, Row> = {
    ...{ kind: 'detail', ...named, of, schedule: [], ...factsOf(record) },
    target: options.target,
    request: id => ({ path: at(id), query: {}, cost: 1, shape: 'single', kind: record.name, record: check }),
    list: {
      ...{ read: wholeReader(pages), perPage: limitOf(pages), isCounted: pages.type !== 'cursor' },
      request(id, ask) {
        const page = pageRequest(pages, within, ask, true);
        return {
          ...{ ...page, path: at(id), query: { ...params, ...page.query }, cost: 1, shape: 'list', kind: record.name },
          ...{ record: check, ofOne: true, ...(within !== undefined && { within }) },
        };
      },
    },
    ...(options.ageDays !== undefined && { ageMs: options.ageDays * 86_400_000 }),
    members: one => (one as unknown as Record<string, readonly unknown[]>)[record.name]!,
    membersField: record.name,
    member: check,
    derive: async () => ({ value: null }),
    derivesFrom: [],
    parameters: (_derived, places, asOfMs) => [places.map(() => new Date(asOfMs))],
    names: [],
    ...(personal && { personal: declaredRules(named, personal) }),
  };
  return {
    ...{ ...stream, replay, relations: [record.name], pending: pendingOf(stream) },
    jobs: detailJobs(stream),
  };
}

/** Those that wait, and the records of a list that is read for the first time. What a later reading brings is not known. */
export async function forecastOf(
  planning: Planning,
  question: Question,
  stream: DetailStream<Row, Row>,
  news: ReadonlyMap<StreamKey, number>,
): Promise<Part> {
  const { partOfDetails } = await import('../../engine/forecast/plan-details.ts');
  const { since, until, again = false } = question.kind === 'backfill' ? question.range : {};
  const many = news.get(stream.of.key) ?? 0;
  if (again) planning.unknown = true;
  planning.assumed.add(
    `${stream.key}: one page for each record that waits or is new; those that change meanwhile are not counted`,
  );
  const scope = { fromMs: since?.getTime(), toMs: until?.getTime() };
  return partOfDetails(planning, stream, { records: [], many, fresh: 0 }, scope);
}
