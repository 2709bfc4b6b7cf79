/** Checks of the settings, and of files that would expose them. */

import { existsSync } from 'node:fs';
import { chmod, readdir, readFile, stat } from 'node:fs/promises';
import { isDemo, meantBy } from '../../../app/config.ts';
import { configuredSources, demoEnded } from '../../../app/context.ts';
import { hostOf } from '../../../engine/http/causes.ts';
import { proxyFor } from '../../../engine/http/proxies.ts';
import { UsageError } from '../../../errors.ts';
import { isTooOld, leastNode } from '../../../node-version.ts';
import { sources } from '../../../sources/index.ts';
import { count } from '../../../words.ts';
import { isLoopback } from '../../page/auth.ts';
import type { Check, DoctorContext } from '../doctor-context.ts';
import { type Finding, fail, ok, skipped, warn } from './check.ts';

/** A shorter secret would match command lines by chance. */
const leastSecret = 8;

export const settingsChecks: readonly Check[] = [
  {
    name: 'Node',
    looks: 'version of Node',
    run({ node }) {
      if (isTooOld(node)) return fail(`Node ${node} is too old`, `Run it with Node ${leastNode} or newer.`);
      return ok(`Node ${node}`);
    },
  },
  {
    name: 'settings',
    looks: 'each setting alone, and contradictions between settings; reports all errors',
    run({ look, fleet }) {
      const wrong: { message: string; remedy: string }[] = [...look.wrong];
      try {
        wrong.push(...fleet().refused.map(({ error }) => error));
      } catch (error) {
        if (!(error instanceof UsageError)) throw error;
        if (!wrong.some(({ message }) => message === error.message)) wrong.push(error);
      }
      if (wrong.length > 0) return wrong.map(({ message, remedy }) => fail(message, remedy));
      const { accounts } = fleet();
      return ok(accounts.length === 1 ? 'all are right' : `all are right, for ${accounts.length} accounts`);
    },
  },
  {
    name: 'sources',
    of: 'account',
    looks: 'at least one configured source',
    run({ config }) {
      const set = configuredSources(config);
      const named = sources.filter(({ name }) => set.has(name)).map(({ label }) => label);
      if (named.length > 0) return ok(`${isDemo(config) ? 'the demo: ' : ''}${named.join(' and ')}`);
      if (isDemo(config)) return fail(demoEnded.message, demoEnded.remedy);
      return fail(
        'no source is configured',
        `Set ${sources.map(({ requires }) => requires).join('; or ')}; in the environment or in .env.`,
      );
    },
  },
  {
    name: 'proxies',
    of: 'account',
    looks: 'the proxy of HTTPS_PROXY or HTTP_PROXY that each source and webhook is reached through',
    run({ config }) {
      const { proxies, alarm, handOff } = config;
      const connections = [...configuredSources(config)];
      const labelOf = (name: string) => sources.find(one => one.name === name)?.label ?? name;
      const reached: [string, URL | undefined][] = [
        ...connections.map(([name, { baseUrl }]): [string, URL] => [labelOf(name), baseUrl]),
        ['the token endpoint of the catalog', config.books?.refresh?.tokenUrl],
        ['the webhook of alarms', alarm?.url],
        ['the webhook of hand-offs', handOff?.webhook?.url],
      ];
      const says = reached.flatMap(([what, address]) => {
        const proxy = address && proxyFor(address, proxies);
        return proxy ? [`${what} through proxy ${hostOf(proxy.url)} (${proxy.setting})`] : [];
      });
      return ok(says.length === 0 ? 'none is used: everything is reached directly' : says.join(', '));
    },
  },
  {
    name: 'servers',
    looks: 'settings of database and queue',
    run({ look }) {
      if (look.servers === undefined) return skipped('DATABASE_URL or REDIS_URL is wrong, see above');
      const { databaseUrl, redisUrl } = look.servers;
      const database = databaseUrl === undefined ? 'the embedded PostgreSQL' : 'PostgreSQL at DATABASE_URL';
      return ok(`${database}, the queue ${redisUrl === undefined ? 'in it' : 'on Redis at REDIS_URL'}`);
    },
  },
  {
    name: 'page',
    looks: 'a token, if SHELFDESK_WEB_HOST opens the page to other machines',
    needs: ['settings'],
    run({ fleetIfAny }) {
      const { web } = fleetIfAny!;
      if (!isLoopback(web.host) && web.token === undefined && web.viewerToken === undefined)
        return fail(
          `the page would be open to everybody who reaches ${web.host}, and is not served`,
          'Set SHELFDESK_WEB_TOKEN to 16 characters or more that nobody can guess, or leave SHELFDESK_WEB_HOST out.',
        );
      const roles = [web.token && 'operators', web.viewerToken && 'viewers'].filter(role => role !== undefined);
      return ok(
        `at ${web.host}, ${roles.length > 0 ? `with a token for ${roles.join(' and for ')}` : 'without a token'}`,
      );
    },
  },
  {
    name: 'names in .env',
    looks: 'unknown names in .env, such as typos',
    async run({ look, fleetIfAny }) {
      if (look.file === undefined) return ok('there is no .env here');
      const [accounts] = fleetIfAny?.files ?? [];
      const referring = accounts === undefined ? '' : await readFile(accounts, 'utf8');
      const unknown = look.unknown.filter(name => !new RegExp(`\\b${name}\\b`).test(referring));
      if (unknown.length === 0) return ok('each is a setting');
      const named = unknown.map(name => {
        const meant = meantBy(name);
        return meant === undefined ? name : `${name} (${meant}?)`;
      });
      return warn(
        `.env sets ${named.join(', ')}, which Shelfdesk does not know`,
        'Compare the spelling with .env.example. What another program reads from this file may stay.',
      );
    },
  },
  {
    name: 'files with secrets',
    looks: 'other users who can read .env, or a file with a secret that SHELFDESK_CONFIG names',
    async run(context) {
      if (context.uid === undefined) return skipped('this system has no file modes');
      const named = [...(context.look.file ? [context.look.file] : []), ...(context.fleetIfAny?.files.slice(1) ?? [])];
      // The check `settings` reports a missing file.
      const secret = named.filter(file => existsSync(file));
      const found = await Promise.all(secret.map(file => readable(file, context)));
      const open = found.filter(one => one !== undefined);
      if (open.length > 0) return open;
      return ok(secret.length === 0 ? 'there are none' : `${count(secret.length, 'file')}, for their owner alone`);
    },
  },
  {
    name: 'the file of accounts',
    looks: 'other users who can change the file of SHELFDESK_CONFIG',
    async run(context) {
      const [file] = context.fleetIfAny?.files ?? [];
      if (file === undefined) return ok('none is used');
      if (context.uid === undefined) return skipped('this system has no file modes');
      const { mode } = await stat(file);
      if ((mode & 0o022) === 0) return ok('only its owner may change it');
      return warn(`others may change ${file}`, `Run \`chmod go-w ${file}\`.`, {
        says: 'take that right from them',
        async do() {
          await chmod(file, mode & 0o755);
          return `only its owner may change ${file} now`;
        },
      });
    },
  },
  {
    name: 'command lines',
    looks: 'secrets in command lines of processes, which every user of this machine can read',
    async run(context) {
      const secrets = allSecrets(context).filter(({ length }) => length >= leastSecret);
      const lines = await commandLines();
      if (lines === undefined) return skipped('this system does not show them in /proc');
      const telling = lines.filter(({ text }) => secrets.some(secret => text.includes(secret)));
      if (telling.length === 0) return ok('none shows a secret of these settings');
      return fail(
        `a secret stands in the command line of process ${telling.map(({ pid }) => pid).join(', ')}`,
        'Set it in the environment or in .env instead, and change it at the source: it may have been read.',
      );
    },
  },
];

/** Read access for everybody is worse than for the group, which may be intended. */
async function readable(file: string, { uid }: DoctorContext): Promise<Finding | undefined> {
  const { mode, uid: owner } = await stat(file);
  if ((mode & 0o077) === 0) return undefined;
  const isOurs = uid === 0 || uid === owner;
  const fix = {
    says: 'take that right from them',
    async do() {
      await chmod(file, mode & 0o700);
      return `only its owner may read ${file} now`;
    },
  };
  const say = (mode & 0o007) === 0 ? warn : fail;
  const who = (mode & 0o007) === 0 ? 'its group' : 'everybody on this machine';
  return say(`${file} can be read by ${who}`, `Run \`chmod 600 ${file}\`.`, isOurs ? fix : undefined);
}

/** Secrets of all accounts, and passwords in URLs. */
export function allSecrets({ look, fleetIfAny }: Pick<DoctorContext, 'look' | 'fleetIfAny'>): string[] {
  const whole = [...look.secrets, ...(fleetIfAny?.secrets ?? [])];
  const passwords = whole.flatMap(text => (URL.canParse(text) ? decoded(new URL(text).password) : []));
  return [...new Set([...whole, ...passwords])].filter(text => text !== '');
}

const decoded = (password: string) => {
  try {
    return [password, decodeURIComponent(password)];
  } catch {
    return [password];
  }
};

async function commandLines(): Promise<{ pid: string; text: string }[] | undefined> {
  const names = await readdir('/proc').catch(() => undefined);
  if (names === undefined) return undefined;
  const read = async (pid: string) => ({ pid, text: await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '') });
  return Promise.all(names.filter(name => /^\d+$/.test(name)).map(read));
}
