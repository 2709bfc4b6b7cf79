/**
 * The account's limits, counted in whole credits and whole milliseconds: so many credits a period, so many requests in
 * any second. Nobody knows which kind of period the service has, so both are here: 'fixed' periods that follow each
 * other from the start of the server, and 'sliding', where a credit comes back one period after it was used. A request
 * that is refused takes no slot of the burst, and no credit unless the server is told to charge it.
 */
export interface LimitOptions {
  credits: number;
  periodSeconds: number;
  requestsPerSecond: number;
  window: 'fixed' | 'sliding';
  /** When the first fixed period begins, in milliseconds. */
  start: number;
}

export interface Budget {
  limit: number;
  remaining: number;
  /** Whole seconds, rounded up. */
  reset: number;
}

interface Use {
  at: number;
  credits: number;
}

export class Limits {
  readonly #options: LimitOptions;
  readonly #period_ms: number;
  /** What was used and has not come back yet, oldest first; one entry for each instant. */
  readonly #uses: Use[] = [];
  #used = 0;
  /** When the requests of the last second were let in. */
  readonly #burst: number[] = [];

  constructor(options: LimitOptions) {
    this.#options = options;
    this.#period_ms = options.periodSeconds * 1000;
  }

  /** Lets a request in and takes its credits, or refuses it and takes nothing. */
  admit(cost: number, now: number): boolean {
    if (this.exceeded(cost, now) !== undefined) return false;
    this.#burst.push(now);
    this.take(cost, now);
    return true;
  }

  /** The limit that a request of this cost runs into; if both, the credits. */
  exceeded(cost: number, now: number): 'credits' | 'burst' | undefined {
    this.#forget(now);
    if (this.#used + cost > this.#options.credits) return 'credits';
    return this.#burst.length >= this.#options.requestsPerSecond ? 'burst' : undefined;
  }

  /** Uses credits without a request of ours: another client of the account. It cannot use more than there are. */
  take(credits: number, now: number): number {
    this.#forget(now);
    const taken = Math.min(credits, Math.max(0, this.#options.credits - this.#used));
    const last = this.#uses.at(-1);
    if (last?.at === now) last.credits += taken;
    else if (taken > 0) this.#uses.push({ at: now, credits: taken });
    this.#used += taken;
    return taken;
  }

  /** Gives back what was taken at that instant, if it has not come back by itself. */
  giveBack(credits: number, at: number): void {
    const place = this.#uses.findLastIndex(use => use.at === at);
    const use = this.#uses[place];
    if (use === undefined) return;
    use.credits -= credits;
    if (use.credits === 0) this.#uses.splice(place, 1);
    this.#used -= credits;
  }

  /** What the headers say; `wanted` is the cost of a request that was refused. */
  budget(now: number, wanted = 0): Budget {
    this.#forget(now);
    return {
      limit: this.#options.credits,
      remaining: this.#options.credits - this.#used,
      reset: Math.ceil((this.#resetsAt(now, wanted) - now) / 1000),
    };
  }

  /** Fixed: the end of the period. Sliding: when the oldest use comes back, or, if refused, when there is enough. */
  #resetsAt(now: number, wanted: number): number {
    if (this.#options.window === 'fixed') return this.#periodStart(now) + this.#period_ms;
    let free = this.#options.credits - this.#used;
    for (const use of this.#uses) {
      free += use.credits;
      if (free >= wanted) return use.at + this.#period_ms;
    }
    return now + (this.#uses.length === 0 ? 0 : this.#period_ms);
  }

  #periodStart(now: number): number {
    return now - ((now - this.#options.start) % this.#period_ms);
  }

  #forget(now: number): void {
    const since = this.#options.window === 'fixed' ? this.#periodStart(now) : now - this.#period_ms + 1;
    // Of thousands in a second only a few go at a time: what goes is counted, what stays is not looked at.
    let old = 0;
    for (; old < this.#uses.length && this.#uses[old]!.at < since; old++) this.#used -= this.#uses[old]!.credits;
    if (old > 0) this.#uses.splice(0, old);
    let past = 0;
    while (past < this.#burst.length && this.#burst[past]! <= now - 1000) past++;
    if (past > 0) this.#burst.splice(0, past);
  }
}
