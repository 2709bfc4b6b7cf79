/**
 * Migrations and tables run as their files say, but for two expressions that fail where this program must work. The files are
 * frozen, because an edited migration would leave databases that differ under one name.
 */
import type pg from 'pg';

/**
 * - A name becomes a role only if it is quoted: `svc.app@example.iam`, `Ana B`.
 * - An empty schema may be there: who owns the database makes it for a role that may make none.
 */
export const asRun = (sql: string): string =>
  sql
    .replaceAll('current_user::regrole', 'quote_ident(current_user)::regrole')
    .replaceAll(/^create schema (?!if not exists )/gm, 'create schema if not exists ');

/** The same session for node-pg-migrate, which runs the files as they stand. */
export function runner(client: pg.Client): pg.Client {
  const query = (sql: unknown, ...more: unknown[]) =>
    (client.query as (...given: unknown[]) => unknown)(typeof sql === 'string' ? asRun(sql) : sql, ...more);
  return Object.assign(Object.create(client) as pg.Client, { query });
}
