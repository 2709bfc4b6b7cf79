/**
 * In CI the properties draw the same cases each time: what fails there has been done by the change. Where people work chance goes on
 * looking.
 */
import fc from 'fast-check';

if (process.env.CI) fc.configureGlobal({ seed: 20_261_122 });
