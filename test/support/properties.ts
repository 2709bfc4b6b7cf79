/**
 * In CI the properties draw the same cases each time: what fails there has been done by the change. Where people work chance goes on
 * looking.
 */
if (process.env.CI) {
  const { default: fc } = await import('fast-check');
  fc.configureGlobal({ seed: 20_261_122 });
}
