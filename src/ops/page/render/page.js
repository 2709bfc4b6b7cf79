/**
 * Optional script of the page: applies live updates, shows times in the visitor's time zone, sends actions without leaving
 * the page, and draws an interactive graph. Without the script the page shows the same after a reload.
 */

// --- times ------------------------------------------------------------------------------------------------------------

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const dayOf = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const yearOf = new Intl.DateTimeFormat('en-GB', { year: 'numeric' });
const clock = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
const minutes = new Intl.DateTimeFormat('en-GB', clock);
const seconds = new Intl.DateTimeFormat('en-GB', { ...clock, second: '2-digit' });

function written(at, withSeconds) {
  const now = new Date();
  const isToday = at.toDateString() === now.toDateString();
  const year = yearOf.format(at) === yearOf.format(now) ? '' : ` ${yearOf.format(at)}`;
  return `${isToday ? '' : `${dayOf.format(at)}${year}, `}${(withSeconds ? seconds : minutes).format(at)}`;
}

function localise(root) {
  for (const one of root.querySelectorAll('time')) {
    one.title = one.dateTime;
    one.textContent = written(new Date(one.dateTime), 'seconds' in one.dataset);
  }
}

// --- replacing a part ------------------------------------------------------------------------------------------------------

const keyOf = node => node.dataset?.key;
const isAlike = (one, other) =>
  one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);

/** Turns `from` into `to`. Equal elements stay in place and keep focus, scroll position and open state. */
function become(from, to) {
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  for (const { name } of [...from.attributes])
    if (!to.hasAttribute(name) && !(name === 'open' && from.localName === 'details')) from.removeAttribute(name);
  becomeInside(from, to);
}

function becomeInside(from, to) {
  const keys = new Set([...to.children].map(keyOf));
  for (const child of [...from.children]) {
    if (keyOf(child) !== undefined && !keys.has(keyOf(child))) child.remove();
  }
  let here = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    while (here?.dataset?.keep !== undefined) here = here.nextSibling;
    const key = keyOf(wanted);
    const found =
      key === undefined ? here && isAlike(here, wanted) && here : [...from.children].find(one => keyOf(one) === key);
    if (found && isAlike(found, wanted)) {
      if (found === here) here = here.nextSibling;
      else from.insertBefore(found, here);
      become(found, wanted);
    } else from.insertBefore(document.adoptNode(wanted), here);
  }
  while (here) {
    const next = here.nextSibling;
    if (here.dataset?.keep === undefined) here.remove();
    here = next;
  }
}

function show({ id, html: inside, name }) {
  const section = document.getElementById(id);
  if (!section) return location.reload();
  section.dataset.live = name;
  const template = document.createElement('template');
  template.innerHTML = inside;
  localise(template.content);
  const hadFocus = section.contains(document.activeElement);
  becomeInside(section, template.content);
  if (hadFocus && !section.contains(document.activeElement)) {
    // The focused element was removed.
    section.tabIndex = -1;
    section.focus({ preventScroll: true });
  }
  if (id === 'credits') draw();
}

// --- the graph ------------------------------------------------------------------------------------------------------------

let plot;
// A step is its time, the figure of each series, the limit, and how many requests were refused.
let steps = [];
let series = [];
const limitAt = -2;
const refusedAt = -1;

const short = new Intl.NumberFormat('en', { notation: 'compact' });
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function draw() {
  const place = document.querySelector('#credits .plot');
  const data = document.querySelector('#credits .steps');
  if (!place || !data || typeof uPlot === 'undefined') return;
  steps = JSON.parse(data.textContent);
  // The legend names the series, and then limit and refusals.
  series = [...document.querySelectorAll('#credits .legend li')].slice(0, limitAt);
  place.classList.add('drawn');
  // From the top of the stack to the bottom: each series is drawn over the previous one.
  const piles = series.map((_, n) => steps.map(step => step.slice(1, n + 2).reduce((sum, one) => sum + one, 0)));
  const columns = [steps.map(step => step[0]), ...piles.toReversed(), steps.map(step => step.at(limitAt))];
  if (plot) plot.setData(columns);
  else plot = plotIn(place, columns);
}

function plotIn(place, columns) {
  const bars = share => uPlot.paths.bars({ size: [share, Number.POSITIVE_INFINITY], align: 1 });
  const axis = {
    stroke: () => colour('soft'),
    font: '12px system-ui, sans-serif',
    grid: { stroke: () => colour('line'), width: 1 },
    ticks: { show: false },
  };
  const made = new uPlot(
    {
      width: place.clientWidth,
      height: place.clientHeight,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: { y: { range: () => [0, Number(document.querySelector('#credits .plot').dataset.most)] } },
      axes: [
        { ...axis, size: 28, grid: { show: false }, values: (_, at) => at.map(one => written(new Date(one * 1000))) },
        { ...axis, size: 44, values: (_, at) => at.map(one => short.format(one)) },
      ],
      series: [
        {},
        ...series.toReversed().map(({ className }) => ({
          fill: () => colour(className.replace('of-', '')),
          width: 0,
          points: { show: false },
          paths: bars(className === 'of-free' ? 1 : 0.8),
        })),
        {
          stroke: () => colour('ink'),
          width: 1.5,
          dash: [5, 4],
          points: { show: false },
          paths: uPlot.paths.stepped({ align: 1 }),
        },
      ],
      hooks: { draw: [markRefused], setCursor: [readOut] },
    },
    columns,
    place,
  );
  made.root.dataset.keep = '';
  made.root.setAttribute('aria-hidden', 'true');
  new ResizeObserver(() => made.setSize({ width: place.clientWidth, height: place.clientHeight })).observe(place);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => made.redraw());
  return made;
}

function markRefused({ ctx, bbox, valToPos }) {
  ctx.save();
  ctx.setLineDash([]);
  ctx.strokeStyle = colour('bad');
  ctx.lineWidth = 2 * devicePixelRatio;
  const half = steps.length > 1 ? (steps[1][0] - steps[0][0]) / 2 : 0;
  for (const step of steps.filter(one => one.at(refusedAt) > 0)) {
    const x = valToPos(step[0] + half, 'x', true);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

function readOut({ cursor }) {
  const place = document.querySelector('#credits .readout');
  const step = steps[cursor.idx ?? -1];
  if (!place) return;
  const parts = step
    ? [...series.map(({ textContent }, n) => [textContent, step[n + 1]]), ['refused', step.at(refusedAt)]].filter(
        ([, n]) => n > 0,
      )
    : [];
  const figures = parts.map(([name, n]) => `${name} ${Number(n.toFixed(1)).toLocaleString('en')}`);
  place.textContent = step ? `${written(new Date(step[0] * 1000))}: ${figures.join(', ') || 'nothing'}` : '';
}

// --- live -----------------------------------------------------------------------------------------------------------------

const live = document.getElementById('live');
const main = document.getElementById('main');

function say(words, isLost = false) {
  live.classList.toggle('lost', isLost);
  if (live.textContent !== words) live.textContent = words;
}

function follow() {
  const sections = [...document.querySelectorAll('[data-live]')];
  const have = sections.map(one => `${one.id}:${one.dataset.live}`).join(',');
  const from = `${main.dataset.events}${main.dataset.events.includes('?') ? '&' : '?'}have=${encodeURIComponent(have)}`;
  const events = new EventSource(from);
  const well = () => say(`Live; times are ${zone}.`);
  events.addEventListener('open', well);
  events.addEventListener('part', ({ data }) => {
    show(JSON.parse(data));
    well();
  });
  events.addEventListener('back', well);
  events.addEventListener('away', ({ data }) => say(JSON.parse(data), true));
  events.addEventListener('error', () => {
    say('Not connected: these figures are the last ones seen.', true);
    // The server refused the connection: the session ended, or there are too many listeners.
    const isRefused = events.readyState === EventSource.CLOSED;
    // EventSource would reconnect with its first URL, whose part hashes are outdated by now.
    events.close();
    setTimeout(again, isRefused ? 5000 : 2000);
  });
}

async function again() {
  const reply = await fetch(location.href, { method: 'HEAD' }).catch(() => undefined);
  if (reply?.status === 401) location.reload();
  else follow();
}

// --- buttons -----------------------------------------------------------------------------------------------------------------

const said = document.getElementById('said');

async function send(form, button) {
  button.setAttribute('aria-busy', 'true');
  try {
    const body = new URLSearchParams(new FormData(form, button));
    // `form.action` is the button of that name.
    const reply = await fetch(form.getAttribute('action'), {
      method: 'POST',
      body,
      headers: { Accept: 'application/json' },
    });
    if (reply.status === 401) return location.reload();
    const { says, remedy } = await reply.json();
    said.classList.toggle('refused', !reply.ok);
    said.textContent = [says, remedy].filter(Boolean).join(' ');
  } catch {
    said.classList.add('refused');
    said.textContent = 'It could not be sent: the page does not answer.';
  } finally {
    button.removeAttribute('aria-busy');
  }
}

document.getElementById('actions')?.addEventListener('submit', event => {
  event.preventDefault();
  if (event.submitter?.getAttribute('aria-busy') !== 'true') send(event.target, event.submitter);
});

localise(document);
draw();
if (main?.dataset.events) follow();
