/**
 * Tests of the lake need the extensions of DuckDB; some need a server of buckets as well. Both come from PyPI, into a folder
 * of the user's cache, once. Without Python or network the tests do not run, and the run says so at its end (not-run.ts).
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { describe } from 'vitest';
import { cached } from '../../../../test/support/cached.ts';
import { long } from '../../../../test/support/long.ts';
import { findExtensions, install } from './extensions.ts';

declare module 'vitest' {
  interface TaskMeta {
    /** Not run, because it needs the extensions of DuckDB. */
    lacksLake?: boolean;
    /** Not run, because it needs a server of buckets. */
    lacksMoto?: boolean;
    /** Not run, because it needs Spark. */
    lacksSpark?: boolean;
  }
}

const moto = 'moto[server]==5.2.5';

const python = (folder: string | undefined): string | undefined => folder && join(folder, 'bin/python');

/** The Python that has moto; undefined if there is none. */
const findMoto = async () => python(await cached('moto-5.2.5', folder => install(folder, [moto])));

export interface Bucket extends AsyncDisposable {
  /** `s3://…` */
  readonly path: string;
  readonly endpoint: URL;
  readonly region: string;
  readonly keyId: string;
  readonly secret: string;
}

/** An empty bucket, on a server of its own. */
export async function startBucket(program: string): Promise<Bucket> {
  const server = spawn(program, ['-m', 'moto.server', '-H', '127.0.0.1', '-p', '0'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = new Promise(done => server.once('exit', done));
  const endpoint = await new Promise<URL>((resolve, reject) => {
    let said = '';
    server.stderr.on('data', chunk => {
      said += chunk;
      const address = /Running on (http:\S+)/.exec(said)?.[1];
      if (address) resolve(new URL(address));
    });
    void ended.then(() => reject(new Error(`the server of buckets ended: ${said}`)));
  });
  // The server asks for no true signature, only for its form.
  const authorization =
    'AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x';
  await fetch(new URL('/lake', endpoint), { method: 'PUT', headers: { authorization } });
  return {
    ...{ path: 's3://lake/of-tests', endpoint, region: 'us-east-1', keyId: 'test', secret: 'test' },
    async [Symbol.asyncDispose]() {
      server.kill();
      await ended;
    },
  };
}

/** `describe` for tests of the lake. The extensions are where LAKE_EXTENSIONS says. Write `await` before it. */
export async function describeOnLake(name: string, register: () => void): Promise<void> {
  const found = await findExtensions();
  describe(name, { skip: !found, meta: { lacksLake: !found } }, register);
}

/** The same for tests that take long. */
export async function describeLongOnLake(name: string, register: () => void): Promise<void> {
  if (process.env.CI) await describeOnLake(name, register);
  else describe(name, long, register);
}

/** The same for tests that need buckets, and take long; they get the program for `startBucket`. */
export async function describeOnBucket(name: string, register: (program: string) => void): Promise<void> {
  if (!process.env.CI) {
    describe(name, long, () => register(''));
    return;
  }
  const found = await findExtensions();
  const program = found ? await findMoto() : undefined;
  const meta = found ? { lacksMoto: !program } : { lacksLake: true };
  describe(name, { skip: !program, meta }, () => register(program ?? ''));
}

/** The same for tests that need Spark: SPARK_PYTHON is a Python that has it. They take minutes. */
export async function describeOnSpark(name: string, register: (python: string) => void): Promise<void> {
  const python = process.env.SPARK_PYTHON;
  const found = python ? await findExtensions() : false;
  const meta = python ? { lacksLake: !found } : { lacksSpark: true };
  describe(name, { skip: !found, meta }, () => register(python ?? ''));
}
