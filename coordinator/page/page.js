// Asks the coordinator every second and shows its answer. Nothing is kept but
// the last minute of each stage's time by phase; of the time before the page was
// opened the coordinator has it.

const POLL_MS = 1000;
const HISTORY_EVERY = 3; // polls
const PATIENCE_MS = 4000; // of one request
const SLOWEST_POLL_MS = 10000; // after the end of the run
const SILENCE_MS = 2000; // then what is shown counts as old
const LOOK_MS = 500; // how often the age of what is shown is looked at
const WATCHER = Math.random().toString(36).slice(2);

const $ = (id) => document.getElementById(id);
const count = new Intl.NumberFormat('en');
const compact = new Intl.NumberFormat('en', {notation: 'compact', maximumFractionDigits: 1});

// ---- words and numbers

function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const s = Math.round(seconds);
  const two = (n) => String(n).padStart(2, '0');
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${two(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} m`;
}

function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (n >= 1024 && unit + 1 < units.length) { n /= 1024; ++unit; }
  return `${unit === 0 ? n : n.toFixed(1)} ${units[unit]}`;
}

const percent = (fraction) => `${Math.round(fraction * 100)}%`;
const loss = (value) => value === undefined || value === null ? '–' : value.toFixed(4);
const stateName = (state) => state.replace('RUN_STATE_', '').toLowerCase().replaceAll('_', ' ');
const clock = (unix) => new Date(unix * 1000).toLocaleTimeString('en-GB');

// ---- the document: it is changed only where something is new, so that focus,
// selection and scrolling stay where they are

function setText(element, text) {
  if (element.textContent !== String(text)) element.textContent = text;
}

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// As many children as there are items; `fill` brings one up to date.
function fillChildren(parent, items, create, fill) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  items.forEach((item, i) => {
    if (i >= parent.children.length) parent.append(create());
    fill(parent.children[i], item);
  });
}

// A row of cells: the first is the row's header. A cell is a text or a function
// that fills the element.
function fillTable(table, rows, classes) {
  fillChildren(table.tBodies[0], rows, () => make('tr'), (tr, cells) => {
    fillChildren(tr, cells, () => {
      const i = tr.children.length;
      const cell = make(i === 0 ? 'th' : 'td', classes[i]);
      if (i === 0) cell.scope = 'row';
      return cell;
    }, (cell, content) => {
      if (typeof content === 'function') content(cell);
      else setText(cell, content);
    });
  });
}

function bar(className, fraction, low, mark) {
  return (cell) => {
    let track = cell.firstElementChild;
    if (!track) {
      track = make('div', className);
      track.append(make('div', 'fill'));
      if (mark !== undefined) track.append(make('div', 'mark-at'));
      cell.append(track);
    }
    track.className = className + (low ? low : '');
    track.firstElementChild.style.width = `${Math.min(1, Math.max(0, fraction)) * 100}%`;
    if (mark !== undefined) track.lastElementChild.style.left = `${mark * 100}%`;
  };
}

let spoken = '';
function say(text) {
  if (text === spoken) return;
  spoken = text;
  $('live').textContent = text;
}

// ---- parts of the page

function showHead(s) {
  const state = stateName(s.state);
  document.title = `${s.name} · ${state} ${percent(s.steps ? s.update / s.steps : 0)}`;
  setText($('name'), s.name);
  setText($('about'), [
    `${s.stages.length} ${s.stages.length === 1 ? 'stage' : 'stages'}`, s.schedule, s.optimizer,
    `generation ${s.generation}`, s.trace_every > 0 ? 'traced' : '',
  ].filter(Boolean).join(' · '));
  setText($('state'), state);
  $('state').dataset.state = state;
  setText($('reason'), s.reason);
  const done = s.steps ? s.update / s.steps : 0;
  $('progress').setAttribute('aria-valuenow', Math.round(done * 100));
  $('progress').setAttribute('aria-valuetext', `update ${s.update} of ${s.steps}`);
  $('progress').firstElementChild.style.width = `${done * 100}%`;
  setText($('percent'), `${(done * 100).toFixed(done < 0.1 ? 1 : 0)}%`);
  setText($('where'), `${s.run_id} in ${s.run_dir}`);
  say(`The run is ${state}.` + (s.standstill ? ` ${s.standstill}` : ''));
  showBanner(s.standstill);
}

function showBanner(text) {
  $('banner').hidden = !text;
  setText($('banner'), text || '');
}

function showTiles(s) {
  setText($('update'), count.format(s.update));
  setText($('update-note'), `of ${count.format(s.steps)}` +
    (s.left_out > 0 ? `, ${count.format(s.left_out)} left out` : ''));
  setText($('loss'), loss(s.loss));
  setText($('loss-note'), s.smoothed_loss === undefined ? '' :
    `mean of ${Math.min(50, s.update - s.left_out)}: ${loss(s.smoothed_loss)}`);
  setText($('valid'), loss(s.valid_loss));
  setText($('valid-note'), s.valid_update === undefined ? 'not measured yet' :
    `at update ${count.format(s.valid_update)}`);
  setText($('speed'), compact.format(Math.round(s.tokens_per_second)));
  setText($('speed-note'), `tokens/s, ${compact.format(s.tokens)} so far`);
  setText($('eta'), s.eta_seconds === undefined ? '–' : duration(s.eta_seconds));
  setText($('eta-note'), `${duration(s.wall_seconds)} gone`);
}

function showStaleness(s) {
  const most = Math.max(1, ...s.stages.map((x) => Math.max(x.delay_expected, x.staleness ?? 0)));
  fillTable($('staleness'), s.stages.map((x) => [
    x.stage,
    bar('bar-track', (x.staleness ?? 0) / most,
      x.staleness !== undefined && x.staleness > x.delay_expected ? ' off' : '',
      x.delay_expected / most),
    x.staleness ?? '–', x.delay_expected, x.staleness_mean.toFixed(2), x.staleness_max,
  ]), ['', 'barcell', 'num', 'num', 'num', 'num']);
}

function showStages(s) {
  const names = new Map(s.workers.map((w) => [w.worker_id, w.name]));
  const newest = Math.max(...s.stages.map((x) => x.weight_version));
  fillTable($('stages'), s.stages.map((x) => [
    x.stage, x.layers, names.get(x.worker_id) ?? '–',
    count.format(x.weight_version) +
      (x.weight_version < newest ? ` (−${newest - x.weight_version})` : ''),
    percent(x.busy_fraction),
    x.refresh_period === undefined ? '–' :
      `${count.format(x.refreshes)}, every ${+x.refresh_period.toFixed(1)}`,
    x.restarts, x.activity || '–',
  ]), ['', '', '', 'num', 'num', 'num', 'num', 'text']);
}

// `since`: seconds for which nothing was heard of the coordinator.
function showWorkers(s, since) {
  setText($('lease'), `a worker that is silent for ${duration(s.lease_seconds)} is lost`);
  fillTable($('workers'), s.workers.map((w) => {
    const age = w.heartbeat_age_seconds + since;
    const left = 1 - age / (s.lease_seconds || 1);
    return [
      w.name, w.state, w.stages.join(', ') || '–',
      (cell) => {
        bar('lease-track', left, left < 0.4 ? ' low' : '')(cell);
        cell.firstElementChild.setAttribute('role', 'img');
        cell.firstElementChild.setAttribute('aria-label', `${percent(Math.max(0, left))} left`);
      },
      `${duration(age)} ago`, bytes(w.peak_rss_bytes), w.pid,
    ];
  }), ['', '', '', '', 'num', 'num', 'num']);
}

function showEvents(id, events, none) {
  const items = events.length > 0 ? events : [null];
  fillChildren($(id), items, () => make('li'), (li, event) => {
    const key = JSON.stringify(event);
    if (li.dataset.key === key) return;
    li.dataset.key = key;
    li.replaceChildren();
    if (!event) return li.append(make('span', 'none', none));
    li.append(make('time', '', event.when), make('span', 'what', event.what));
    if (event.why) li.append(make('span', 'why', event.why));
  });
}

function showLog(s) {
  showEvents('decisions', s.decisions.map((d) => ({
    when: clock(d.unix_seconds), what: d.what, why: d.reason,
  })).reverse(), 'none yet');
  showEvents('recoveries', s.recoveries.map((r) => ({
    when: `at ${duration(r.detected_seconds)}`,
    what: `stage ${r.stage}: ` + (r.recovered_seconds === undefined ? 'not recovered yet' :
      `recovered in ${duration(Math.max(0, r.recovered_seconds - r.detected_seconds))}, ` +
      `${count.format(r.steps_replayed)} updates replayed`),
    why: r.reason,
  })).reverse(), 'nothing was lost');
  showEvents('checkpoints', s.checkpoints.map((c) => ({
    when: c.unix_seconds === undefined ? 'earlier' : clock(c.unix_seconds),
    what: `update ${count.format(c.update)}`,
  })).reverse(), 'none committed yet');
}

// ---- the loss curve

let history = {losses: [], valid_losses: []};

function svg(tag, attributes, text) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  return element;
}

// About `n` round numbers from low to high.
function ticks(low, high, n) {
  const raw = (high - low) / n || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= 0.75 * raw);
  const list = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + step * 1e-6; t += step) list.push(t);
  return list;
}

function frame() {
  const all = [...history.losses, ...history.valid_losses];
  const values = all.map((p) => p[1]);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const pad = (most - least) * 0.06 || 0.5;
  return {
    width: $('curve').clientWidth, height: $('curve').clientHeight,
    left: 46, right: 10, top: 10, bottom: 28,
    x0: all[0][0], x1: Math.max(...all.map((p) => p[0]), all[0][0] + 1),
    y0: least - pad, y1: most + pad,
  };
}

const atX = (f, u) => f.left + (u - f.x0) / (f.x1 - f.x0) * (f.width - f.left - f.right);
const atY = (f, v) => f.top + (f.y1 - v) / (f.y1 - f.y0) * (f.height - f.top - f.bottom);
const path = (f, points) => points.map((p, i) =>
  `${i ? 'L' : 'M'}${atX(f, p[0]).toFixed(1)} ${atY(f, p[1]).toFixed(1)}`).join('');

function showCurve() {
  const picture = $('curve');
  picture.replaceChildren();
  if (history.losses.length === 0) return;
  const f = frame();
  for (const v of ticks(f.y0, f.y1, 5)) {
    picture.append(svg('line', {class: 'grid', x1: f.left, x2: f.width - f.right, y1: atY(f, v), y2: atY(f, v)}));
    picture.append(svg('text', {x: f.left - 8, y: atY(f, v) + 4, 'text-anchor': 'end'}, String(+v.toPrecision(4))));
  }
  for (const u of ticks(f.x0, f.x1, Math.max(2, f.width / 110))) {
    if (u % 1) continue;
    picture.append(svg('text', {x: atX(f, u), y: f.height - 8, 'text-anchor': 'middle'}, count.format(u)));
  }
  picture.append(svg('path', {class: 'train', d: path(f, history.losses)}));
  if (history.valid_losses.length > 1) picture.append(svg('path', {class: 'valid', d: path(f, history.valid_losses)}));
  const dots = history.valid_losses.length > 40 ? [] : history.valid_losses;
  for (const p of dots) picture.append(svg('circle', {class: 'dot', cx: atX(f, p[0]), cy: atY(f, p[1]), r: 3.5}));
  const [first, last] = [history.losses[0], history.losses.at(-1)];
  const valid = history.valid_losses.at(-1);
  picture.setAttribute('aria-label', `Training loss from ${loss(first[1])} at update ${first[0]} to ` +
    `${loss(last[1])} at update ${last[0]}` + (valid ? `; held-out loss ${loss(valid[1])} at update ${valid[0]}` : ''));
}

function pointAt(event) {
  if (history.losses.length === 0) return;
  const f = frame();
  const x = event.clientX - $('curve').getBoundingClientRect().left;
  const near = history.losses.reduce((a, b) => Math.abs(atX(f, b[0]) - x) < Math.abs(atX(f, a[0]) - x) ? b : a);
  $('curve').querySelector('.cursor')?.remove();
  const at = atX(f, near[0]);
  $('curve').append(svg('line', {class: 'cursor', x1: at, x2: at, y1: f.top, y2: f.height - f.bottom}));
  const tip = $('tip');
  tip.hidden = false;
  tip.textContent = `update ${count.format(near[0])}: ${loss(near[1])}`;
  tip.style.left = `${Math.min(at + 8, f.width - tip.offsetWidth)}px`;
}

function leaveCurve() {
  $('tip').hidden = true;
  $('curve').querySelector('.cursor')?.remove();
}

// ---- the loop

async function ask(what) {
  const response = await fetch(what, {cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS)});
  if (!response.ok) throw new Error(`${what}: ${response.status}`);
  return response.json();
}

let status = null;
let changed = Date.now(); // when an answer last said something new
let unanswered = null; // since when there is no answer
let stuck = false; // there are answers, always the same
let timesAsked = false;
const ended = () => status !== null && status.exit_code !== undefined;

// What the silence is of, if there is one.
function silence() {
  if (unanswered !== null && Date.now() - unanswered >= SILENCE_MS) {
    if (ended()) return 'The run has ended, and the coordinator with it. This is the last it said.';
    return 'The coordinator does not answer. If it starts again, this page goes on by itself.';
  }
  if (stuck) return status.standstill || 'The coordinator answers nothing new: it may hang.';
  return '';
}

// Between answers, too: none may come.
function look() {
  const text = silence();
  const old = text !== '' && !ended();
  document.documentElement.toggleAttribute('data-old', old);
  if (text === '') return;
  const since = (Date.now() - changed) / 1000;
  showBanner(old && status !== null ? `${text} What is shown is ${duration(since)} old.` : text);
  say(old ? 'The coordinator says nothing new.' : text);
  if (!old) return;
  setText($('state'), 'not known');
  $('state').dataset.state = '';
  if (status !== null) showWorkers(status, since);
}

async function turn(n) {
  unanswered ??= Date.now();
  try {
    const answer = await ask(`status.json?watch=${WATCHER}`);
    if (!timesAsked) {
      for (const sample of await ask('times.json')) noteTimes(sample.unix_seconds, sample.stages);
      timesAsked = true;
    }
    if (n % HISTORY_EVERY === 0 || answer.exit_code !== undefined) history = await ask('history.json');
    unanswered = null;
    if (status === null || answer.unix_seconds !== status.unix_seconds) changed = Date.now();
    status = answer;
    stuck = !ended() && Date.now() - changed >= SILENCE_MS;
    if (!ended()) noteTimes(status.unix_seconds, status.stages);
    showHead(status);
    showTiles(status);
    if (status.stages.length > 0) {
      showStaleness(status);
      showTimeline(status);
      showStages(status);
    }
    showWorkers(status, 0);
    showLog(status);
    showCurve();
    document.documentElement.dataset.update = status.update;
  } catch (error) {
    if (!(error instanceof TypeError) && error.name !== 'TimeoutError' && error.name !== 'AbortError' &&
        !/json/.test(error.message)) throw error;
  }
  look();
}

async function main() {
  showLegend();
  $('curve').addEventListener('pointermove', pointAt);
  $('curve').addEventListener('pointerleave', leaveCurve);
  window.addEventListener('resize', () => { showCurve(); if (status) showTimeline(status); });
  setInterval(look, LOOK_MS);
  let wait = POLL_MS;
  for (let n = 0; ; ++n) {
    await turn(n);
    wait = ended() ? Math.min(2 * wait, SLOWEST_POLL_MS) : POLL_MS;
    await new Promise((resolve) => setTimeout(resolve, document.hidden ? Math.max(5 * POLL_MS, wait) : wait));
  }
}

main();
