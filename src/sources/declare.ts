/** What declares a source. A file in any folder imports it as `shelfdesk/source`. */
export {
  children,
  date,
  flag,
  id,
  integer,
  known,
  number,
  object,
  objects,
  oneOf,
  record,
  reference,
  references,
  text,
  texts,
  textsByName,
  time,
} from './record/record.ts';
export { created, details, feed, fullRefresh, incremental } from './service/declared.ts';
export { defineService, perDay, perHour, perMinute, perSecond } from './service/service.ts';
