/**
 * `npm run every-history [readers | budget | claims]`: each plays its own worlds, and takes its own options.
 * `npm run every-history -- mutants PART`: which small changes of the product its worlds do not find.
 */
import { examined } from './examined.ts';

const parts = ['readers', 'budget', 'claims', ...Object.keys(examined)];
const words = process.argv.slice(2);
const [part = 'readers'] = words.filter(word => parts.includes(word));
process.argv = process.argv.filter((word, i) => i < 2 || (word !== part && word !== 'mutants'));

if (words.includes('mutants')) await (await import('./mutants.ts')).tryMutants(part);
else if (part === 'budget') await import('./ledger/main.ts');
else if (part === 'claims') await import('./claims/main.ts');
else await (await import('./readers/main.ts')).playReaders();
