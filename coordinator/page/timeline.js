// ---- where the time goes: differences between answers

const COLUMNS = 60; // of the timeline
const SHORTEST_COLUMN = 0.5; // seconds; a stage tells its times as often as that
const PHASES = [
  ['forward', 'forward'], ['backward', 'backward'], ['update', 'update'], ['rotate', 'rotate'],
  ['refresh', 'refresh'], ['send', 'send'], ['recv', 'receive'], ['evaluate', 'evaluate'],
  ['checkpoint', 'checkpoint'], ['silent', 'no report'], ['idle', 'idle'],
];

const sumOf = (column) => Object.values(column).reduce((a, b) => a + b, 0);

// One more than there are columns: a column is what lies between two, for every
// stage the same time. [{at: Unix seconds, times: Map from stage to its times}]
let answers = [];

function noteTimes(unixSeconds, stages) {
  const since = answers.length > 0 ? unixSeconds - answers.at(-1).at : SHORTEST_COLUMN;
  if (Math.abs(since) < SHORTEST_COLUMN) return;
  if (since < 0) answers = []; // the clock was set back
  answers.push({at: unixSeconds, times: new Map(stages.map((x) => [x.stage, x.times]))});
  if (answers.length > COLUMNS + 1) answers.shift();
}

// What a stage told between two answers; null: nothing, or it was built anew and
// counts from zero.
function reportOf(before, after) {
  if (!before || !after) return null;
  const report = {};
  for (const [phase] of PHASES) report[phase] = (after[phase] ?? 0) - (before[phase] ?? 0);
  const fell = PHASES.some(([phase]) => phase !== 'idle' && report[phase] < -0.001);
  return fell || sumOf(report) <= 0 ? null : report;
}

const scaled = (report, factor) =>
  Object.fromEntries(Object.entries(report).map(([phase, s]) => [phase, s * factor]));

// A stage counts what it does when that is done, and until then as idle: so a
// report may take idle time back, and tell more of the rest than fits into its
// time. That was before it.
function carryBack(reports) {
  let idleAhead = 0; // taken back by later reports
  let carried = {};
  for (let i = reports.length - 1; i >= 0; --i) {
    const report = reports[i];
    if (report === null) {
      idleAhead = 0;
      carried = {};
      continue;
    }
    const {idle, ...busy} = report;
    const room = sumOf(report);
    const left = idle + idleAhead;
    idleAhead = Math.min(0, left);
    for (const phase in carried) busy[phase] = (busy[phase] ?? 0) + carried[phase];
    const fits = Math.min(1, (room - Math.max(0, left)) / (sumOf(busy) || 1));
    carried = scaled(busy, 1 - fits);
    reports[i] = {...scaled(busy, fits), idle: Math.max(0, left)};
  }
}

// Seconds by phase, a column per pair of answers. Where the stage told nothing it
// is silent: what it says afterwards of a longer silence comes too late to tell
// what it did when.
function columnsOf(list, stage) {
  const seconds = [], reports = [];
  for (let i = 1; i < list.length; ++i) {
    seconds.push(list[i].at - list[i - 1].at);
    reports.push(reportOf(list[i - 1].times.get(stage), list[i].times.get(stage)));
  }
  reports.forEach((report, i) => {
    if (report === null || i === 0 || reports[i - 1] !== null) return;
    const told = sumOf(report);
    if (told < 1.2 * seconds[i]) return;
    // A single answer that was missed: the next one is of both.
    const late = i === 1 || reports[i - 2] !== null;
    if (late) reports[i - 1] = scaled(report, seconds[i - 1] / (seconds[i - 1] + seconds[i]));
    reports[i] = scaled(report, late ? seconds[i] / (seconds[i - 1] + seconds[i]) : seconds[i] / told);
  });
  carryBack(reports);
  return reports.map((report, i) => report ?? {silent: seconds[i]});
}

function sharesOf(columns) {
  const sum = Object.fromEntries(PHASES.map(([phase]) => [phase, 0]));
  for (const column of columns) for (const phase in column) sum[phase] += column[phase];
  const total = sumOf(sum);
  return total === 0 ? null : scaled(sum, 1 / total);
}

// Seconds up to now.
function silenceOf(columns) {
  let seconds = 0;
  for (let i = columns.length - 1; i >= 0 && columns[i].silent; --i) seconds += columns[i].silent;
  return seconds;
}

function drawColumns(canvas, list) {
  const style = getComputedStyle(document.documentElement);
  const ratio = window.devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * ratio);
  const height = Math.round(canvas.clientHeight * ratio);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext('2d');
  context.clearRect(0, 0, width, height);
  const step = width / COLUMNS;
  list.forEach((column, i) => {
    const total = sumOf(column);
    const left = Math.round((COLUMNS - list.length + i) * step);
    const right = Math.round((COLUMNS - list.length + i + 1) * step);
    let bottom = height;
    for (const [phase] of PHASES) {
      const size = (column[phase] ?? 0) / total * height;
      context.fillStyle = style.getPropertyValue(`--${phase}`);
      context.fillRect(left, bottom - size, Math.max(1, right - left - ratio), size);
      bottom -= size;
    }
  });
}

function showTimeline(s) {
  const rows = s.stages.map((x) => [x.stage, columnsOf(answers, x.stage)]);
  fillChildren($('timeline'), rows, () => {
    const row = make('div', 'row');
    const canvas = make('canvas');
    canvas.setAttribute('role', 'img');
    row.append(make('span', 'who'), canvas, make('span', 'share'));
    return row;
  }, (row, [stage, columns]) => {
    const [who, canvas, share] = row.children;
    const shares = sharesOf(columns);
    const silent = silenceOf(columns);
    setText(who, `Stage ${stage}`);
    setText(share, silent >= 2 ? `silent ${duration(silent)}` :
      shares ? `${percent(1 - shares.idle - shares.silent)} busy` : '–');
    canvas.setAttribute('aria-label', `Stage ${stage}: ` + (shares ?
      PHASES.filter(([p]) => shares[p] >= 0.005).map(([p, name]) => `${name} ${percent(shares[p])}`).join(', ') :
      'nothing measured yet'));
    drawColumns(canvas, columns);
  });
  showShares(rows);
}

function showShares(rows) {
  const header = ['Stage', ...PHASES.map(([, name]) => name)];
  if ($('shares').tHead.rows.length === 0) {
    const tr = make('tr');
    header.forEach((text, i) => {
      const th = make('th', i > 0 ? 'num' : '', text);
      th.scope = 'col';
      tr.append(th);
    });
    $('shares').tHead.append(tr);
  }
  fillTable($('shares'), rows.map(([stage, columns]) => {
    const shares = sharesOf(columns);
    return [stage, ...PHASES.map(([p]) => shares ? `${(shares[p] * 100).toFixed(1)}%` : '–')];
  }), header.map((_, i) => i > 0 ? 'num' : ''));
}

function showLegend() {
  for (const [phase, name] of PHASES) {
    const li = make('li');
    const swatch = make('i', 'swatch');
    swatch.style.background = `var(--${phase})`;
    li.append(swatch, name);
    $('phases').append(li);
  }
}
