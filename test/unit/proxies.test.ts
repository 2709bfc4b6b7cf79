/** Which requests go through a proxy. */
import { expect, test } from 'vitest';
import { proxyFor } from '../../src/engine/http/proxies.ts';

const both = { http: new URL('http://plain:3128'), https: new URL('http://tls:3128') };
const through = (address: string, none = '') => proxyFor(new URL(address), { ...both, none })?.setting;

test('each scheme has its proxy, and this machine itself has none', () => {
  expect(through('https://desk.example/api/v1')).toBe('HTTPS_PROXY');
  expect(through('http://desk/api/v1')).toBe('HTTP_PROXY');
  expect(proxyFor(new URL('https://desk.example'), { ...both, https: undefined, none: '' })).toBeUndefined();
  for (const host of ['localhost', 'desk.localhost', '127.0.0.1:80', '127.9.9.9', '[::1]:8080'])
    expect(through(`http://${host}/`), host).toBeUndefined();
});

test.each([
  ['desk.example', ['desk.example', 'eu.desk.example'], ['mydesk.example', 'example']],
  ['.desk.example', ['desk.example', 'eu.desk.example'], ['mydesk.example']],
  ['*.desk.example', ['eu.desk.example'], ['desk.example']],
  ['Desk.Example.', ['desk.example', 'desk.example.'], ['desk.example.com']],
  ['desk.example:8443', ['desk.example:8443'], ['desk.example', 'desk.example:84']],
  ['other.example, desk.example', ['desk.example', 'other.example'], ['third.example']],
  ['other.example desk.example', ['desk.example', 'other.example'], ['third.example']],
  ['10.0.0.0/8', ['10.1.2.3', '10.255.0.1:8443'], ['11.0.0.1', 'desk.example']],
  ['192.168.4.0/22', ['192.168.7.255'], ['192.168.8.0', '192.168.3.255']],
  ['10.0.0.7', ['10.0.0.7'], ['10.0.0.70']],
  ['[fd00::1]', ['[fd00::1]', '[fd00::1]:8443'], ['[fd00::2]']],
  ['fd00::1', ['[fd00::1]'], ['[fd00::2]']],
  ['*', ['desk.example', '10.0.0.1'], []],
  ['10.0.0.0/99, /, :, .', [], ['desk.example', '10.0.0.1']],
])('NO_PROXY=%s leaves out %j, and not %j', (none, left, others) => {
  for (const host of left) expect(through(`https://${host}/api/v1`, none), host).toBeUndefined();
  for (const host of others) expect(through(`https://${host}/api/v1`, none), host).toBe('HTTPS_PROXY');
});
