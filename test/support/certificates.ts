/** Certificates of an authority of the tests' own, made by openssl. */
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface Certificates extends AsyncDisposable {
  readonly folder: string;
  readonly authority: string;
  /** Of an authority that signed nothing here. */
  readonly stranger: string;
  /** For `localhost` alone. */
  readonly server: { cert: string; key: string };
  /** For `desk.example`. */
  readonly named: { cert: string; key: string };
  readonly client: { cert: string; key: string };
}

export async function makeCertificates(): Promise<Certificates> {
  const folder = await mkdtemp(join(tmpdir(), 'shelfdesk-tls-'));
  await chmod(folder, 0o755);
  const at = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => run('openssl', args, { cwd: folder });
  const authorityOf = async (name: string) => {
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', `${name}.key`];
    await openssl('req', '-x509', ...key, '-out', `${name}.pem`, '-days', '2', '-subj', `/CN=${name}`);
    return at(`${name}.pem`);
  };
  const signed = async (name: string, more: string) => {
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', `${name}.key`];
    await openssl('req', ...key, '-out', `${name}.csr`, '-subj', `/CN=${name}`);
    await writeFile(at(`${name}.ext`), more);
    const by = ['-CA', 'authority.pem', '-CAkey', 'authority.key', '-CAcreateserial', '-extfile', `${name}.ext`];
    await openssl('x509', '-req', '-in', `${name}.csr`, ...by, '-out', `${name}.pem`, '-days', '2');
    return { cert: at(`${name}.pem`), key: at(`${name}.key`) };
  };
  return {
    folder,
    authority: await authorityOf('authority'),
    stranger: await authorityOf('stranger'),
    server: await signed('server', 'subjectAltName=DNS:localhost\n'),
    named: await signed('named', 'subjectAltName=DNS:desk.example\n'),
    client: await signed('client', 'extendedKeyUsage=clientAuth\n'),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}
