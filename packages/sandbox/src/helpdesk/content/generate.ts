/**
 * Generates a bookshop's help desk with four years of history from a seed: busy mornings, quiet weekends, slow growth. The
 * history ends three minutes before the world's clock. This file makes users, labels, inboxes, creation times and bulk
 * actions; history.ts makes tickets and customers. A bulk action puts 60 to 150 tickets of a small world, and thousands
 * of a large one, into one second.
 */

import { between, makeRng, pick, type Rng } from '../../random.ts';
import { busyness } from '../../rhythm.ts';
import { spoil } from '../../texts/naughty.ts';
import { World, type WorldOptions } from '../world/world.ts';
import { bulkOf } from './changes.ts';
import { castOf } from './content.ts';
import { History, idsOf } from './history.ts';

export interface GenerateOptions extends WorldOptions {
  /** Default 200. */
  tickets?: number;
  /** Default: about a third of the tickets; at least one if there are tickets. */
  customers?: number;
  /** Share of tickets, customers and labels with hostile text (see naughty.ts); default 0. */
  naughty?: number;
  /** As in WorldOptions; default 1% of the tickets, from 100 to 5,000. */
  bulkSize?: number;
}

const MINUTE = 60;
const DAY = 24 * 60 * MINUTE;
const HISTORY = 4 * 365 * DAY;

const LABELS =
  'delivery,refund,damaged,invoice,e-book,audiobook,gift card,book club,signed edition,pre-order,wholesale,school,' +
  'library,press,author event,website,password,address change,complaint,praise 💛,VIP,urgent,duplicate,follow up,Rückgabe';
const INBOXES = 'Support,Orders,Wholesale,Schools & Libraries,Events,Social';
const STAFF =
  "Ines Carvalho,Tom Ashby,Mina Sato,Oskar Lindqvist,Ruth O'Neill,Yusuf Demir,Chloé Dubois,Ravi Menon,Grace Okafor," +
  'Piotr Wójcik,Night Desk,Hannah';

export function generateWorld(options: GenerateOptions = {}): World {
  const { tickets = 200, naughty = 0, bulkSize = Math.min(Math.max(tickets / 100, 100), 5000) } = options;
  const world = new World({ ...options, bulkSize });
  const rng = makeRng(world.seed);
  const customers = Math.max(options.customers ?? Math.ceil(tickets / 3), Math.min(tickets, 1));
  const latest = Math.floor(world.clock.now() / 1000) - 3 * MINUTE;
  addScenery(world, naughty);
  const created = { tickets: momentsUntil(rng, tickets, latest), customers: momentsUntil(rng, customers, latest) };
  // The first customer must exist before the first ticket.
  created.customers.fill(latest - HISTORY - DAY, 0, 1);
  const cast = structuredClone({ ...castOf(world), newId: undefined });
  const firstId = world.reserveIds(idsOf(tickets, customers));
  world.remember(new History({ seed: world.seed, firstId, created, latest, naughty, cast }));
  actInBulk(world, rng);
  return world;
}

function addScenery(world: World, naughty: number): void {
  for (const name of LABELS.split(',')) world.addLabel({ name });
  for (const name of INBOXES.split(',')) world.addInbox({ name });
  for (const name of STAFF.split(',')) {
    const [first_name = null, last_name = null] = name.split(' ');
    world.addUser({ first_name, last_name, email: `staff${world.users.size + 1}@harbourlane.example` });
  }
  // A separate random source: `naughty` must not change the rest of the world.
  const rng = makeRng(world.seed + 1);
  for (const label of world.labels.values()) if (rng() < naughty) label.name = spoil(rng, label.name);
}

/** `count` random seconds of the history, ascending. */
function momentsUntil(rng: Rng, count: number, latest: number): Float64Array {
  const moments = new Float64Array(count);
  for (let n = 0; n < count; ) {
    const moment = Math.floor(latest - HISTORY * (1 - rng() ** 0.7));
    if (rng() * 100 < busyness(moment * 1000)) moments[n++] = moment;
  }
  return moments.sort();
}

/** Closes and labels tickets that are older than a random moment, all in that second. */
function actInBulk(world: World, rng: Rng): void {
  const { byCreated, bulkSize } = world;
  if (byCreated.length < 1.5 * bulkSize) return;
  const labels = [...world.labels.keys()];
  for (let actions = Math.ceil(byCreated.length / (25 * bulkSize)); actions > 0; actions--) {
    let position = between(rng, Math.floor(byCreated.length * 0.75), byCreated.length - 1);
    const at = byCreated.at(position)!.created_at;
    const label = pick(rng, labels);
    for (let left = bulkOf(rng, world); left > 0 && --position >= 0; ) {
      const { id, updated_at, label_ids } = byCreated.at(position)!;
      if (updated_at >= at) continue;
      const labelled = [...new Set([...label_ids, label])];
      world.patchTicket(id, { state: 'closed', snoozed_until: null, label_ids: labelled }, { at });
      left--;
    }
  }
}
