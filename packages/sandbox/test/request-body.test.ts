import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { headOf, received, Underway } from '../src/http/request-body.ts';

/** A request whose body comes piece by piece, and what has become of it. */
function coming(underway: Underway, wanted: { most: number; kept: boolean }, length?: number) {
  const request = new IncomingMessage(new Socket());
  if (length !== undefined) request.headers['content-length'] = String(length);
  const asked = received(request, headOf(request, false), wanted, underway);
  return { request, asked };
}

const piece = Buffer.alloc(40, 'x');
const turn = () => new Promise(resolve => setImmediate(resolve));

test('a body is held while it comes, and its caller alone knows it afterwards', async () => {
  const underway = new Underway(100);
  const { request, asked } = coming(underway, { most: 80, kept: true });
  request.push(piece);
  await turn();
  expect(underway.bytes).toBe(40);
  request.push(piece);
  request.push(null);
  expect(await asked).toMatchObject({ body: Buffer.concat([piece, piece]) });
  expect(underway.bytes).toBe(0);
});

test('of those without access nothing is held', async () => {
  const underway = new Underway(0);
  const { request, asked } = coming(underway, { most: 80, kept: false });
  request.push(piece);
  await turn();
  expect(underway.bytes).toBe(0);
  request.push(null);
  expect(await asked).toMatchObject({ body: Buffer.alloc(0) });
});

test('together they have a limit, and what breaks off or is too long makes room', async () => {
  const underway = new Underway(100);
  const wanted = { most: 80, kept: true };
  const [first, second, third] = [coming(underway, wanted), coming(underway, wanted), coming(underway, wanted)];
  for (const { request } of [first, second, third]) request.push(piece);
  expect(await third.asked).toBe('no room');
  expect(underway.bytes).toBe(80);
  first.request.destroy();
  expect(await first.asked).toBe('gone');
  second.request.push(Buffer.alloc(50));
  expect(await second.asked).toMatchObject({ tooLong: true });
  expect(underway.bytes).toBe(0);
  expect(await coming(underway, wanted, 81).asked).toMatchObject({ tooLong: true });
});
