/** A 4xx answer, thrown where its reason is found. */
export class Refusal extends Error {
  readonly status: number;
  /** One message per error; only with 422. */
  readonly errors: string[] | undefined;
  readonly headers: Record<string, string>;

  constructor(status: number, message: string, errors?: string[], headers: Record<string, string> = {}) {
    super(message);
    this.status = status;
    this.errors = errors;
    this.headers = headers;
  }
}
