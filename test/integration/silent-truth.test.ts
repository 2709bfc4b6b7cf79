/**
 * What a mirror shows was true at unchecked_since or later, whatever happens in silence: also between two requests of a reading, to
 * records that go and come back, that change their list, or that come with the dates of long ago.
 */
import { expect, test } from 'vitest';
import { auditStream } from '../../jobs/audit-stream.ts';
import { makeRng, pick, type Rng } from '../../packages/sandbox/src/random.ts';
import { openWaiting } from '../../src/engine/queue/reconcile.ts';
import { keepRereading } from '../../src/engine/queue/reread.ts';
import { type InProcess, inProcess } from '../support/in-process.ts';
import { keyOf } from '../support/keys.ts';
import { amount } from '../support/long.ts';

const minuteMs = 60_000;
const gone = 'gone';
/** By `stream id`: what is so, or what the mirror shows. */
type Shown = Map<string, string>;

/** What the help desk has, in the words of the mirror. */
function truth({ world }: InProcess): Shown {
  world.settle();
  const all: Shown = new Map();
  for (const t of world.tickets.values()) {
    all.set(
      `helpdesk.tickets ${t.id}`,
      JSON.stringify([t.subject, t.state, t.spam, t.trash, t.user_id, t.customer_id, [...t.label_ids].sort()]),
    );
    all.set(
      `helpdesk.messages ${t.id}`,
      JSON.stringify(t.messages.map(m => [m.id, m.attachments.length, [...(m.body ?? '')].length]).sort()),
    );
  }
  for (const c of world.customers.values())
    all.set(`helpdesk.customers ${c.id}`, JSON.stringify([c.first_name, c.contacts.map(({ value }) => value).sort()]));
  for (const u of world.users.values()) all.set(`helpdesk.users ${u.id}`, JSON.stringify([u.first_name]));
  return all;
}

async function mirror(s: InProcess): Promise<Shown> {
  const rows = await s.rows(`
    select 'helpdesk.tickets ' || id as key, jsonb_build_array(subject, state, spam, trash, user_id, customer_id, (select coalesce(jsonb_agg(l order by l collate "C"), '[]') from unnest(label_ids) l)) as v
    from helpdesk.tickets where _deleted_at is null
    union all
    select 'helpdesk.messages ' || t.id, coalesce((
      select jsonb_agg(jsonb_build_array(m.id, (select count(*) from helpdesk.attachments a where a.message_id = m.id and a._deleted_at is null), length(coalesce(m._payload ->> 'body', m.body, ''))))
      from helpdesk.messages m where m.ticket_id = t.id and m._deleted_at is null), '[]')
    from helpdesk.tickets t where t._deleted_at is null and t._messages_as_of is not null
    union all
    select 'helpdesk.customers ' || id, jsonb_build_array(first_name, (
      select coalesce(jsonb_agg(k.value order by k.value collate "C"), '[]') from helpdesk.contacts k where k.customer_id = c.id and k._deleted_at is null))
    from helpdesk.customers c where _deleted_at is null
    union all
    select 'helpdesk.users ' || id, jsonb_build_array(first_name) from helpdesk.users where _deleted_at is null`);
  return new Map(
    rows.map(({ key, v }) => {
      const value = v as unknown[];
      return [key as string, JSON.stringify(String(key).startsWith('helpdesk.messages') ? value.sort() : value)];
    }),
  );
}

/** Until when each value of each record was true. */
class Past {
  readonly #until = new Map<string, Map<string, number>>();
  #now: Shown = new Map();

  note(now: Shown, atMs: number): void {
    for (const key of new Set([...this.#now.keys(), ...now.keys()])) {
      const [was, is] = [this.#now.get(key) ?? gone, now.get(key) ?? gone];
      const values = this.#until.get(key) ?? new Map<string, number>();
      this.#until.set(key, values);
      if (was !== is) values.set(was, atMs);
      values.set(is, Number.POSITIVE_INFINITY);
    }
    this.#now = now;
  }

  /** What is shown though it was last true before the time that its stream is said to be checked. */
  untrue(shown: Shown, checked: ReadonlyMap<string, number>): unknown[] {
    return [...this.#until].flatMap(([key, values]) => {
      const value = shown.get(key) ?? gone;
      const until = values.get(value) ?? Number.NEGATIVE_INFINITY;
      const said = checked.get(key.split(' ')[0]!);
      // The messages of a ticket that is not here.
      if (said === undefined || until >= said) return [];
      return [
        {
          key,
          value,
          truth: this.#now.get(key) ?? gone,
          until: new Date(until).toString(),
          said: new Date(said).toISOString(),
          was: [...values].map(([v, at]) => `${v} until ${at === Infinity ? 'now' : new Date(at).toISOString()}`),
        },
      ];
    });
  }
}

const long = Date.UTC(2026, 0, 5);

/** One change that no list announces. */
function silently(s: InProcess, rng: Rng, log: (what: string) => void): void {
  const { world } = s;
  const tickets = [...world.tickets.values()];
  const t = pick(rng, tickets);
  const c = pick(rng, [...world.customers.values()]);
  const n = Math.floor(rng() * 1e6);
  const quiet = { quiet: true };
  const all: [string, () => unknown][] = [
    ['edit', () => world.patchTicket(t.id, { subject: `Edited ${n}` }, quiet)],
    [
      'state',
      () => world.patchTicket(t.id, { state: pick(rng, ['open', 'hold', 'closed', 'archived'] as const) }, quiet),
    ],
    ['spam', () => world.setSpam(t.id, !t.spam, quiet)],
    ['trash', () => world.setTrash(t.id, !t.trash, quiet)],
    ['spam edit', () => world.patchTicket(t.id, { spam: !t.spam, trash: false, subject: `Moved ${n}` }, quiet)],
    ['label', () => world.addLabels(t.id, [pick(rng, [...world.labels.keys()])], quiet)],
    ['delete', () => world.deleteTicket(t.id)],
    [
      'come back',
      () => {
        const { id, number, customer_id, created_at, updated_at, inbox_id } = t;
        world.deleteTicket(id);
        world.addTicket({ id, number, customer_id, created_at, updated_at, inbox_id, subject: `Back ${n}` });
      },
    ],
    [
      'import',
      () =>
        world.addTicket({
          created_at: new Date(long + n * 1000).toISOString(),
          updated_at: new Date(long + n * 1000).toISOString(),
          subject: `Old ${n}`,
          customer_id: c.id,
        }),
    ],
    [
      'burst',
      () => {
        for (let k = 0; k < 8; k++)
          world.patchTicket(
            pick(
              rng,
              tickets.filter(({ id }) => world.tickets.get(id)),
            ).id,
            { state: 'closed', subject: `Rule ${n}` },
            quiet,
          );
      },
    ],
    ['note', () => world.addNote(t.id, { body: `Note ${n}` }, quiet)],
    [
      'edit note',
      () => {
        const m = t.messages.find(one => one.type === 'note');
        if (m) world.editNote(t.id, m.id, `Edited note ${n}`.repeat(1 + (n % 3)), quiet);
      },
    ],
    [
      'remove message',
      () => {
        const m = t.messages.at(-1);
        if (m && t.messages.length > 1) world.removeMessage(t.id, m.id, quiet);
      },
    ],
    [
      'attach',
      () => {
        const m = t.messages.at(-1);
        if (m) world.addAttachment(t.id, m.id);
      },
    ],
    ['customer', () => world.customers.patch(c.id, { first_name: `Ada ${n}` })],
    ['contact', () => world.customers.addContact(c.id, { type: 'email', value: `a${n}@example.com` })],
    [
      'customer anew',
      () => {
        const contacts = c.contacts.map(one => ({ ...one, id: world.newId() }));
        world.customers.delete(c.id);
        world.customers.add({ first_name: c.first_name, contacts, created_at: c.created_at });
      },
    ],
    [
      'customer same id',
      () => {
        const { id, created_at } = c;
        world.customers.delete(id);
        world.customers.add({ id, first_name: `Back ${n}`, created_at });
      },
    ],
    ['customer gone', () => world.customers.delete(c.id)],
    ['user', () => Object.assign(pick(rng, [...world.users.values()]), { first_name: `Bo ${n}` })],
    ['new', () => world.addTicket({ customer_id: c.id })],
    ['loud', () => world.patchTicket(t.id, { subject: `Loud ${n}` })],
    ['mutate', () => world.mutate(rng)],
  ];
  const [what, act] = pick(rng, all);
  log(`${what} ${t.id} ${c.id}`);
  act();
}

const { SEEDS } = process.env;
const [from, to] = (SEEDS ?? `1-${amount(12, 2, 1)}`).split('-').map(Number) as [number, number];
const seeds = Array.from({ length: to - from + 1 }, (_, n) => from + n);

test.for(seeds)('world %d', { timeout: 500_000 }, async seed => {
  const rng = makeRng(seed);
  const hidden = rng() < 0.5;
  await using s = await inProcess({
    ...{
      tickets: 30 + Math.floor(rng() * 60),
      customers: 25,
      seed,
      sweep: { ageMs: 7 * 86_400_000, mostDeleted: 1, share: 0.1 },
    },
    ...{ spamListed: !hidden, trashListed: rng() < 0.5 ? hidden : true, paging: { perPage: 10, depth: 10_000 } },
  });
  const credits = 10 + Math.floor(rng() * 40);
  const limits = { credits, periodMs: minuteMs, requestsPerSecond: 100, reserve: 0 };
  const source = {
    ...s.ctx.sources.get('helpdesk')!,
    limits,
    audit: { perHour: rng() < 0.5 ? 0 : 3 },
  };
  s.ctx = { ...s.ctx, sources: new Map([['helpdesk', source]]) };
  const past = new Past();
  const log: string[] = [];
  const look = () => past.note(truth(s), s.nowMs);
  const act = () => {
    look();
    silently(s, rng, what => log.push(`${new Date(s.nowMs).toISOString()} ${what}`));
    look();
  };
  look();
  s.before = () => {
    look();
    if (rng() < 0.06) act();
    return undefined;
  };
  // Some replies come from a copy that is behind, by less than the lookback.
  if (rng() < 0.5) s.rules.set([{ share: 0.2, seed, fault: { kind: 'lag', seconds: 100 } }]);
  await s.sync();
  const checks: number[] = [];
  for (let n = 0; n < 90; n++) {
    s.nowMs += Math.ceil(4 * rng() * minuteMs);
    if (rng() < 0.5) act();
    if (rng() < 0.4) for (const stream of ['customers', 'tickets', 'messages']) await s.run('fresh', [stream]);
    await keepRereading(s.ctx, 0).look();
    await openWaiting(s.ctx, 0);
    const waiting = await s.rows(
      `select run_id::int as run, t.stream, r.kind from sync.stored_run_streams t join sync.stored_runs r on r.id = t.run_id where t.state = 'waiting' order by run_id, t.stream`,
    );
    for (const { run, stream, kind } of waiting as { run: number; stream: string; kind: string }[])
      if (kind === 'audit') await auditStream.run(s.ctx, { account: 'default', run, stream: keyOf(stream) });
      else await s.goOn(run, stream);
    look();
    const said = await s.rows(
      'select stream_key as stream, unchecked_since as at from sync.status where unchecked_since is not null',
    );
    const checked = new Map(said.map(one => [one.stream as string, (one.at as Date).getTime()]));
    checks.push(checked.size);
    const untrue = past.untrue(await mirror(s), checked);
    if (untrue.length > 0) console.log(log.slice(-60).join('\n'));
    expect({ n, untrue }).toEqual({ n, untrue: [] });
  }
  expect(Math.max(...checks)).toBe(4);
});
