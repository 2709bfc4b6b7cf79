/** `why <ticket>`: history of a ticket in the mirror, with runs and credits, and the reasons why it is not fresher. */
import type { Command } from 'commander';
import type pg from 'pg';
import { type Shown, statusShown, unmasked } from '../../agents/masked.ts';
import type { Config } from '../../app/config.ts';
import { systemClock } from '../../clock.ts';
import { dailyMs } from '../../engine/deletions/rotation.ts';
import { command } from '../../engine/runs/pauses.ts';
import { ShelfdeskError } from '../../errors.ts';
import { getTicketInDetail } from '../../sources/helpdesk/endpoints.ts';
import { type By, type Life, lifeOf, rejectsOf } from '../../sources/helpdesk/ticket-life.ts';
import { openStates, tickets } from '../../sources/helpdesk/tickets.ts';
import { readStatus, type StreamStatus } from '../../status/streams.ts';
import { liveWorkers } from '../../status/workers.ts';
import { amount, count, duration } from '../../words.ts';
import { demoHasEnded, hasEnded, openChosen, servedBy } from '../choose-account.ts';
import { type Act, type Deps, jsonOption } from '../command.ts';
import { type Cell, cellText, print, printJson, say, table } from '../output/terminal.ts';
import { scheduleOf } from '../work/schedule.ts';

/** Credits of one request for a ticket with its messages. */
const creditsOfReading = getTicketInDetail('', []).cost;

export interface Why extends Life {
  next: {
    /** Next incremental and nightly run; null without a worker or a schedule. */
    fresh: Date | null;
    nightly: Date | null;
    /** Earliest time at which a nightly sweep re-reads the ticket. */
    sweep_due: Date | null;
  };
  complete_through: { tickets: Date | null; messages: Date | null };
  /** Reasons why the ticket is not fresher. */
  why: string[];
}

export function addWhy(program: Command, deps: Deps, act: Act): void {
  program
    .command('why')
    .summary('explain the state of one ticket')
    .description('history of a ticket in the mirror: runs, changes, credits, pending work, and why it is not fresher')
    .argument('<ticket>', 'id or number of the ticket')
    .option(...jsonOption)
    .action(
      act(async (name: string, options: { json?: boolean }) => {
        await using opened = await openChosen(deps);
        const { config, warehouse } = opened;
        const found = await whyOf(warehouse.pg, config, name);
        if (options.json) printJson(found);
        else show(found, config.account);
      }),
    );
}

/** `shown`: how texts and changed values are shown. */
export async function whyOf(db: pg.Pool, config: Config, name: string, shown: Shown = unmasked): Promise<Why> {
  const { account } = config;
  const status = statusShown(await readStatus(db, [account], [servedBy(config)]), shown);
  const of = (stream: string) => status.find(one => one.source === 'helpdesk' && one.stream === stream);
  const found = await lifeOf(db, account, name);
  if (found === undefined) throw await unknown(db, { config, name, tickets: of('tickets'), shown });
  const life = lifeShown(found, shown);
  const worker = (await liveWorkers(db, [account])).length > 0;
  const slots = worker ? await scheduleOf(db, config) : [];
  const slot = (name: string) => slots.find(({ schedule }) => schedule === name)?.next[0] ?? null;
  const next = { fresh: slot('fresh'), nightly: slot('nightly'), sweep_due: sweepDue(life, config) };
  const complete_through = {
    tickets: of('tickets')?.complete_through ?? null,
    messages: of('messages')?.complete_through ?? null,
  };
  const known = { ...life, next, complete_through };
  return { ...known, why: [...reasons(known, { config, worker, tickets: of('tickets'), messages: of('messages') })] };
}

const isLively = (name: string): boolean => tickets.lively?.some(({ list }) => list === name) === true;

/** Due time of the next sweep: SWEEP_AGE_DAYS after the last one, or each night if open. Never swept: due since it was listed. */
function sweepDue({ ticket, listed, swept }: Life, { sweep }: Pick<Config, 'sweep'>): Date | null {
  if (ticket.deleted_at !== null) return null;
  const after = (ms: number, lists: (list: string) => boolean) => {
    const last = swept.findLast(({ list }) => lists(list));
    return last ? last.as_of.getTime() + ms : listed.at.getTime();
  };
  const whole = after(sweep.ageMs, list => !isLively(list));
  return new Date(
    openStates.some(state => state === ticket.state)
      ? Math.min(
          whole,
          after(dailyMs, list => list === 'open' || !isLively(list)),
        )
      : whole,
  );
}

function lifeShown(life: Life, { text, fields }: Shown): Life {
  return {
    ...life,
    ticket: { ...life.ticket, subject: text(life.ticket.subject) },
    changes: life.changes.map(one => ({ ...one, fields: fields(one.fields) })),
    audits: life.audits.map(one => ({ ...one, fields: one.fields && fields(one.fields) })),
    rejects: life.rejects.map(one => ({ ...one, reason: text(one.reason) })),
    deletion_candidate: life.deletion_candidate && {
      ...life.deletion_candidate,
      error: text(life.deletion_candidate.error),
    },
  };
}

interface Missing {
  readonly config: Config;
  readonly name: string;
  readonly tickets: StreamStatus | undefined;
  readonly shown: Shown;
}

async function unknown(db: pg.Pool, { config, name, tickets, shown }: Missing): Promise<Error> {
  const { account } = config;
  const [reject] = (await rejectsOf(db, account, name)).filter(({ cleared_at }) => cleared_at === null);
  const complete = tickets?.complete_through;
  const remedy = reject
    ? `The ticket was rejected: ${shown.text(reject.reason)}. See ${command(account, `rejects show ${reject.id}`)}.`
    : complete
      ? `Tickets are complete through ${cellText(complete)}, with ${count(tickets.gaps.length, 'gap')}: see ${command(account, 'status')}. ${hasEnded(config) ? demoHasEnded : `What came later, ${command(account, 'sync')} brings.`}`
      : `Tickets are not complete yet: see ${command(account, 'status')}; ${command(account, 'sync')} reads them.`;
  return new ShelfdeskError(`there is no ticket ${name} here, by id or by number`, remedy);
}

interface Around {
  config: Config;
  worker: boolean;
  tickets: StreamStatus | undefined;
  messages: StreamStatus | undefined;
}

function* reasons(life: Omit<Why, 'why'>, { config, worker, tickets, messages }: Around): Generator<string> {
  const { ticket, queue, readings, rejects, deletion_candidate, next, complete_through, checked_at } = life;
  if (ticket.erased_at !== null)
    yield `Its customer was erased at ${cellText(ticket.erased_at)}: texts, names and addresses of it are not kept, here or in its history.`;
  if (ticket.deleted_at !== null) {
    yield `The source has it no more: it was deleted${ticket.deleted_after ? ` after ${cellText(ticket.deleted_after)}, and` : ''} by ${cellText(ticket.deleted_at)}.`;
    return;
  }
  if (deletion_candidate)
    yield `A list lacked it as of ${cellText(deletion_candidate.at)}: the next sweep asks for it by its id, and marks it as deleted only if it is gone${deletion_candidate.error ? ` (the last time: ${deletion_candidate.error})` : ''}.`;
  for (const { id, stream, reason, next_try_at, cleared_at } of rejects) {
    if (cleared_at !== null) continue;
    const then = next_try_at ? `; it is tried again from ${cellText(next_try_at)} on` : '';
    yield `Reject ${id} of ${stream} is open: ${reason}${then}.`;
  }
  if (queue) {
    const { credits, reserve, periodMs } = config.limits;
    const waitSeconds = (queue.place * creditsOfReading * periodMs) / (credits - reserve) / 1000;
    const last = readings.at(-1);
    const known = last ? `its messages are as of ${cellText(last.as_of)}` : 'its messages were never read';
    yield `It changed at ${cellText(ticket.updated_at)}, and ${known}: it waits for them, as number ${amount(queue.place)} of ${amount(queue.of)}, newest change first: ${duration(waitSeconds)} at the credits that the limits allow.`;
  }
  if (complete_through.tickets)
    yield `Changes up to ${cellText(complete_through.tickets)} are here; ${next.fresh ? `the next sync is at ${cellText(next.fresh)}` : 'no later sync is scheduled'}.`;
  else yield 'The list of tickets has never been read to its end: what changed may not be here yet.';
  if (tickets && tickets.gaps.length > 0)
    yield `The list of tickets has ${count(tickets.gaps.length, 'gap')}: a change there is not here. ${command(config.account, 'backfill tickets')} fills ${tickets.gaps.length === 1 ? 'it' : 'them'}.`;
  for (const one of [tickets, messages])
    if (one?.last_error) yield `${one.stream}: ${one.last_error}. ${one.remedy ?? ''}`.trimEnd();
  if (hasEnded(config)) yield demoHasEnded;
  else if (!worker)
    yield `No worker is alive: nothing is read until \`npx shelfdesk start\` or ${command(config.account, 'sync')}.`;
  const due =
    next.sweep_due && next.sweep_due.getTime() > systemClock.now()
      ? `It is due for a sweep from ${cellText(next.sweep_due)} on`
      : 'It is due for the next sweep';
  yield checked_at
    ? `A sweep found it unchanged as of ${cellText(checked_at)}.`
    : 'No sweep has compared it yet: a change that moves no updated_at is not known.';
  yield `${due}${next.nightly ? `; the next one is at ${cellText(next.nightly)}` : ''}.`;
}

const byRun = ({ run, kind }: By) => (run === null ? '' : kind === null ? String(run) : `${run} (${kind})`);
const share = (credits: number) => (credits < 0.1 ? credits.toFixed(4) : credits.toFixed(2));
const brief = (value: unknown) => (value === undefined ? 'null' : JSON.stringify(value));

/** `subject: "Tea" → "Coffee"` */
const told = (fields: Record<string, [unknown, unknown]>) =>
  Object.entries(fields)
    .map(([field, [before, after]]) => `${field}: ${brief(before)} → ${brief(after)}`)
    .join('; ');

const isDeletion = ({ fields }: Life['changes'][number]) => fields._deleted_at?.[0] === null;
/** Whether a message was only deleted or restored together with its ticket. */
const goesAlong = ({ table, fields }: Life['changes'][number]) =>
  table === 'messages' && Object.keys(fields).join() === '_deleted_at';

function show(found: Why, account: string): void {
  const { ticket, listed, readings, messages, changes, audits, swept, why } = found;
  const { id, number, subject, state } = ticket;
  print(`ticket ${id}${number === null ? '' : `, number ${number}`}: ${brief(subject)}, ${state ?? 'no state'}`);
  const rows: [at: Date, what: string, run: string, credits: Cell, details: string][] = [
    [listed.at, 'listed', byRun(listed), listed.credits === null ? null : share(listed.credits), ''],
    ...changes
      .filter(one => !goesAlong(one))
      .map((one): (typeof rows)[number] => {
        const became = 'id' in one.fields ? 'removed' : isDeletion(one) ? 'gone' : 'changed';
        return [
          isDeletion(one) ? one.as_of : one.seen_at,
          one.table === 'tickets' ? became : `message ${one.record} ${became}`,
          byRun(one),
          null,
          became === 'changed' ? told(one.fields) || 'only in its spelling' : '',
        ];
      }),
    ...readings.map((one, i): (typeof rows)[number] => [
      one.as_of,
      'messages read',
      byRun(one),
      share(creditsOfReading),
      i === readings.length - 1 ? `${amount(messages)} of them` : '',
    ]),
    ...swept.map((one): (typeof rows)[number] => [one.as_of, `swept, ${one.list}`, byRun(one), null, '']),
    ...audits.map((one): (typeof rows)[number] => [
      one.at,
      `compared, ${one.stream}`,
      byRun(one),
      null,
      one.fields
        ? `${one.difference ?? 'differed'}${one.repaired_at ? ', repaired' : ''}: ${told(one.fields)}`
        : 'equal',
    ]),
  ];
  if (ticket.deleted_at && !changes.some(one => one.table === 'tickets' && isDeletion(one)))
    rows.push([ticket.deleted_at, 'gone', '', null, '']);
  rows.sort(([one], [other]) => one.getTime() - other.getTime());
  print(table(['when', 'what', 'run', 'credits', 'details'], rows, 160));
  for (const sentence of why) print(sentence);
  if (found.rejects.length > 0)
    say(`${count(found.rejects.length, 'reject')}: see ${command(account, 'rejects list --all')}.`);
}
