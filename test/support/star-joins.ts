/** Every join of the star that its comments speak of, as a BI tool writes it: one fact, one relation that it joins, by one key. */
import { isOfStar, nameOf, type Schema } from '../../src/analytics/catalog.ts';

export interface StarJoin {
  /** `fact_turns.ticket_key` */
  readonly name: string;
  readonly sql: string;
}

export function starJoins(schemas: readonly Schema[]): StarJoin[] {
  const star = schemas.flatMap(schema => schema.relations).filter(isOfStar);
  return star.flatMap(relation =>
    relation.joins
      .filter(({ to, columns }) => columns.length === 1 && star.some(one => nameOf(one) === to))
      .map(({ to, columns, fields }) => ({
        name: `${relation.name}.${columns[0]}`,
        // Of both sides a column is counted, so that neither is left out.
        sql: `select count(f.${relation.key[0]}), count(d.${fields[0]}) from ${nameOf(relation)} f join ${to} d on d.${fields[0]} = f.${columns[0]}`,
      })),
  );
}
