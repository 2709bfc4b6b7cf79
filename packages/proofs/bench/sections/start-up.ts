/** What a short command costs from its start to its end, from the package. */
import { execFileSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { settingsFor } from '../../../../test/support/cli.ts';
import { openDatabase } from '../lab.ts';
import { type Cost, costOf, runCommand, startSandbox } from '../load.ts';
import type { Section } from '../report.ts';

const root = fileURLToPath(new URL('../../../..', import.meta.url));
const commands = { '`status`': ['status'], '`sync users` that finds nothing': ['sync', 'users'] };

export const startUp: Section = {
  name: 'start-up',
  title: 'Start-up',
  about: [
    'Commands of the package, as `npm run build` makes it, from the start of the process to its end, with a mirror of 100 tickets that is',
    'up to date. The first start of each, which compiles the code and keeps it, is not measured. CPU is that of the process. That of',
    'PostgreSQL has a line of its own.',
  ].join(' '),
  async run({ quick, figure }) {
    execFileSync(process.execPath, ['packages/build.ts'], { cwd: root });
    const program = `${root}dist/shelfdesk/src/main.js`;
    chmodSync(program, 0o755); // As npm does when it installs.
    using source = await startSandbox(100);
    await using db = await openDatabase();
    const settings = settingsFor(db.url, source);
    await runCommand(settings, ['sync'], program);
    for (const [what, args] of Object.entries(commands)) {
      const costs: Pick<Cost, 'node' | 'memory' | 'postgres'>[] = [];
      for (let round = -1; round < (quick ? 3 : 10); round++) {
        const cost = await costOf(db, () => runCommand(settings, args, program));
        if (round >= 0) costs.push(cost);
      }
      const headline = true;
      figure({ what: `${what}: CPU`, unit: 's', rounds: costs.map(({ node }) => node), atMost: 0.4, headline });
      figure({ what: `${what}: CPU of PostgreSQL`, unit: 's', rounds: costs.map(({ postgres }) => postgres) });
      figure({ what: `${what}: memory, at most`, unit: 'MB', rounds: costs.map(({ memory }) => memory) });
    }
  },
};
