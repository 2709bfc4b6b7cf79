/** What DuckDB says of buckets, disks and networks becomes a sentence with a remedy. */
import { describe, expect, test } from 'vitest';
import { failureOfPlace } from '../src/failures.ts';

const said: readonly [what: string, says: string][] = [
  [
    'the bucket of the lake does not exist',
    "HTTP Error: HTTP GET error reading 's3://none/x' in region 'us-east-1' (HTTP 404 Not Found)\n\nNoSuchBucket: The specified bucket does not exist\n\nLINE 1: from glob('s3://none/x/**/*.parquet') limit 1",
  ],
  [
    'the bucket refuses the credentials of the lake',
    "HTTP Error: HTTP GET error reading 's3://lake/x' in region 'us-east-1' (HTTP 403 Forbidden)\n\nSignatureDoesNotMatch: The request signature does not match",
  ],
  [
    'the bucket refuses the credentials of the lake',
    'HTTP Error: Unable to connect to URL https://s3.example.com/lake/x: 403 (Forbidden).\n\nAuthentication Failure - this is usually caused by invalid or missing credentials.',
  ],
  [
    'the server of the bucket does not answer',
    "IO Error: Could not connect to server error for HTTP GET to 'http://127.0.0.1:1/none/?list-type=2'\n\nLINE 1: from glob('s3://none/x')",
  ],
  [
    'the server of the bucket does not answer',
    "IO Error: Could not establish connection error for HTTP HEAD to 'https://s3.example.com/x'",
  ],
  ['the disk is full', 'IO Error: Could not write file "/lake/a.parquet": No space left on device'],
  [
    'this user may not write to the folder of the lake',
    'IO Error: Cannot open file "/lake/a.parquet": Permission denied',
  ],
  ['the disk is full', "ENOSPC: no space left on device, mkdir '/lake'"],
  ['this user may not write to the folder of the lake', "EACCES: permission denied, mkdir '/lake'"],
  ['this user may not write to the folder of the lake', "EROFS: read-only file system, mkdir '/lake'"],
  ['the files of the lake cannot be read or written', "ENOTDIR: not a directory, mkdir '/a.txt/lake'"],
  [
    'no credentials for the bucket of the lake were found',
    "Invalid Configuration Error: Secret Validation Failure: during `create` using the following:\nCredential Chain: 'config'",
  ],
  ['the memory for DuckDB is used up', 'Out of Memory Error: failed to allocate data of size 32.0 MiB'],
  [
    'the files of the lake cannot be read or written',
    'IO Error: No files found that match the pattern "/lake/a.parquet"',
  ],
];

describe('a failure of the place of the lake', () => {
  test.each(said)('%s', (what, says) => {
    const failure = failureOfPlace(new Error(says));
    expect(failure?.message).toBe(`${what}: ${says.split('\n')[0]}`);
    expect(failure?.remedy).not.toBe('');
  });

  test('what is said of a warehouse that does not answer is left out: it names user and host', () => {
    const says = 'IO Error: Unable to connect to Postgres at "host=db user=me password=secret": Connection refused';
    const failure = failureOfPlace(new Error(says));
    expect(failure?.message).toBe('DuckDB cannot connect to the warehouse');
  });

  test.each([
    'Catalog Error: Table with name ticket does not exist!',
    'Parser Error: syntax error at or near "selec"',
    'Permission Error: Cannot access file "/etc/passwd" - file system operations are disabled by configuration',
    "Conversion Error: Could not convert string 'connection to http://x' to INT32",
    "Binder Error: Could not connect the column to 's3://x'",
  ])('a statement that is wrong is none: %s', says => {
    expect(failureOfPlace(new Error(says))).toBeUndefined();
  });
});
