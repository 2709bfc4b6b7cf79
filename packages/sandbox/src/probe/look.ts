/** What all questions of a probe start from: the ends of the list of tickets, and tickets that the user named. */
import { SandboxUsageError } from '../usage-error.ts';
import type { Asking, Reply } from './asking.ts';

export interface Ticket {
  readonly id: string;
  readonly state: string;
  readonly spam: boolean;
  readonly trash: boolean;
  readonly created_at: string;
  readonly updated_at: string;
}

export interface Look {
  readonly asking: Asking;
  /** The first page, ordered by `updated_at`. */
  readonly first: Reply;
  readonly oldest: readonly Ticket[];
  /** The last changed one first. */
  readonly newest: readonly Ticket[];
  readonly named: readonly Ticket[];
}

/** What the service does. `unknown`: it has nothing that could tell, and the evidence says what is missing. */
export interface Found {
  readonly answer: string;
  readonly evidence: string;
}

export const unknown = (evidence: string): Found => ({ answer: 'unknown', evidence });

/** Records of a full page. */
export const PAGE = 100;

export async function lookAt(asking: Asking, ids: readonly string[]): Promise<Look> {
  const first = await asking.get('/tickets', { sort: 'updated_at', per_page: PAGE, page: 1 });
  if (first.status !== 200 || !Array.isArray(first.json))
    throw new SandboxUsageError(
      `GET /tickets answers ${first.status} without a list`,
      'Check the address: it is that of the interface, such as https://desk.example/api/v1.',
    );
  const newest = await asking.list<Ticket>('/tickets', { sort: '-updated_at', per_page: PAGE, page: 1 });
  const named: Ticket[] = [];
  for (const id of ids) {
    const ticket = await ticketOf(asking, id);
    if (ticket === undefined) throw new SandboxUsageError(`there is no ticket ${id}`, 'Name a ticket by its id.');
    named.push(ticket);
  }
  return { asking, first, oldest: first.json as Ticket[], newest, named };
}

export async function ticketOf(asking: Asking, id: string): Promise<Ticket | undefined> {
  const { status, json } = await asking.get(`/tickets/${encodeURIComponent(id)}`);
  return status === 200 ? (json as Ticket) : undefined;
}

/** A second earlier, as a parameter: what is asked for from then on surely has the second itself. */
export const before = (time: string): string => secondsOn(time, -1);

export const secondsOn = (time: string, seconds: number): string =>
  `${new Date(Math.floor(Date.parse(time) / 1000 + seconds) * 1000).toISOString().slice(0, 19)}Z`;
