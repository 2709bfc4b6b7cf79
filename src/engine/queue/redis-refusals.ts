/** Permanent refusals of Redis in words for people. Pure. */

/** Refusals of Redis and their remedies. The message of a script has the code in the middle. */
const refusals: readonly [code: RegExp, says: string, remedy: string][] = [
  [
    /\bNOPERM\b|user executing the script can't/,
    'Redis does not let this user do what the queue does',
    'Let it use the keys and commands of the queue: `ACL SETUSER <user> resetkeys ~bull:* &* +@all -@dangerous +info +client`. Or take REDIS_URL out: then the queue lives in PostgreSQL.',
  ],
  [
    /\bNOAUTH\b/,
    'Redis wants a password',
    'Write it in REDIS_URL: redis://:password@host or redis://user:password@host.',
  ],
  [/\bWRONGPASS\b|invalid (username-)?password/i, 'Redis refuses the login', 'Check user and password in REDIS_URL.'],
  [/\bDENIED\b/, 'Redis is in protected mode', 'Give it a password, or let it listen for this machine.'],
  [
    /\b(MOVED|ASK|CROSSSLOT)\b/,
    'Redis is a cluster, which the queue does not speak',
    'Name a single Redis in REDIS_URL.',
  ],
  [
    /\bNOREPLICAS\b/,
    'Redis has too few replicas, and takes no writes',
    'Start its replicas, or lower min-replicas-to-write.',
  ],
  [/\bREADONLY\b/, 'Redis is read-only', 'It is a replica: name the primary in REDIS_URL.'],
  [/\bOOM\b/, 'Redis is out of memory', 'Raise maxmemory of Redis, or make room there.'],
  [
    /\bMISCONF\b/,
    'Redis cannot write to its disk, and takes no jobs',
    'Look at its log and its disk; then run `redis-cli bgsave`.',
  ],
  [
    /\bDB index is out of range\b/,
    'Redis has no database of this number',
    'Name another one in REDIS_URL, as in redis://host/0.',
  ],
  [
    /\bunknown command\b/i,
    'Redis lacks a command that the queue needs',
    'Name a Redis of version 6.2 or newer in REDIS_URL.',
  ],
];

/** Message and remedy of what Redis refused, if it is known. */
export function redisRefusal({ message }: Error): { says: string; remedy: string } | undefined {
  const [, says, remedy] = refusals.find(([code]) => code.test(message)) ?? [];
  return says === undefined || remedy === undefined ? undefined : { says: `${says} (${message})`, remedy };
}
