import { expect, test } from 'vitest';
import { completeAddress } from '../../src/app/setting-types.ts';

test.each([
  ['desk.example', 'https://desk.example/api/v1'],
  ['https://desk.example/', 'https://desk.example/api/v1'],
  ['desk.example:8443/api/v1', 'https://desk.example:8443/api/v1'],
  ['127.0.0.1:4010', 'http://127.0.0.1:4010/api/v1'],
  ['localhost', 'http://localhost/api/v1'],
  ['sandbox:8080', 'http://sandbox:8080/api/v1'],
  ['http://desk.example/other', 'http://desk.example/other'],
  ['https://desk.example/?key=1', 'https://desk.example/?key=1'],
  ['not an address', 'not an address'],
])('an address is completed: %s', (typed, whole) => {
  expect(completeAddress(typed, '/api/v1')).toBe(whole);
});
