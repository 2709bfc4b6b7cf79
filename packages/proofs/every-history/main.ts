/** `npm run every-history [readers | budget | claims]`: each plays its own worlds, and takes its own options. */
const parts = ['readers', 'budget', 'claims'];
const words = process.argv.slice(2);
const [part = 'readers'] = words.filter(word => parts.includes(word));
process.argv = process.argv.filter((word, i) => i < 2 || word !== part);

if (part === 'budget') await import('./ledger/main.ts');
else if (part === 'claims') await import('./claims/main.ts');
else await (await import('./readers/main.ts')).playReaders();
