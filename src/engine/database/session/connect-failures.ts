/** Remedies for failed connections to PostgreSQL or Redis. Pure. */

type Setting = 'DATABASE_URL' | 'REDIS_URL';

const unknownAuthority = new Set([
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_GET_ISSUER_CERT',
]);
const expired = new Set(['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID']);
const page = 'docs/how-to/use-tls.md';

/** The remedy of a connection that failed for its encryption or its address; undefined for any other reason. */
export function remedyOfConnect(error: unknown, setting: Setting): string | undefined {
  const { code = '', message = '' } = error as { code?: string; message?: string };
  if (unknownAuthority.has(code))
    return `The certificate comes from an authority that is not known here. Name its file in ${setting}, sslrootcert=/path/ca.pem, or in NODE_EXTRA_CA_CERTS; sslmode=require encrypts without checking (${page}).`;
  if (expired.has(code)) return 'Renew the certificate of the server, or set the clock of this machine.';
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `The certificate is for another host. Name that one in ${setting}, or write sslmode=verify-ca, which takes any host of that authority (${page}).`;
  if (/does not support SSL/i.test(message))
    return `The server has no TLS. Set it up there, or take sslmode out of ${setting}.`;
  if (/requires a valid client certificate/i.test(message) || /certificate required/i.test(message))
    return `The server wants a certificate of the client: sslcert=/path/client.pem&sslkey=/path/client.key (${page}).`;
  if (
    /no encryption|SSL off|(SSL|TLS|encrypt\w*) (connection )?(is )?required|requires? (SSL|TLS|encryption)/i.test(
      message,
    )
  )
    return `The server wants TLS. Add sslmode=require to ${setting}, or sslmode=verify-full (${page}).`;
  if (/unsupported startup parameter/i.test(message))
    return `The pooler refuses settings at start-up. Take options out of ${setting}.`;
  if (code === 'EPROTO' || code === 'ERR_SSL_WRONG_VERSION_NUMBER' || /wrong version number/i.test(message))
    return setting === 'REDIS_URL'
      ? 'No TLS answers at this port: write redis:// in REDIS_URL, or name the port of TLS.'
      : 'No TLS answers at this port: name another one, or take sslmode out of DATABASE_URL.';
  if (/^timeout expired$|^Connection terminated unexpectedly/.test(message))
    return `Check host and port in ${setting}, and the server: what listens there does not answer as PostgreSQL does.`;
  if (/^Unknown RESP type|^Protocol error/.test(message))
    return `Check host and port in ${setting}: what listens there does not answer as Redis does.`;
  if (code === 'ENOENT') return `There is no socket at this path: name another one in ${setting}, or start the server.`;
  if (code === 'EACCES' || code === 'EPERM')
    return 'The user of this process may not use that socket: give it the right.';
  if (/client password must be a string/.test(message))
    return `The server wants a password: write it into ${setting}, or set PGPASSWORD.`;
  if (code === '28P01' || code === '28000') return `Check user and password in ${setting}, and pg_hba.conf.`;
  if (code === '3D000') return `Make the database, or name another one in ${setting}.`;
  return undefined;
}

/** The words of OpenSSL without its numbers and files. */
export const plainly = (message: string): string =>
  message.replace(/^[0-9A-F]+:error:[0-9A-F]+:[^:]*:[^:]*:([^:]+):.*$/is, '$1');
