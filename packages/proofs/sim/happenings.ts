/**
 * What happens in the help desk while it is read, from a seed: everything that the specification allows, and often at the
 * worst moment: many changes in one second, two changes of one ticket in one second, rows that show up late. What is written
 * anywhere is written nowhere else: behind a `~` it has an id of its own.
 */
import { stamp } from '../../sandbox/src/helpdesk/records.ts';
import type { WorldTicket } from '../../sandbox/src/helpdesk/world/rows.ts';
import { World } from '../../sandbox/src/helpdesk/world/world.ts';
import { between, pick, type Rng, weighted } from '../../sandbox/src/random.ts';
import type { History } from './history.ts';
import type { Plan } from './plan.ts';

/** A small world with a past of some hours, in which many a second holds several tickets. */
export function makeWorld(plan: Plan, rng: Rng, now: () => number): World {
  const world = new World({ seed: plan.seed, now, quietly: plan.quietly, archiveHours: plan.archiveHours });
  for (const name of ['Support', 'Orders']) world.addInbox({ name });
  for (const name of ['refund', 'urgent', 'VIP']) world.addLabel({ name });
  for (let i = 0; i < 3; i++) world.addUser({ first_name: `User ${i}` });
  const secondsAgo = (most: number) => Math.floor(now() / 1000) - between(rng, 1, most);
  const begun = Array.from({ length: plan.customers }, () => secondsAgo(plan.pastSeconds)).sort((a, b) => a - b);
  for (const second of begun) addCustomer(world, rng, second * 1000);
  let tie = secondsAgo(plan.pastSeconds);
  const created = Array.from({ length: plan.tickets }, () => {
    if (rng() >= plan.tied) tie = secondsAgo(plan.pastSeconds);
    return tie;
  }).sort((a, b) => a - b);
  let bulk = Math.floor(now() / 1000) - between(rng, 1, 300);
  for (const second of created) {
    const updated = rng() < 0.5 ? second : Math.max(second, rng() < plan.tied ? bulk : secondsAgo(plan.pastSeconds));
    if (rng() < 0.1) bulk = Math.floor(now() / 1000) - between(rng, 1, plan.pastSeconds);
    addTicket(world, rng, { created_at: stamp(second * 1000), updated_at: stamp(updated * 1000) });
  }
  return world;
}

function addCustomer(world: World, rng: Rng, atMs = world.clock.now()): string {
  const { id } = world.customers.add({
    first_name: `C${between(rng, 1, 999)}~${world.newId()}`,
    created_at: stamp(atMs),
  });
  for (let n = between(rng, 0, 2); n > 0; n--) {
    world.customers.addContact(id, { type: 'email', value: `${world.newId()}@example.org` });
  }
  return id;
}

function addTicket(world: World, rng: Rng, more: { created_at?: string; updated_at?: string } = {}): WorldTicket {
  const customer_id = someCustomer(world, rng) ?? addCustomer(world, rng);
  const label_ids = rng() < 0.3 ? [pick(rng, [...world.labels.keys()])] : [];
  const inbox_id = pick(rng, [...world.inboxes.keys()]);
  const state = weighted(rng, [
    ['open', 6],
    ['closed', 3],
    ['hold', 1],
  ] as const);
  const flag = rng();
  const at = more.created_at ?? stamp(world.clock.now());
  const messages = Array.from({ length: between(rng, 0, 2) }, () => ({
    ...{ id: world.newId(), type: 'reply' as const, direction: 'in' as const, user_id: null, from_name: 'Ada' },
    ...{
      from: 'ada@example.org',
      to: null,
      body: `body ${between(rng, 1, 999)}~${world.newId()}`,
      more_body: null,
      htmlized: false,
    },
    ...{ created_at: at, attachments: [] },
  }));
  return world.addTicket({
    ...more,
    ...{ customer_id, label_ids, inbox_id, state, messages },
    type: pick(rng, ['email', 'email', 'chat', 'phone', 'web'] as const),
    user_id: rng() < 0.5 ? null : pick(rng, [...world.users.keys()]),
    subject: `Subject ${between(rng, 1, 999)}~${world.newId()}`,
    spam: flag < 0.06,
    trash: flag > 0.94,
  });
}

const someCustomer = (world: World, rng: Rng) => someOf(rng, [...world.customers.keys()]);
const someOf = <T>(rng: Rng, all: readonly T[]): T | undefined => (all.length === 0 ? undefined : pick(rng, all));

/** What was busy recently is likely to be busy again. */
function someTicket(world: World, rng: Rng): WorldTicket | undefined {
  const { byUpdated } = world;
  const share = rng() < 0.5 ? rng() : 1 - rng() ** 3;
  return byUpdated.at(Math.floor(byUpdated.length * share));
}

type Happening = (happens: Happens) => void;

export interface Happens {
  readonly world: World;
  readonly rng: Rng;
  readonly plan: Plan;
  readonly history: History;
  /** What was deleted, to come back. */
  readonly bin: { tickets: WorldTicket[]; customers: { id: string; created_at: string }[] };
  /** How late a row may show up just now. */
  readonly lateMs: number;
}

/**
 * When it says that it happened: now, or a little before, as where a row shows up late. Never before its last change, unless that
 * is dated ahead.
 */
function moment({ world, rng, history, lateMs }: Happens, ticket?: WorldTicket): { at: number } {
  const now = world.clock.now();
  const at = rng() < 0.2 ? now - between(rng, 0, lateMs) : now;
  return { at: ticket ? Math.max(at, lastChange(ticket, now, history)) : at };
}

/** A change that was dated ahead holds nothing back. */
function lastChange({ id, updated_at }: WorldTicket, now: number, { ahead }: History): number {
  const last = Date.parse(updated_at);
  return ahead.has(id) ? Math.min(now, last) : last;
}

const onTicket =
  (act: (ticket: WorldTicket, happens: Happens) => void): Happening =>
  happens => {
    const ticket = someTicket(happens.world, happens.rng);
    if (ticket) act(ticket, happens);
  };

const reply = onTicket((ticket, happens) => {
  const { world, rng } = happens;
  const at = moment(happens, ticket);
  const body = `reply ${between(rng, 1, 999)}~${world.newId()}`;
  world.addMessage(ticket.id, { direction: rng() < 0.5 ? 'in' : 'out', body, created_at: stamp(at.at) }, at);
});

const patch = onTicket((ticket, happens) => {
  const { world, rng } = happens;
  const { user_id, subject } = ticket;
  const users = [null, ...world.users.keys()].filter(id => id !== user_id);
  const what = pick(rng, [{ user_id: pick(rng, users) }, { subject: `${subject} again` }] as const);
  world.patchTicket(ticket.id, what, moment(happens, ticket));
});

const state = onTicket((ticket, happens) => {
  const { world, rng } = happens;
  const next = pick(rng, ['open', 'closed', 'hold', 'archived', 'snoozed'] as const);
  const snoozed_until = next === 'snoozed' ? stamp(world.clock.now() + between(rng, 1, 900) * 1000) : null;
  world.patchTicket(ticket.id, { state: next, snoozed_until }, moment(happens, ticket));
});

const labels = onTicket((ticket, happens) => {
  const { world, rng } = happens;
  const label = pick(rng, [...world.labels.keys()]);
  if (ticket.label_ids.includes(label)) world.removeLabels(ticket.id, [label], moment(happens, ticket));
  else world.addLabels(ticket.id, [label], moment(happens, ticket));
});

/** The source dates it ahead of its clock; what comes next is dated right. */
const ahead = onTicket((ticket, { world, rng, plan, history }) => {
  const at = world.clock.now() + between(rng, 1, plan.aheadMs / 1000) * 1000;
  history.ahead.add(ticket.id);
  world.patchTicket(ticket.id, { subject: `ahead ${between(rng, 1, 999)}~${world.newId()}` }, { at });
});

/** Two in one second: whoever saw the first one has not seen the second one. */
const twice = onTicket((ticket, { world, rng, history }) => {
  const now = world.clock.now();
  const at = Math.max(now, lastChange(ticket, now, history));
  world.patchTicket(ticket.id, { subject: `first ${between(rng, 1, 999)}~${world.newId()}` }, { at });
  world.patchTicket(ticket.id, { subject: `second ${between(rng, 1, 999)}~${world.newId()}` }, { at });
});

/** Once more, in the second of its last change, if that is not over. */
const again = onTicket((ticket, { world, rng }) => {
  const at = Date.parse(ticket.updated_at);
  if (at < world.clock.now() - 1000) return;
  world.patchTicket(ticket.id, { subject: `once more ${between(rng, 1, 999)}~${world.newId()}` }, { at });
});

/** Many in one second, next to each other in the order of updates, or all. */
const bulk: Happening = ({ world, rng, plan }) => {
  const { byUpdated } = world;
  const count = Math.min(byUpdated.length, between(rng, 2, rng() < 0.2 ? plan.depth * 2 : plan.perPage * 3));
  const first = between(rng, 0, byUpdated.length - count);
  const at = world.clock.now();
  const chosen = Array.from({ length: count }, (_, i) => byUpdated.at(first + i)!);
  const label = pick(rng, [...world.labels.keys()]);
  for (const ticket of chosen) {
    if (Date.parse(ticket.updated_at) <= at) world.patchTicket(ticket.id, { label_ids: [label] }, { at });
  }
};

const note = onTicket((ticket, happens) => {
  const { world, rng } = happens;
  const notes = ticket.messages.filter(({ type }) => type === 'note');
  const at = moment(happens, ticket);
  if (notes.length === 0 || rng() < 0.5)
    world.addNote(ticket.id, { body: `note ${between(rng, 1, 999)}~${world.newId()}` }, at);
  else world.editNote(ticket.id, pick(rng, notes).id, `edited ${between(rng, 1, 999)}~${world.newId()}`, at);
});

const removeMessage = onTicket((ticket, happens) => {
  const last = ticket.messages.at(-1);
  if (last) happens.world.removeMessage(ticket.id, last.id, moment(happens, ticket));
});

/** Nothing announces it. */
const attach = onTicket((ticket, { world }) => {
  const message = ticket.messages.at(-1);
  if (message) world.addAttachment(ticket.id, message.id, { name: 'late.pdf', size: 7 });
});

const hide = onTicket((ticket, happens) => {
  const { world, rng } = happens;
  if (rng() < 0.5) world.setSpam(ticket.id, !ticket.spam, moment(happens, ticket));
  else world.setTrash(ticket.id, !ticket.trash, moment(happens, ticket));
});

const newTicket: Happening = happens => {
  const { world, rng } = happens;
  const at = stamp(moment(happens).at);
  for (let n = rng() < 0.2 ? between(rng, 2, 8) : 1; n > 0; n--) {
    addTicket(world, rng, { created_at: at, updated_at: at });
  }
};

const deleteTicket = onTicket((ticket, { world, bin }) => {
  bin.tickets.push(ticket.copy());
  world.deleteTicket(ticket.id);
});

const returnTicket: Happening = happens => {
  const { world, rng, bin } = happens;
  const ticket = bin.tickets.pop();
  if (ticket === undefined || world.tickets.has(ticket.id)) return;
  const { messages } = ticket;
  const fields = { ...ticket, messages } as Partial<WorldTicket>;
  world.addTicket({ ...fields, ...(rng() < 0.5 && { updated_at: stamp(world.clock.now()) }) });
};

const deleteCustomer: Happening = ({ world, rng, bin }) => {
  const id = someCustomer(world, rng);
  if (id === undefined || world.customers.size < 2) return;
  bin.customers.push({ id, created_at: world.customer(id).created_at });
  world.customers.delete(id);
};

const returnCustomer: Happening = ({ world, bin }) => {
  const gone = bin.customers.pop();
  if (gone) world.customers.add({ ...gone, first_name: `Back~${world.newId()}` });
};

const editCustomer: Happening = ({ world, rng }) => {
  const id = someCustomer(world, rng);
  if (id === undefined) return;
  const { contacts } = world.customer(id);
  if (contacts.length > 0 && rng() < 0.3) world.customers.removeContact(id, contacts[0]!.id);
  else if (rng() < 0.4) world.customers.addContact(id, { type: 'phone', value: world.newId() });
  else world.customers.patch(id, { last_name: `L${between(rng, 1, 999)}~${world.newId()}` });
};

const rename: Happening = ({ world, rng, history }) => {
  history.renamed = true;
  if (rng() < 0.5) world.renameLabel(pick(rng, [...world.labels.keys()]), `renamed ${between(rng, 1, 999)}`);
  else world.renameInbox(pick(rng, [...world.inboxes.keys()]), `renamed ${between(rng, 1, 999)}`);
};

const people: Happening = ({ world, rng }) => {
  const id = rng() < 0.3 ? undefined : pick(rng, [...world.users.keys()]);
  if (id === undefined) world.addUser({ first_name: 'New' });
  else world.users.set(id, { ...world.users.get(id)!, last_name: `L${between(rng, 1, 99)}` });
};

const announced: readonly (readonly [Happening, number])[] = [
  [newTicket, 10],
  [reply, 12],
  [patch, 8],
  [state, 6],
  [labels, 6],
  [twice, 5],
  [again, 6],
  [bulk, 2],
  [note, 5],
  [removeMessage, 2],
  [hide, 2],
  [happens => void addCustomer(happens.world, happens.rng, moment(happens).at), 3],
  [people, 0.5],
];
const datedAhead: readonly (readonly [Happening, number])[] = [[ahead, 8]];
const unannounced: readonly (readonly [Happening, number])[] = [
  [attach, 1],
  [editCustomer, 2],
  [rename, 0.3],
];
const vanishing: readonly (readonly [Happening, number])[] = [
  [deleteTicket, 2.5],
  [returnTicket, 1.2],
  [deleteCustomer, 0.8],
  [returnCustomer, 0.5],
];

/** What a script asks for by its name. */
export const happenings = {
  'a ticket is deleted': deleteTicket,
  'a customer is deleted': deleteCustomer,
  'a message has a file more': attach,
  'a reply': reply,
  'a ticket is dated ahead': ahead,
  'all tickets change in one second': ({ world }) => {
    const at = world.clock.now();
    for (const { id } of [...world.tickets.values()]) world.patchTicket(id, { subject: `all at ${at}~${id}` }, { at });
  },
} satisfies Record<string, Happening>;

/** One change, now. */
export function happen(happens: Happens): void {
  const { world, rng, plan } = happens;
  world.settle();
  const all = [
    ...announced,
    ...(plan.aheadMs > 0 ? datedAhead : []),
    ...(plan.unannounced ? unannounced : []),
    ...(plan.deletions ? vanishing : []),
  ];
  weighted(rng, all)(happens);
}
