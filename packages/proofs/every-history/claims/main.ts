/** `npm run every-history -- claims [--only text] [--states n] [--races]`: every history of the claims, world by world. */
import { parseArgs } from 'node:util';
import * as workers from '../../../../src/engine/runs/workers.ts';
import * as living from '../../../../src/status/workers.ts';
import { startOwnServer } from '../../../../test/support/own-server.ts';
import { exploreClaims, raceClaims } from '../claims.ts';
import { playPresence, presencePlays } from './presence.ts';

const { values } = parseArgs({
  options: { only: { type: 'string' }, states: { type: 'string' }, races: { type: 'boolean' } },
});
const options = {
  ...(values.only !== undefined && { only: values.only }),
  ...(values.states !== undefined && { mostStates: Number(values.states) }),
};
const number = (n: number) => n.toLocaleString('en');
await using server = await startOwnServer();
if (values.races) {
  let pairs = 0;
  let orders = 0;
  for await (const one of raceClaims(server.url, options)) {
    pairs++;
    orders += one.orders;
    if (!one.complaint) continue;
    process.exitCode = 1;
    console.log(`WRONG: ${one.pair}`);
    for (const [n, line] of one.complaint.story.entries()) console.log(`  ${n + 1}. ${line}`);
    console.log(`  ${one.complaint.what}`);
  }
  console.log(`${number(pairs)} pairs of acts, ${number(orders)} orders of their statements`);
}
let beganMs = performance.now();
const told = (world: string, states: number, transitions: number) =>
  console.error(`  ${world}: ${number(states)} states, ${number(transitions)} acts`);
if (!values.races)
  for await (const one of exploreClaims(server.url, options, told)) {
    const seconds = ((performance.now() - beganMs) / 1000).toFixed(1);
    beganMs = performance.now();
    const size = `${number(one.states)} states, ${number(one.transitions)} acts, depth ${one.depth}, ${seconds} s`;
    console.log(`${one.complaint ? 'WRONG' : one.complete ? 'all is well' : 'cut short'}: ${one.world}: ${size}`);
    if (!one.complaint) continue;
    process.exitCode = 1;
    for (const [n, line] of one.complaint.story.entries()) console.log(`  ${n + 1}. ${line}`);
    console.log(`  ${one.complaint.what}`);
  }
if (!values.races && !values.only)
  for (const plays of presencePlays) {
    const { histories, complaint } = await playPresence(server.url, { ...workers, ...living }, plays);
    const of = `${number(histories)} histories of who lives, ${plays.most} events after ${plays.first ?? 'nothing'}`;
    console.log(`${complaint ? 'WRONG' : 'all is well'}: ${of}`);
    if (!complaint) continue;
    process.exitCode = 1;
    for (const [n, line] of complaint.story.entries()) console.log(`  ${n + 1}. ${line}`);
    console.log(`  ${complaint.what}`);
  }
