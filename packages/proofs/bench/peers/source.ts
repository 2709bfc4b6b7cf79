/** The list of tickets, as peers in JavaScript read it: in order of creation, 100 a page, one page after the other. */

export interface Source {
  readonly url: string;
  readonly token: string;
}

export type Ticket = { readonly id: string; readonly created_at: string; readonly updated_at: string };

const perPage = 100;
/** It is not known whether `since` includes its own second. */
const grainMs = 1000;

async function* readTickets({ url, token }: Source): AsyncGenerator<readonly Ticket[]> {
  for (let since = ''; ; ) {
    const from = since === '' ? '' : `&since_created_at=${since}`;
    const response = await fetch(`${url}/tickets?sort=created_at&per_page=${perPage}${from}`, {
      headers: { authorization: `Bearer ${token}` },
    });
    if (!response.ok) throw new Error(`tickets since ${since}: ${response.status}`);
    const page = (await response.json()) as readonly Ticket[];
    yield page;
    if (page.length < perPage) return;
    const next = new Date(Date.parse(page.at(-1)!.created_at) - grainMs).toISOString();
    if (next === since) throw new Error(`one second fills a page: ${since}`);
    since = next;
  }
}

/** Reads on while up to `atOnce` pages are being written. Answers the seconds from the first request to the last page written. */
export async function writeTickets(
  source: Source,
  atOnce: number,
  write: (page: readonly Ticket[]) => Promise<unknown>,
): Promise<number> {
  const begun = performance.now();
  const writing = new Set<Promise<unknown>>();
  for await (const page of readTickets(source)) {
    if (writing.size === atOnce) await Promise.race(writing);
    const written: Promise<unknown> = write(page).finally(() => writing.delete(written));
    writing.add(written);
  }
  await Promise.all(writing);
  return (performance.now() - begun) / 1000;
}
