/** The site of the documents: the Markdown of the repository as it is, with a search that asks nobody else. */
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';

const here = fileURLToPath(import.meta.url);
const root = join(dirname(here), '../../..');
const { description } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const PARTS = { tutorial: 'Tutorial', 'how-to': 'How to', reference: 'Reference', explanation: 'Explanation' };
const PROJECT = ['docs/SPEC.md', 'docs/DESIGN.md', 'docs/DECISIONS.md', 'CONTRIBUTING.md', 'SECURITY.md'];
/** Files that pages link to and that are no pages. They are copied beside the pages. */
const files = new Set();

const title = path => /^# (.+)$/m.exec(readFileSync(join(root, path), 'utf8'))[1].replaceAll('`', '');
const page = path => ({ text: title(path), link: `/${path.replace(/(README)?\.md$/, '')}` });
const folder = name =>
  readdirSync(join(root, 'docs', name))
    .filter(file => file.endsWith('.md'))
    .map(file => page(`docs/${name}/${file}`))
    .toSorted((a, b) => a.text.localeCompare(b.text));

export default defineConfig({
  title: 'Shelfdesk',
  description,
  srcDir: root,
  // The README of the package links to what lies in the package.
  srcExclude: ['AGENTS.md', '.shelfdesk/**', 'test/**', 'packages/site/**', 'packages/README.md'],
  outDir: join(root, 'dist/site'),
  rewrites: {
    'README.md': 'index.md',
    'docs/README.md': 'docs/index.md',
    'packages/sandbox/README.md': 'packages/sandbox/index.md',
    'packages/moving-source/README.md': 'packages/moving-source/index.md',
    'packages/moving-source/results/README.md': 'packages/moving-source/results/index.md',
  },
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  themeConfig: {
    search: { provider: 'local' },
    nav: [page('docs/README.md'), page('CHANGELOG.md')],
    sidebar: [
      ...Object.entries(PARTS).map(([name, text]) => ({ text, items: folder(name) })),
      { text: 'Sandbox', items: [page('packages/sandbox/README.md')] },
      {
        text: 'What tools lose',
        items: ['packages/moving-source/README.md', 'packages/moving-source/results/README.md'].map(page),
      },
      {
        text: 'The project',
        items: [...PROJECT.map(page), ...folder('contributing'), page('packages/proofs/bench/RESULTS.md')],
      },
    ],
    outline: [2, 3],
  },
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config: md => {
      const open = md.renderer.rules.link_open;
      md.renderer.rules.link_open = (tokens, index, options, env, self) => {
        const href = decodeURI(tokens[index].attrGet('href') ?? '').replace(/#.*$/, '');
        if (href === '' || /^[a-z]+:|\.md$/.test(href)) return open(tokens, index, options, env, self);
        const path = relative(root, join(root, dirname(env.relativePath), href));
        if (!existsSync(join(root, path))) throw new Error(`${env.relativePath}: dead link to ${href}`);
        if (path.startsWith('docs/') && statSync(join(root, path)).isFile()) {
          files.add(path);
          return `<a href="/${path}" target="_self">`;
        }
        // A file of the repository that is no document.
        tokens.find((token, at) => at > index && token.type === 'link_close').tag = 'span';
        return `<span title="${path}">`;
      };
    },
  },
  vite: {
    plugins: [
      {
        // The pages lie outside of this folder, and so out of reach of its libraries.
        name: 'vue-of-this-folder',
        enforce: 'pre',
        resolveId(id, _, { ssr }) {
          if (!/^vue(\/|$)/.test(id)) return null;
          return ssr ? { id, external: true } : this.resolve(id, here, { skipSelf: true });
        },
      },
    ],
    build: { chunkSizeWarningLimit: 2000 },
  },
  buildEnd: ({ outDir }) => {
    for (const path of files) {
      mkdirSync(dirname(join(outDir, path)), { recursive: true });
      copyFileSync(join(root, path), join(outDir, path));
    }
  },
});
