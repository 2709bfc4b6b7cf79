/** What happens by itself in a world. */

/** One thing that happened, and to what. */
export interface Change {
  kind: string;
  /** Of the ticket, customer, label, inbox, volume or shelf that it happened to. */
  id: string;
}
