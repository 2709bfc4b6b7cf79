/** Invalid options or arguments, or a service that they lead to no answer of. `remedy` tells the user what to change. */
export class SandboxUsageError extends Error {
  readonly remedy: string;

  constructor(message: string, remedy: string, cause?: unknown) {
    super(message, { cause });
    this.remedy = remedy;
  }
}
