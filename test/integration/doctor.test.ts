/** The doctor finds what is well to be well, and which reading of its specification the help desk follows, in both. */
import { describe, expect, test } from 'vitest';
import { startSandbox } from '../../packages/sandbox/src/server.ts';
import { settingsFor } from '../support/cli.ts';
import { examined } from '../support/examined.ts';
import { long } from '../support/long.ts';
import { configFor, syncOnce } from '../support/mirror.ts';
import { freshDatabase } from '../support/postgres.ts';

const open = {
  sinceInclusive: true,
  spamListed: true,
  trashListed: true,
  archivedListed: true,
  snoozedListed: true,
  quietly: [],
} as const;
const closed = {
  sinceInclusive: false,
  spamListed: false,
  trashListed: false,
  archivedListed: false,
  snoozedListed: false,
  quietly: ['reply', 'note'],
} as const;

describe.each([
  ['the one', open, { since: 'inclusive', listed: 'listed', moves: 'yes' }, {}],
  ['the other', closed, { since: 'exclusive', listed: 'hidden', moves: 'no' }, long],
] as const)('readings: %s', (_, readings, expected, takes) => {
  test('each is found out once, with few credits, and remembered', takes, async () => {
    await using db = await freshDatabase();
    await using stack = new AsyncDisposableStack();
    const sandbox = await startSandbox({
      ...readings,
      tickets: 20,
      customers: 5,
      credits: 1e9,
      requestsPerSecond: 1e9,
    });
    stack.defer(() => sandbox.close());
    const { world } = sandbox;
    const quiet = [...world.tickets.values()].filter(({ state }) => state !== 'snoozed' && state !== 'archived');
    const [spam, trash, archived, snoozed, replied, noted] = quiet.map(({ id }) => id);
    world.setSpam(spam!, true);
    world.setTrash(trash!, true);
    world.addMessage(replied!, { direction: 'out' });
    world.addNote(noted!);
    await syncOnce(configFor(db.url, sandbox));
    // What the mirror had, before they were archived and snoozed: their rows are old.
    world.archive(archived!);
    world.patchTicket(snoozed!, { state: 'snoozed', snoozed_until: '2099-01-01T00:00:00Z' });
    await db.pool.query(`update helpdesk.tickets set state = 'archived' where id = $1`, [archived]);
    await db.pool.query(`update helpdesk.tickets set state = 'snoozed' where id = $1`, [snoozed]);
    await db.pool.query(`delete from helpdesk.tickets where state in ('archived', 'snoozed') and id <> all($1)`, [
      [archived, snoozed],
    ]);

    const settings = settingsFor(db.url, sandbox);
    const before = sandbox.totals.credits;
    const first = await examined(settings);
    const answerOf = (name: string) => /^[\w-]+/.exec(first.of(name).says)![0];
    expect(answerOf('since')).toBe(expected.since);
    for (const name of ['spam', 'trash', 'archived', 'snoozed'])
      expect([name, answerOf(`${name} in lists`)]).toEqual([name, expected.listed]);
    expect(answerOf('a reply moves its ticket')).toBe(expected.moves);
    expect(answerOf('a note moves its ticket')).toBe(expected.moves);
    expect(answerOf('order of lists')).toBe('yes');
    // It says before how many it may be, and after how many the help desk has counted.
    const most = Number(/^\d+/.exec(first.of('credits of this examination').says)![0]);
    expect(first.credits).toBe(sandbox.totals.credits - before);
    expect(first.credits).toBeLessThanOrEqual(most);
    expect(first.states().fail).toBeUndefined();
    for (const secret of [sandbox.token, new URL(db.url).password]) expect(JSON.stringify(first)).not.toContain(secret);

    const again = await examined(settings);
    expect(again.credits).toBe(1);
    expect(again.of('since').says).toContain('found out on 20');
    // Of what is unknown only that is asked again which no request could tell.
    expect(again.of('credits of this examination').says).toMatch(/^3 at most/);
    const anew = await examined(settings, { again: true });
    expect(anew.credits).toBe(first.credits);
  });
});
