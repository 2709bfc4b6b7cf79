/**
 * The program writes to stdout and stderr, also where a test runs it in this process. As console output, vitest keeps it with
 * its test, and shows it where the test fails.
 */
for (const [stream, log] of [
  [process.stdout, console.log],
  [process.stderr, console.error],
] as const)
  stream.write = (text: string | Uint8Array) => {
    log(String(text).replace(/\n$/, ''));
    return true;
  };
