/** `npm run every-history -- budget [--only text] [--states n]`: every history of the budget, world by world. */
import { parseArgs } from 'node:util';
import { exploreLedger } from '../ledger.ts';

const { values } = parseArgs({ options: { only: { type: 'string' }, states: { type: 'string' } } });
const options = {
  ...(values.only !== undefined && { only: values.only }),
  ...(values.states !== undefined && { mostStates: Number(values.states) }),
};
const number = (n: number) => n.toLocaleString('en');
let beganMs = performance.now();
for (const one of exploreLedger(options, (world, states, transitions, depth) =>
  console.error(`  ${world}: ${number(states)} states, ${number(transitions)} steps, depth ${depth}`),
)) {
  const seconds = ((performance.now() - beganMs) / 1000).toFixed(1);
  beganMs = performance.now();
  const size = `${number(one.states)} states, ${number(one.transitions)} steps, depth ${one.depth}, ${seconds} s`;
  console.log(`${one.complaint ? 'WRONG' : one.complete ? 'all is well' : 'cut short'}: ${one.world}: ${size}`);
  if (!one.complaint) continue;
  process.exitCode = 1;
  for (const [n, line] of one.complaint.story.entries()) console.log(`  ${n + 1}. ${line}`);
  console.log(`  ${one.complaint.what}`);
}
