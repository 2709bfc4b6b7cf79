/**
 * Rate limits of an account: credits per period, and requests in any second (the burst limit). The specification leaves
 * the kind of period open, so both exist. 'fixed' periods follow each other from the start of the server. With 'sliding',
 * a credit returns one period after its use. A refused request takes no slot of the burst; the caller decides whether
 * it costs credits.
 */
export interface LimitOptions {
  credits: number;
  periodSeconds: number;
  requestsPerSecond: number;
  window: 'fixed' | 'sliding';
  /** Start of the first fixed period, in milliseconds. */
  start: number;
}

export interface Budget {
  limit: number;
  remaining: number;
  /** Seconds until the reset, rounded up. */
  reset: number;
}

interface Use {
  at: number;
  credits: number;
}

export class Limits {
  readonly #options: LimitOptions;
  readonly #period_ms: number;
  /** Used credits that have not returned yet, oldest first, one entry per millisecond. */
  readonly #uses: Use[] = [];
  #used = 0;
  /** Times of the admitted requests of the last second. */
  readonly #burst: number[] = [];

  constructor(options: LimitOptions) {
    this.#options = options;
    this.#period_ms = options.periodSeconds * 1000;
  }

  /** Admits a request and takes its credits, or returns false and takes nothing. */
  admit(cost: number, now: number): boolean {
    if (this.exceeded(cost, now) !== undefined) return false;
    this.#burst.push(now);
    this.take(cost, now);
    return true;
  }

  /** The limit that refuses a request of this cost; 'credits' if both do. */
  exceeded(cost: number, now: number): 'credits' | 'burst' | undefined {
    this.#forget(now);
    if (this.#used + cost > this.#options.credits) return 'credits';
    return this.#burst.length >= this.#options.requestsPerSecond ? 'burst' : undefined;
  }

  /** Takes credits without a request, at most those that remain. Returns the number taken. */
  take(credits: number, now: number): number {
    this.#forget(now);
    const taken = Math.min(credits, Math.max(0, this.#options.credits - this.#used));
    const last = this.#uses.at(-1);
    if (last?.at === now) last.credits += taken;
    else if (taken > 0) this.#uses.push({ at: now, credits: taken });
    this.#used += taken;
    return taken;
  }

  /** Refunds credits taken at that instant, unless they have returned already. */
  giveBack(credits: number, at: number): void {
    const place = this.#uses.findLastIndex(use => use.at === at);
    const use = this.#uses[place];
    if (use === undefined) return;
    use.credits -= credits;
    if (use.credits === 0) this.#uses.splice(place, 1);
    this.#used -= credits;
  }

  /** Budget for the headers; `wanted`: cost of a refused request. */
  budget(now: number, wanted = 0): Budget {
    this.#forget(now);
    return {
      limit: this.#options.credits,
      remaining: this.#options.credits - this.#used,
      reset: Math.ceil((this.#resetsAt(now, wanted) - now) / 1000),
    };
  }

  /** Fixed: end of the period. Sliding: return of the oldest use; after a refusal, the time when `wanted` credits are free. */
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
    // Counts from the front and removes once: a call drops few of thousands of entries, and must not scan the rest.
    let old = 0;
    for (; old < this.#uses.length && this.#uses[old]!.at < since; old++) this.#used -= this.#uses[old]!.credits;
    if (old > 0) this.#uses.splice(0, old);
    let past = 0;
    while (past < this.#burst.length && this.#burst[past]! <= now - 1000) past++;
    if (past > 0) this.#burst.splice(0, past);
  }
}
