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
export { perDay, perHour, perMinute, perSecond } from './service/limits.ts';
export { defineService } from './service/service.ts';
