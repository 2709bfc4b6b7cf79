/** Mistakes that are planted in a copy of the program, to see that power cuts find them. The product does not know them. */
import { mkdtempSync } from 'node:fs';
import { cp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface Defect {
  readonly name: string;
  readonly file: string;
  /** Texts of the file, each with what stands there instead. */
  readonly changes: readonly (readonly [from: string, to: string])[];
}

const aloneWith = (pool: string) => `import pgApart from 'pg';
const apart = new pgApart.Pool({ connectionString: process.env.DATABASE_URL, max: 2${pool} });
apart.on('error', () => {});
`;

export const defects: readonly Defect[] = [
  {
    name: 'coverage is committed before its rows',
    file: 'src/engine/coverage/coverage.ts',
    changes: [
      ['import ', `${aloneWith('')}import `],
      ["query(client, 'cover')", "query(apart, 'cover')"],
    ],
  },
  {
    name: 'a slot is claimed, and its run is opened a little later',
    file: 'src/engine/runs/slots.ts',
    changes: [
      ['import ', `${aloneWith('')}import `],
      ["byKey(client, 'take slot')", "byKey(apart, 'take slot')"],
      [
        'if (taken === 0) return undefined;',
        'if (taken === 0) return undefined;\n    await new Promise(done => setTimeout(done, 300));',
      ],
    ],
  },
  {
    name: 'a grant may be lost',
    file: 'src/engine/budget/budget.ts',
    changes: [[`set_config('synchronous_commit', 'on', true)`, `set_config('synchronous_commit', 'off', true)`]],
  },
  {
    name: 'slots and tokens may be lost',
    file: 'src/engine/database/pool.ts',
    changes: [['set local synchronous_commit = on', 'set local synchronous_commit = off']],
  },
];

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** The file with the mistake. Throws where the text that it stands for is not there. */
export async function mistaken({ name, file, changes }: Defect): Promise<string> {
  let text = await readFile(join(root, file), 'utf8');
  for (const [from, to] of changes) {
    if (!text.includes(from)) throw new Error(`${name}: ${file} has no ${from}`);
    text = text.replace(from, to);
  }
  return text;
}

/** The main.ts of a copy with the mistake. */
export async function plant(defect: Defect, stack: AsyncDisposableStack): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'shelfdesk-planted-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  for (const part of ['src', 'jobs', 'migrations', 'schema', 'package.json'])
    await cp(join(root, part), join(folder, part), { recursive: true });
  for (const part of ['node_modules', 'packages']) await symlink(join(root, part), join(folder, part));
  await writeFile(join(folder, defect.file), await mistaken(defect));
  return join(folder, 'src/main.ts');
}
