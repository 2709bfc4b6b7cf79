/** What DuckDB says of places that fail, as a sentence with its remedy. */

interface Sentence {
  /** What is said holds where the warehouse is. */
  readonly isBare?: boolean;
  readonly when: RegExp;
  readonly what: string;
  readonly remedy: string;
}

const isComing = 'Nothing is lost: the next export writes what is missing.';

/** DuckDB's words, and those of Node before it. */
const ofPlaces =
  /\b(IO|HTTP|Out of Memory) Error\b|Secret Validation Failure|^(EACCES|EPERM|EROFS|ENOSPC|EDQUOT|ENOTDIR|EEXIST)\b/;

/** The first that fits. DuckDB has no codes for these. */
const sentences: readonly Sentence[] = [
  {
    when: /connect to Postgres/i,
    what: 'DuckDB cannot connect to the warehouse',
    remedy: `Check that PostgreSQL runs, and that it takes one more connection from here. ${isComing}`,
    isBare: true,
  },
  {
    when: /Secret Validation Failure/,
    what: 'no credentials for the bucket of the lake were found',
    remedy: 'Set LAKE_S3_KEY_ID and LAKE_S3_SECRET, or give this machine or its user credentials for the bucket.',
  },
  {
    when: /NoSuchBucket/,
    what: 'the bucket of the lake does not exist',
    remedy: 'Create it, or check the path of the lake and LAKE_S3_ENDPOINT.',
  },
  {
    when: /InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|InvalidToken|ExpiredToken|HTTP 40[13]\b|Authentication Failure/,
    what: 'the bucket refuses the credentials of the lake',
    remedy:
      'Check LAKE_S3_KEY_ID, LAKE_S3_SECRET and LAKE_S3_REGION. The key needs to list, read, write and delete objects.',
  },
  {
    when: /(connect to|connection|resolve|hostname|timed? ?out|SSL).*(http|s3:)|(http|s3:).*(connection|timed? ?out|SSL)/i,
    what: 'the server of the bucket does not answer',
    remedy: `Check LAKE_S3_ENDPOINT and the network. ${isComing}`,
  },
  {
    when: /No space left on device|Disk quota exceeded/i,
    what: 'the disk is full',
    remedy: `Make room for the lake, or for the folder of temporary files (TMPDIR). ${isComing}`,
  },
  {
    when: /Permission denied|Read-only file system|Operation not permitted/i,
    what: 'this user may not write to the folder of the lake',
    remedy: 'Give the user of the process the right to write there.',
  },
  {
    when: /Out of Memory Error/,
    what: 'the memory for DuckDB is used up',
    remedy: 'Run the export again, or ask for fewer rows at once.',
  },
  {
    when: /(IO|HTTP) Error|^(ENOTDIR|EEXIST)/,
    what: 'the files of the lake cannot be read or written',
    remedy: 'Check that the place of the lake exists and that this process may use it.',
  },
];

/** The failure of a place; undefined if the statement itself is wrong. */
export function failureOfPlace(error: Error): { readonly message: string; readonly remedy: string } | undefined {
  const { message } = error;
  // DuckDB quotes the statement behind an empty line, and servers answer there.
  const [said = ''] = message.split('\n');
  const found = ofPlaces.test(said) ? sentences.find(({ when }) => when.test(message)) : undefined;
  return found && { message: found.isBare ? found.what : `${found.what}: ${said}`, remedy: found.remedy };
}
