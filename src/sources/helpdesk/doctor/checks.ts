/** Checks of the help desk: reachability, token, limits, and other clients. */

import { limitsTold } from '../../../engine/budget/limits-told.ts';
import { command } from '../../../engine/runs/pauses.ts';
import {
  answered,
  fail,
  ok,
  type SourceCheck,
  type SourceContext,
  skipped,
  warn,
} from '../../../ops/doctor/checks/check.ts';
import { judgeSource } from '../../../ops/doctor/checks/clocks.ts';
import { readClocks } from '../../../status/off-clocks.ts';
import { count } from '../../../words.ts';
import type { HelpdeskPart } from '../settings.ts';
import { oldestTickets } from './oldest-tickets.ts';

const dayMs = 24 * 3_600_000;

export const helpdeskChecks: readonly SourceCheck<HelpdeskPart>[] = [
  {
    name: 'help desk',
    looks: 'reachability of the help desk, its token (401), and the right to read tickets (403); one request',
    // Requests go only to the help desk that the account has mirrored: they spend its credits.
    needs: ['tables', 'sources of the account'],
    async run(context) {
      if (context.config.helpdesk === undefined) return skipped('the help desk is not configured');
      const told = await limits(context);
      const frozenMs = told ? told.frozen_until.getTime() - (await databaseNow(context)) : 0;
      if (frozenMs > 0)
        return fail(
          `it refuses everybody's requests for another ${Math.ceil(frozenMs / 1000)} s (429), so nothing was asked`,
          'Wait, and run `npx shelfdesk doctor` again. If it happens often, look at HELPDESK_RESERVE and the other tools of the account.',
        );
      return answered(oldestTickets(context), ({ arrived, unreadable }) => {
        if (unreadable.length === 0) return ok(`it answers, and takes the token; ${count(arrived, 'ticket')} came`);
        return warn(
          `it answers, and ${unreadable.length} of ${count(arrived, 'ticket')} ${unreadable.length === 1 ? 'is' : 'are'} not as documented: ${unreadable[0]!.reason}`,
          `See ${command(context.account, 'rejects drift')} and ${command(context.account, 'rejects list')} after the next run.`,
        );
      });
    },
  },
  {
    name: 'clock of the help desk',
    looks: 'Date header of the reply and times of its records against the clocks of this machine and the database',
    needs: ['help desk'],
    async run(context) {
      await oldestTickets(context);
      const { pg } = await context.warehouse();
      const off = await readClocks(pg, [context.account], context.clock, () => 'the help desk');
      return judgeSource(off, 'helpdesk');
    },
  },
  {
    name: 'limits',
    looks: 'limit that the help desk announces against HELPDESK_CREDITS',
    needs: ['help desk'],
    async run(context) {
      await oldestTickets(context);
      const { credits } = context.config.limits;
      const limit = (await limits(context))?.limit ?? undefined;
      if (limit === undefined) return ok('it does not tell any: the settings hold');
      if (limit < credits)
        return warn(
          `it allows ${count(limit, 'credit')}, and HELPDESK_CREDITS is ${credits}: the lower one is kept to, and forecasts are wrong`,
          `Set HELPDESK_CREDITS=${limit}.`,
        );
      if (limit > credits)
        return ok(`it allows ${count(limit, 'credit')}, of which HELPDESK_CREDITS lets everybody have ${credits}`);
      return ok(`${count(limit, 'credit')}, as HELPDESK_CREDITS says`);
    },
  },
  {
    name: 'use by others',
    looks: 'highest use of other tools in one period of the last day against HELPDESK_RESERVE',
    needs: ['help desk'],
    async run(context) {
      await oldestTickets(context);
      const { reserve, credits } = context.config.limits;
      const others = (await limits(context))?.others ?? 0;
      const says = `other tools used up to ${count(others, 'credit')} in a period, ${reserve} are left to them`;
      if (others <= reserve) return ok(says);
      const enough = Math.min(others, credits - 4);
      return warn(
        `${says}: they are seen and made room for, but only after they have met us`,
        `Set HELPDESK_RESERVE=${enough}, or let the other tools use less.`,
      );
    },
  },
];

async function limits(context: SourceContext<HelpdeskPart>) {
  const since = new Date((await databaseNow(context)) - dayMs);
  return limitsTold((await context.warehouse()).pg, context.account, 'helpdesk', since);
}

/** The budget uses the database's clock. */
async function databaseNow({ clock, server }: SourceContext<HelpdeskPart>): Promise<number> {
  return clock.now() + (await server()).aheadMs;
}
