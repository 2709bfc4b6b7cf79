/** HTML to text: ordinary mail as it always was, and markup that is made to break whoever reads it. */
import { expect, test } from 'vitest';
import { plainTextOf } from '../../src/sources/helpdesk/messages/plain-text.ts';

test.for([
  [
    'paragraphs, line breaks and a link',
    '<p>Dear&nbsp;all,</p><p>see <a href="https://x.example/long">here</a><br>now<img src="cid:1"></p>',
    'Dear all,\n\nsee here\nnow',
  ],
  [
    'a whole document',
    '<html><head><title>Offer</title><style>p{}</style></head><body><div>one</div><div>two <b>three</b></div></body></html>after',
    'one\ntwo three',
  ],
  [
    'lists in lists',
    '<ul><li>one<ol start="9"><li>a</li><li>b</li></ol></li><li>two</li></ul>',
    ' * one\n   9.  a\n   10. b\n * two',
  ],
  ['letters and numerals are numbers', '<ol type=I start=4><li>four</li></ol>', ' 4. four'],
  [
    'quotes',
    '<div>On Monday Ada wrote:<blockquote><p>first</p><blockquote>second<br>third</blockquote></blockquote>me</div>',
    'On Monday Ada wrote:\n\n> first\n> \n> > second\n> > third\n\nme',
  ],
  ['a table as mail uses it', '<table><tr><td><p>left</p></td><td> right</td></tr></table>', 'left\n\nright'],
  [
    'headings and a rule',
    '<h1>News</h1><h4>small</h4><hr>text',
    'NEWS\n\nSMALL\n\n----------------------------------------\n\ntext',
  ],
  ['preformatted', '<pre>a  b\n  c<div>d</div></pre>e', 'a  b\n  c\nd\n\ne'],
  [
    'marks that are not closed or not opened',
    '<div>a<p>b<p>c</div>d</span></p>e<br/>f</br>g',
    'a\n\nb\n\nc\n\nd\n\n\n\ne\nf\ng',
  ],
  ['references', 'a&amp;b &lt;tag&gt; &#65;&#x1F600; &copy 1 < 2 & 3 &nosuch;', 'a&b <tag> A😀 © 1 < 2 & 3 &nosuch;'],
  ['what nobody reads', 'a<!-- no --><script>no</script><style>no</style><![CDATA[no]]><?no?>b', 'ab'],
  ['white space', ' \n a \t b​c\r\n<b> d </b> e ', 'a b c d e'],
])('%s', async ([, html, text]) => {
  expect(await plainTextOf(html!)).toEqual({ text, simplified: false });
});

const times = (n: number, html: string) => html.repeat(n);
const size = 2_500_000;
const fill = (html: string) => times(Math.ceil(size / html.length), html);
const wordsOf = (text: string) => text.split(/[\s>*]+/).filter(word => word !== '' && !/^-+$/.test(word));

/** Markup that once took minutes or the stack: two and a half megabytes of each. */
const floods: Record<string, string> = {
  ...Object.fromEntries(
    'div p b span blockquote ul ol li table td h1 pre dl svg select body title'
      .split(' ')
      .map(name => [`<${name}>`, `<${name}>`]),
  ),
  'lists in lists': '<ul><li>',
  'tables in tables': '<table><tr><td>',
  'end tags of none': '</x>',
  pairs: '<div></div>',
  rules: '<hr>',
  'less-than signs': '<',
  ampersands: '&',
  references: '&amp;',
  'white space': ' \n',
  'comments that do not end': '<!--',
  CDATA: '<![CDATA[a]]>',
  attributes: '<a x y=1 z="&amp;">',
};

test.for(Object.keys(floods))(
  'words before and within a flood of %s are kept, and it grows to no more than twice its size',
  async name => {
    const flood = floods[name]!;
    // Of a document with a body only that is read.
    const before = await plainTextOf(`${name === '<body>' ? flood : ''}before <i>it</i>${fill(flood)}`);
    expect(before.text).toMatch(/^before it/);
    expect(before.text.length).toBeLessThan(size * 2);
    if (name === 'comments that do not end') return;
    const within = await plainTextOf(`${times(20_000, flood)} within ${times(20_000, '</div>')}`);
    expect(within.text.toLowerCase()).toContain('within');
  },
);

test('elements 500,000 deep: every word is there, and that the layout is not is told', async () => {
  const html = `${times(250_000, '<div>')}deep down${times(250_000, '</div>')}<blockquote>up</blockquote>`;
  const { text, simplified } = await plainTextOf(html);
  expect(wordsOf(text)).toEqual(['deep', 'down', 'up']);
  expect(simplified).toBe(true);
});

test('end tags of what is not open, within very many that are', async () => {
  const { text } = await plainTextOf(`${times(200_000, '<b>')}${times(200_000, '</i>')}word`);
  expect(text).toBe('word');
});

test('nested quotes cost bounded time and lose no word', async () => {
  const html = `${times(400, '<blockquote>')}${times(100_000, 'w<br>')}${times(400, '</blockquote>')}`;
  const { text, simplified } = await plainTextOf(html);
  expect(wordsOf(text)).toHaveLength(100_000);
  expect(text.length).toBeLessThan(10_000_000);
  expect(simplified).toBe(true);
});

test('a list with odd attributes is still numbered', async () => {
  for (const attributes of [
    'type="__proto__"',
    'type="constructor"',
    'start="1e400"',
    'start="-3" type="i"',
    'start="99999" type="I"',
  ]) {
    const { text } = await plainTextOf(`<ol ${attributes}><li>a</li></ol>`);
    expect(text).toMatch(/^ -?\d+\. a$/);
  }
});

test('long text is converted in pieces, alike wherever they end; the event loop gets its turn between them', async () => {
  const html = times(9, `${times(4000, 'Grüße &amp;&nbsp;more &eacute;t&#x1F600; ')}<p title="a&amp;b">`);
  let turns = 0;
  let isDone = false;
  const watch = () => {
    if (isDone) return;
    turns++;
    setImmediate(watch);
  };
  setImmediate(watch);
  const { text } = await plainTextOf(html);
  isDone = true;
  expect(turns).toBeGreaterThanOrEqual(Math.floor(html.length / 65_536));
  const line = times(4000, 'Grüße &\u00a0more ét\u{1f600} ').trim();
  expect(text.split(/\n+/).filter(Boolean)).toEqual(Array.from({ length: 9 }, () => line));
});
