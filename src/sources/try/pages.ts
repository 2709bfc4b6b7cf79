/** Questions about the pages of a list: how long they are, whether the next one is another one, and what counts them. */
import { isObject } from '../../engine/http/request.ts';
import type { Ask } from '../../engine/reading/reading.ts';
import { count } from '../../words.ts';
import { timeOf } from '../record/check.ts';
import { isBeyondDoubles, type Page, totalsIn } from './page.ts';
import { read, readIfAny, type Trying } from './trying.ts';

/** Where the second page begins, as the reader of the list asks for it. */
const secondAsk = ({ pages }: Trying, first: Page, ask: Ask): Ask | undefined => {
  const behind = { ...ask, page: 2, behind: first.records.length };
  // A list by number, and one of changes by offset, names no next place.
  const isNamed = first.next !== undefined;
  if (pages.type === 'cursor') return isNamed ? { ...behind, cursor: first.next! } : undefined;
  return isNamed ? { ...behind, cursor: first.next! } : behind;
};

/** Reads the first page and the second one. Undefined: no page came. */
export async function tryPages(trying: Trying, ask: Ask, isWhole: boolean): Promise<Page | undefined> {
  const { notes, places, pages, stream } = trying;
  const first = await read(trying, ask);
  if (first === undefined) return undefined;
  if (first.records.length === 0) {
    notes.open('the list is empty: its order, pages and fields are not known');
    return first;
  }
  noteIds(trying, first);
  noteTotal(trying, trying.request(ask).within, first);
  if (first.nextFault)
    notes.wrong(first.nextFault.message, places.option(stream.path, 'cursorPath'), first.nextFault.remedy);
  const n = first.records.length;
  if (pages.type === 'single_page') {
    const words = `the reply has ${count(n, 'record')}`;
    if (n % 10 === 0 && n >= 20) notes.open(`${words}: is that the whole list, or a page of it?`);
    else notes.seen(words);
  }
  if (pages.type === 'single_page' || first.nextFault) return first;
  const place = secondAsk(trying, first, ask);
  const isOverlapping = isWhole && pages.type === 'offset';
  const second =
    place && !(isOverlapping && first.next === undefined) ? (await readIfAny(trying, place)).page : undefined;
  if (second !== undefined) second.records.forEach((record, i) => void trying.seen.set(second.ids[i]!, record));
  const isMore = (second?.ids ?? []).some(id => !first.ids.includes(id));
  noteLength(trying, n, isMore);
  if (first.total !== undefined && first.total > n && second !== undefined && !isMore && n < ask.perPage)
    notes.wrong(
      `${(pages as { totalPath?: string }).totalPath} is ${first.total}, and all pages have ${count(n, 'record')}: the list hides some, or it moves`,
      places.option(stream.path, 'totalPath'),
      "take totalPath out; and if the list hides records that exist: deletionsUnknown: 'why'",
    );
  if (second !== undefined && second.records.length > 0 && (n >= ask.perPage || isMore)) {
    noteBorder(trying, first, second, isOverlapping);
    noteCursor(trying, first, second);
    if (n >= ask.perPage) await tryLonger(trying, ask);
  } else if (n >= 4) await tryShorter(trying, ask, n, isOverlapping);
  else notes.open(`the list has ${count(n, 'record')}: its pages are not known`);
  if (pages.type === 'page_number') await tryPageBefore(trying, ask, first);
  return first;
}

function noteIds({ notes, places, stream }: Trying, { ids }: Page): void {
  const beyond = ids.filter(isBeyondDoubles).length;
  if (beyond > 0) notes.seen(`ids beyond 2^53: as text each digit stays`);
  const twice = ids.filter((id, i) => id !== '' && ids.indexOf(id) < i);
  if (twice.length > 0)
    notes.wrong(
      `${count(twice.length, 'id')} of a page ${twice.length === 1 ? 'is' : 'are'} there twice, such as ${twice[0]}`,
      places.stream(stream.path),
      'declare a list that shows each record once',
    );
}

function noteLength({ notes, places, pages, stream }: Trying, n: number, isMore: boolean): void {
  if (pages.type === 'single_page') return;
  const { limit } = pages;
  const at = places.option(stream.path, 'limit');
  if (n > limit)
    notes.wrong(
      `a page has ${count(n, 'record')}, and ${limit} are declared`,
      at,
      `limit: ${n}${pages.limitParam === undefined ? '' : ', and correct limitParam'}`,
    );
  else if (n < limit && isMore)
    notes.wrong(`a page has ${count(n, 'record')} at most, and ${limit} are declared`, at, `limit: ${n}`, {
      cap: n / limit,
    });
  else if (n === limit) notes.seen(`a page has the ${limit} records that are declared`);
}

/** Whether the second page continues the first one. */
function noteBorder({ notes, places, pages, stream }: Trying, first: Page, second: Page, isOverlapping: boolean): void {
  if (pages.type === 'single_page') return;
  const param = { offset: 'offsetParam', page_number: 'pageParam', cursor: 'cursorParam' }[pages.type];
  const known = pages[param as keyof typeof pages];
  const shared = second.ids.filter(id => first.ids.includes(id));
  const isSame = first.ids.length > 1 && second.ids[0] === first.ids[0];
  const at = places.option(stream.path, param);
  if (isSame)
    notes.wrong(
      `the second page begins as the first one: the service does not know ${known}`,
      at,
      `the name of the parameter as ${param}, or another type of paginator`,
    );
  else if (isOverlapping && second.ids[0] !== first.ids.at(-1))
    notes.wrong(
      'a page that begins at the last record of the page before shows another one there: the list has no fixed order, or it moves',
      places.stream(stream.path),
      "params with a fixed order, such as { sort: 'id' }; try again if it may have moved",
    );
  else if (!isOverlapping && shared.length > 0)
    notes.wrong(
      `${count(shared.length, 'record')} of the first page ${shared.length === 1 ? 'is' : 'are'} on the second one too: the list has no fixed order, or it moves`,
      places.stream(stream.path),
      "params with a fixed order, such as { sort: 'id' }; try again if it may have moved",
    );
}

/** A cursor has to be a place in the list: one that counts loses what moves up, and one that tells a time what shares it. */
function noteCursor({ notes, places, pages, stream }: Trying, first: Page, second: Page): void {
  const { next } = first;
  if (pages.type !== 'cursor' || next === undefined || [...first.ids, ...second.ids].includes(next)) return;
  const { cursorParam, cursorPath } = pages;
  const at = places.option(stream.path, 'cursorPath');
  const last = first.records.at(-1);
  const isTime = isObject(last) && Object.values(last).some(value => timeOf(String(value)) === timeOf(next));
  if (isTime)
    notes.wrong(
      `${cursorPath} is the time of the last record: others of the same time would be lost`,
      at,
      'another cursor, or another type of paginator',
    );
  const n = first.records.length;
  const counts = (of: number, step: number) =>
    Number(next) === of && (second.next === undefined || Number(second.next) === of + step);
  if (counts(n, second.records.length))
    notes.wrong(
      `${cursorPath} is a number of records: records that move up would be lost`,
      at,
      `paginator: { type: 'offset', offsetParam: '${cursorParam}', … }`,
    );
  else if (counts(1, 1) || counts(2, 1))
    notes.wrong(
      `${cursorPath} is the number of a page: records that move up would be lost`,
      at,
      `paginator: { type: 'page_number', pageParam: '${cursorParam}', … }`,
    );
}

/** Asks for more than is declared. */
async function tryLonger(trying: Trying, ask: Ask): Promise<void> {
  const { notes, places, pages, stream } = trying;
  if (pages.type === 'single_page' || pages.limitParam === undefined) return;
  const wanted = pages.limit * 2;
  const { page, answer } = await readIfAny(trying, { ...ask, perPage: wanted });
  const n = page?.records.length;
  if (n === undefined) notes.seen(`a page of ${wanted} is refused with ${answer.status}`);
  else if (n > pages.limit) notes.seen(`a page of ${n} is given too, when ${wanted} are asked for`);
  else if (n === pages.limit) notes.seen(`no more than ${n} are given when ${wanted} are asked for`);
  else
    notes.wrong(
      `a page has ${n} records when ${wanted} are asked for: ${pages.limitParam} is not the size of a page`,
      places.option(stream.path, 'limitParam'),
      'correct limitParam',
    );
}

/** A list that fits into a page is asked for shorter ones. */
async function tryShorter(trying: Trying, ask: Ask, n: number, isOverlapping: boolean): Promise<void> {
  const { notes, places, pages, stream } = trying;
  if (pages.type === 'single_page' || pages.limitParam === undefined)
    return notes.open(
      `all ${n} records are on one page: whether it has at most ${pages.type === 'single_page' ? n : pages.limit} is not known`,
    );
  const perPage = Math.floor(n / 2);
  const shorter = { ...ask, perPage };
  const { page: first } = await readIfAny(trying, shorter);
  if (first === undefined) return;
  if (first.records.length > perPage)
    return notes.wrong(
      `${perPage} records were asked for, and ${first.records.length} came: the service does not know ${pages.limitParam}`,
      places.option(stream.path, 'limitParam'),
      'correct limitParam, or leave it out and declare the length of its pages',
    );
  if (first.nextFault)
    return notes.wrong(first.nextFault.message, places.option(stream.path, 'cursorPath'), first.nextFault.remedy);
  const place = secondAsk(trying, first, shorter);
  const second = place && (await readIfAny(trying, place)).page;
  if (second !== undefined && second.records.length > 0) {
    noteBorder(trying, first, second, isOverlapping);
    noteCursor(trying, first, second);
  }
  notes.seen(
    `all ${n} records are on one page, and shorter pages are as asked for; whether one of ${pages.limit} is given is not known`,
  );
}

/** A service that counts its pages from 0 shows another one before the first. */
async function tryPageBefore(trying: Trying, ask: Ask, first: Page): Promise<void> {
  const { notes, places, pages, stream } = trying;
  if (pages.type !== 'page_number') return;
  const base = pages.basePage ?? 1;
  if (base < 1) return;
  const { page } = await readIfAny(trying, { ...ask, page: 0 });
  const other = page?.ids.filter(id => !first.ids.includes(id)) ?? [];
  if (other.length > 0)
    notes.wrong(
      `page ${base - 1} has ${count(other.length, 'record')} that page ${base} does not show: the pages begin earlier`,
      places.option(stream.path, 'pageParam'),
      `basePage: ${base - 1}`,
    );
}

/** The number of all records: declared, or told and not declared. */
function noteTotal(
  { notes, places, pages, stream }: Trying,
  within: string | undefined,
  { total, records, body }: Page,
): void {
  if (pages.type !== 'offset' && pages.type !== 'page_number') return;
  const told = totalsIn(body, within);
  if (pages.totalPath === undefined) {
    if (told.length > 0)
      notes.note(
        `the body counts all records at ${told.join(', ')}`,
        places.option(stream.path, 'paginator'),
        `totalPath: '${told[0]}'`,
      );
  } else if (total === undefined)
    notes.wrong(
      `the body has no number at ${pages.totalPath}`,
      places.option(stream.path, 'totalPath'),
      told.length > 0 ? `totalPath: '${told[0]}'` : 'take totalPath out',
    );
  else if (total < records.length)
    notes.wrong(
      `${pages.totalPath} is ${total}, and a page has ${count(records.length, 'record')}: it does not count all of them`,
      places.option(stream.path, 'totalPath'),
      'take totalPath out',
    );
  else notes.seen(`${pages.totalPath} is ${total}`);
}
