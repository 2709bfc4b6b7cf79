/** An answer of the 400 series, thrown from wherever the reason is found. */
export class Refusal extends Error {
  readonly status: number;
  /** Only with 422: each of the things that are wrong. */
  readonly errors: string[] | undefined;
  readonly headers: Record<string, string>;

  constructor(status: number, message: string, errors?: string[], headers: Record<string, string> = {}) {
    super(message);
    this.status = status;
    this.errors = errors;
    this.headers = headers;
  }
}
