/** `warehouse`: settings that live in the database, for all who read it. */
import type { Command } from 'commander';
import type { Act, Deps } from '../../command.ts';
import { addCalendar } from './calendar.ts';
import { addFields } from './fields.ts';
import { addReader } from './reader.ts';
import { addSearch } from './search.ts';
import { addTarget } from './target.ts';

export function addWarehouse(program: Command, deps: Deps, act: Act): void {
  const warehouse = program
    .command('warehouse')
    .summary('set up readers, calendars, targets, fields and search')
    .description('settings of the warehouse: who reads it, business hours, service targets, fields and search');
  for (const add of [addReader, addCalendar, addTarget, addFields, addSearch]) add(warehouse, deps, act);
}
