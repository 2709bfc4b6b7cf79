/**
 * Collects what a function opens, and closes it in reverse order. It has the methods of AsyncDisposableStack that we
 * use, since Node 22 has no such class.
 */
export class OpenStack implements AsyncDisposable {
  #closers: (() => unknown)[] = [];

  /** Returns `opened`, which this stack closes from now on. */
  use<T extends AsyncDisposable>(opened: T): T {
    this.#closers.push(() => opened[Symbol.asyncDispose]());
    return opened;
  }

  defer(close: () => unknown): void {
    this.#closers.push(close);
  }

  /** A new stack with all that this one has opened. This one is empty afterwards. */
  move(): OpenStack {
    const moved = new OpenStack();
    [moved.#closers, this.#closers] = [this.#closers, []];
    return moved;
  }

  /** Closes all, also after an error. Throws the only error, or an AggregateError of several. */
  async disposeAsync(): Promise<void> {
    const errors: unknown[] = [];
    for (let close = this.#closers.pop(); close !== undefined; close = this.#closers.pop()) {
      try {
        await close();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length === 1) throw errors[0];
    if (errors.length > 1) throw new AggregateError(errors, `${errors.length} of them could not be closed`);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.disposeAsync();
  }
}
