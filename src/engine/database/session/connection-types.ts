/** The parts of the addresses in DATABASE_URL and REDIS_URL. */

/** How far a connection is encrypted and checked, with the meaning that libpq gives these words. */
export type TlsMode = 'disable' | 'prefer' | 'require' | 'verify-ca' | 'verify-full';

export interface Tls {
  /** Undefined: nothing was said. */
  readonly mode: TlsMode | undefined;
  /** File with the certificates to trust, or `system`: those of Node.js and of the operating system. */
  readonly root: string | undefined;
  /** Files of a client's certificate and key. */
  readonly cert: string | undefined;
  readonly key: string | undefined;
  readonly keyPassword: string | undefined;
}

export interface DatabaseAddress {
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** A folder with a socket begins with `/`. */
  readonly host: string | undefined;
  readonly port: number | undefined;
  readonly database: string | undefined;
  /** Sent at start-up. */
  readonly options: string | undefined;
  readonly tls: Tls;
  readonly directTls: boolean;
  /** Channel binding: the login is bound to the TLS connection if the server supports it. */
  readonly bindsChannel: boolean;
}

export interface RedisAddress {
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** A socket has a path, and no host. */
  readonly path: string | undefined;
  readonly host: string;
  readonly port: number;
  readonly db: number;
  readonly family: 0 | 4 | 6;
  /** Undefined: not encrypted. */
  readonly tls: Tls | undefined;
}

/** The address, or what is wrong with it and what to write, to follow the name of the setting. Never with a secret. */
export type Read<T> = { readonly address: T } | { readonly wrong: string };
