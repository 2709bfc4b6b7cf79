/** TLS of a connection to PostgreSQL or Redis: the files that its address names, and what is checked. */
import { readFileSync } from 'node:fs';
import type tls from 'node:tls';
import { UsageError } from '../../../errors.ts';
import type { Tls } from './connection-types.ts';

/** Most connections do without, and the module takes as long to load as Node.js itself. */
const module = () => process.getBuiltinModule('node:tls');

/**
 * TLS options of Node.js for this mode; undefined: no encryption. `require` accepts any certificate, `verify-ca` a
 * certificate of the named authority for any host. As in libpq, `require` with an authority is `verify-ca`. Throws
 * UsageError if a file is missing or no certificate.
 */
export function tlsOptions(asked: Tls, setting: string): tls.ConnectionOptions | undefined {
  const { mode, root, cert, key, keyPassword } = asked;
  if (mode === undefined || mode === 'disable' || mode === 'prefer') return undefined;
  const files = {
    ...(root !== undefined && {
      ca: root === 'system' ? knownAuthorities(true) : [read(setting, 'sslrootcert', root)],
    }),
    ...(cert !== undefined && { cert: read(setting, 'sslcert', cert) }),
    ...(key !== undefined && { key: read(setting, 'sslkey', key) }),
    ...(keyPassword !== undefined && { passphrase: keyPassword }),
  };
  refuseUnusable(files, setting);
  if (mode === 'verify-full') return files;
  if (root === undefined) return { ...files, rejectUnauthorized: false };
  return { ...files, checkServerIdentity: () => undefined };
}

/** The authorities that Node.js trusts (NODE_EXTRA_CA_CERTS among them), and those of the operating system as well if asked for. */
export function knownAuthorities(ofSystem: boolean): string[] {
  const tls = module();
  return [...new Set([...tls.getCACertificates('default'), ...(ofSystem ? tls.getCACertificates('system') : [])])];
}

function read(setting: string, name: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'there is no such file' : `it cannot be read (${code})`;
    throw new UsageError(
      `${setting} names ${name}=${path}, and ${why}`,
      `Put the file there, readable for the user of this process, or name its path in ${setting} (docs/how-to/use-tls.md).`,
    );
  }
}

function refuseUnusable(files: tls.SecureContextOptions, setting: string): void {
  try {
    module().createSecureContext(files);
    if (Array.isArray(files.ca) && files.ca.some(one => !String(one).includes('-----BEGIN')))
      throw new Error('sslrootcert has no certificate in it');
  } catch (error) {
    throw new UsageError(
      `the files of TLS that ${setting} names cannot be used: ${(error as Error).message}`,
      'sslrootcert, sslcert and sslkey are files in PEM form (-----BEGIN …), and the key belongs to the certificate; sslpassword opens a key with a password.',
    );
  }
}
