// The dashboard: the status comes as server-sent events, the curves from /history.json. It changes nothing, but for the pages that its reader
// purges with a token.
'use strict';

const SVG = 'http://www.w3.org/2000/svg';
const ROWS = 25;
const HISTORY_EVERY = { hour: 5_000, day: 60_000 };
const view = { range: 'hour', site: null, sort: 'rate', down: true, filter: '', all: false, status: null, history: null, loaded: 0 };

const $ = (id) => document.getElementById(id);

/** An element with properties and children; texts are never parsed as HTML. */
function el(tag, props = {}, ...children) {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
}

function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Figures for people.

const known = (value) => value !== null && value !== undefined;
const count = (value) => Math.round(value).toLocaleString('en');
const wholePercent = (value) => `${Math.round(value * 100)} %`;
const percent = (value) => (known(value) ? `${(value * 100).toFixed(value > 0.995 && value < 1 ? 2 : 1)} %` : '–');

function rate(value) {
  if (!known(value)) return '–';
  if (value === 0) return '0';
  return value >= 100 ? count(value) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function time(ms) {
  if (!known(ms)) return '–';
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  return ms < 1000 ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
  return `${at && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

function duration(seconds) {
  const [d, h, m] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  return d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min` : `${Math.floor(seconds)} s`;
}

const clock = (unix) => new Date(unix * 1000).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });

// Curves.

const SERVER_CURVES = [
  { title: 'Requests per second', lines: [['requests_per_second', '']], show: rate },
  { title: 'Page cache hits', lines: [['hit_ratio', '']], show: percent, axis: wholePercent, top: 1 },
  { title: 'Response time', lines: [['p50_ms', '50 % under '], ['p95_ms', '95 % under ']], show: time },
  { title: 'PHP', lines: [['php_busy', 'busy '], ['php_waiting', 'waiting ']], show: count, least: 4 },
  { title: 'Errors (5xx) per second', lines: [['errors_per_second', '']], show: rate },
  { title: 'Sent per second', lines: [['sent_bytes_per_second', '']], show: bytes, unit: 1024 },
];
const SITE_CURVES = [
  SERVER_CURVES[0], SERVER_CURVES[1],
  { title: 'PHP response time, mean', lines: [['php_mean_ms', '']], show: time },
  { title: 'PHP requests per second', lines: [['php_per_second', '']], show: rate },
  SERVER_CURVES[4],
];

/** A round number of at least `value`, whose half is round, too; of bytes in their units. */
function roundUp(value, unit = 1) {
  let power = 1;
  while (unit > 1 && value >= power * unit) power *= unit;
  const ten = 10 ** Math.floor(Math.log10(value / power));
  return [1, 2, 4, 6, 8, 10].map((step) => step * ten * power).find((step) => step >= value * 0.999);
}

const PLOT = { left: 54, top: 8, height: 96 };
/** A curve spans at least so many points, and at most its range: of a young server there is less to show. */
const LEAST_POINTS = 60;

function curve(spec, ring, width) {
  const { left, top, height } = PLOT;
  const right = width - 4;
  const lists = spec.lines.map(([name]) => ring.points[name] ?? []);
  const most = spec.top ?? roundUp(Math.max(spec.least ?? spec.unit ?? 1, ...lists.flat().filter(known)), spec.unit);
  const slots = Math.max(LEAST_POINTS, lists[0].length);
  const span = slots * ring.every_seconds;
  const x = (at, length) => right - (length - 1 - at) * (right - left) / (slots - 1);
  const y = (value) => top + height - height * Math.min(value / most, 1);
  const image = svg('svg', { role: 'img', viewBox: `0 0 ${width} 130` });
  for (const share of [0, 0.5, 1]) {
    const at = Math.round(y(most * share)) + 0.5;
    image.append(svg('line', { class: 'grid', x1: left, x2: right, y1: at, y2: at }));
    image.append(svg('text', { x: left - 6, y: at + 4, 'text-anchor': 'end' }, (spec.axis ?? spec.show)(most * share)));
  }
  for (const [share, anchor] of [[0, 'start'], [0.5, 'middle'], [1, 'end']]) {
    const label = clock(ring.end - span * (1 - share));
    image.append(svg('text', { x: left + (right - left) * share, y: 124, 'text-anchor': anchor }, label));
  }
  lists.forEach((list, line) => {
    for (const [from, points] of pieces(list)) {
      const dots = points.map((value, at) => `${x(from + at, list.length).toFixed(1)} ${y(value).toFixed(1)}`);
      const [first, last] = [x(from, list.length), x(from + points.length - 1, list.length)];
      if (line === 0 && dots.length > 1) {
        image.append(svg('path', { class: 'area', d: `M${first} ${y(0)}L${dots.join('L')}L${last} ${y(0)}Z` }));
      }
      image.append(dots.length > 1
        ? svg('path', { class: `line${line}`, d: `M${dots.join('L')}` })
        : svg('circle', { class: `dot${line}`, cx: first, cy: y(points[0]), r: 2 }));
    }
  });
  const legend = el('span');
  const say = (at) => legend.replaceChildren(...spec.lines.flatMap(([, word], line) => {
    const text = `${word}${spec.show(lists[line][at] ?? null)}`;
    return [el('span', { className: `key${line}`, textContent: text }), ' '];
  }), ...(at === lists[0].length - 1 ? [] : [el('span', { className: 'quiet', textContent: clock(ring.end - (lists[0].length - 1 - at) * ring.every_seconds) })]));
  const now = lists[0].length - 1;
  say(now);
  image.setAttribute('aria-label', `${spec.title}: ${legend.textContent.trim()} now, highest value of the axis ${spec.show(most)}`);
  follow(image, width, now + 1, x, say);
  return el('figure', { className: 'card' }, el('figcaption', {}, spec.title, legend), image);
}

/** Stretches of a list without gaps, each with its start. */
function pieces(list) {
  const found = [];
  list.forEach((value, at) => {
    if (!known(value)) return;
    if (at === 0 || !known(list[at - 1])) found.push([at, []]);
    found.at(-1)[1].push(value);
  });
  return found;
}

/** Shows the values below the pointer. */
function follow(image, width, length, x, say) {
  const cursor = svg('line', { class: 'cursor', y1: PLOT.top, y2: PLOT.top + PLOT.height, visibility: 'hidden' });
  image.append(cursor);
  image.addEventListener('pointermove', (event) => {
    const box = image.getBoundingClientRect();
    const wanted = (event.clientX - box.left) * width / box.width;
    const step = x(1, length) - x(0, length);
    const at = Math.max(0, Math.min(length - 1, Math.round(length - 1 - (x(length - 1, length) - wanted) / step)));
    if (length < 1) return;
    for (const end of ['x1', 'x2']) cursor.setAttribute(end, x(at, length));
    cursor.setAttribute('visibility', 'visible');
    view.hovers = true;
    say(at);
  });
  image.addEventListener('pointerleave', () => {
    cursor.setAttribute('visibility', 'hidden');
    view.hovers = false;
    say(length - 1);
  });
}

function drawCurves() {
  if (!view.history) return;
  const specs = view.site === null ? SERVER_CURVES : SITE_CURVES;
  const box = $('curves');
  const columns = getComputedStyle(box).gridTemplateColumns.split(' ');
  const width = Math.max(240, Math.floor(parseFloat(columns[0])) - 26);
  box.replaceChildren(...specs.map((spec) => curve(spec, view.history[view.range], width)));
  const back = el('button', { type: 'button', textContent: `${view.site} ✕`, title: 'Back to all sites' });
  back.addEventListener('click', () => choose(null));
  $('scope').replaceChildren(view.site === null ? el('span', { className: 'quiet', textContent: 'all sites' }) : back);
}

async function loadHistory() {
  const query = view.site === null ? '' : `?site=${encodeURIComponent(view.site)}`;
  const wanted = view.site;
  view.loaded = Date.now();
  try {
    const answer = await fetch(`/history.json${query}`);
    // A site that a reload has removed has no history any more.
    if (answer.status === 404) return choose(null);
    const history = await answer.json();
    if (wanted !== view.site) return;
    view.history = history;
    if (!view.hovers) drawCurves();
    if (view.status) drawTiles(view.status);
  } catch { /* The stream of events says that the server is gone. */ }
}

function choose(site) {
  Object.assign(view, { site, history: null, hovers: false });
  loadHistory();
  drawSites();
}

// What is so now.

function drawHead(status) {
  $('version').textContent = status.version;
  $('uptime').textContent = `up ${duration(status.uptime_seconds)} · ${count(status.counters.requests_total)} requests`;
  const good = status.stage === 'running';
  say(good ? 'live' : status.stage, good ? 'good' : 'bad');
  const troubles = status.php.filter((php) => php.trouble).map((php) => `PHP of ${php.name}: ${php.trouble}`);
  $('trouble').hidden = troubles.length === 0;
  $('trouble').textContent = troubles.join(' · ');
}

function say(text, kind) {
  $('state').className = `chip ${kind}`;
  if ($('state').textContent !== text) $('state').textContent = text;
}

function drawTiles(status) {
  const latest = (name) => (view.site === null ? view.history?.hour.points[name]?.at(-1) : undefined) ?? null;
  const sum = (member) => status.php.reduce((all, php) => all + member(php), 0);
  const busy = sum((php) => php.workers.running + php.workers.background);
  const { cache, counters } = status;
  const hits = cache.hits + cache.stale;
  const asked = hits + cache.misses + cache.collapsed + cache.bypassed + cache.passed;
  const waiting = sum((php) => php.waiting);
  const errors = counters.replies_5xx_total;
  const php = status.latency.php.answer;
  const tiles = [
    ['Requests', `${rate(status.requests_per_second)}/s`, `${bytes(status.sent_bytes_per_second)}/s sent`],
    ['Page cache hits', percent(asked ? hits / asked : null), `${count(cache.pages)} pages, ${bytes(cache.bytes)}`],
    ['Response time (95 %)', time(latest('p95_ms')), php.count ? `PHP on average ${time(php.mean_seconds * 1000)}` : 'no PHP yet'],
    ['PHP workers busy', `${busy} of ${sum((pool) => pool.workers_most)}`, waiting ? `${count(waiting)} requests waiting` : 'nothing waits', waiting > 0],
    ['Errors (5xx)', count(errors), `${percent(counters.requests_total ? errors / counters.requests_total : null)} of all requests`, (latest('errors_per_second') ?? 0) > 0],
    ['Connections', count(status.connections_open), `${rate(status.connections_accepted_per_second)} new/s`],
  ];
  $('tiles').replaceChildren(...tiles.map(([name, value, note, bad]) => el('div', { className: bad ? 'bad' : '' },
    el('dt', { textContent: name }), el('dd', { className: 'value', textContent: value }), el('dd', { className: 'note', textContent: note }))));
}

const SITE_COLUMNS = [
  { key: 'name', title: 'Site', of: (site) => site.name, show: (value) => value },
  { key: 'rate', title: 'Requests/s', of: (site) => site.lately.requests_per_second, show: rate },
  { key: 'hits', title: 'Hits', of: (site) => site.lately.hit_ratio, show: percent },
  { key: 'php', title: 'PHP/s', of: (site) => site.lately.php_per_second, show: rate, wide: true },
  { key: 'took', title: 'PHP mean', of: (site) => site.lately.php_mean_ms, show: time, wide: true },
  { key: 'errors', title: 'Errors/s', of: (site) => site.lately.errors_per_second, show: rate, bad: (value) => value > 0 },
  { key: 'all', title: 'Requests', of: (site) => site.traffic.requests, show: count, wide: true },
  { key: 'sent', title: 'Sent', of: (site) => site.traffic.sent_bytes, show: bytes, wide: true },
];

/** On such a screen the buttons are below the names. */
const NARROW = matchMedia('(max-width: 700px)');

function sortedSites(sites) {
  const column = SITE_COLUMNS.find((one) => one.key === view.sort);
  const compare = (a, b) => {
    const [x, y] = [column.of(a), column.of(b)];
    if (typeof x === 'string') return x.localeCompare(y);
    return (known(x) ? x : -1) - (known(y) ? y : -1);
  };
  const words = view.filter.toLowerCase();
  const found = sites.filter((site) => [site.name, ...site.names].some((name) => name.toLowerCase().includes(words)));
  return found.sort((a, b) => (view.down ? -1 : 1) * compare(a, b) || a.name.localeCompare(b.name));
}

function drawSites() {
  if (!view.status) return;
  const sites = view.status.sites.map((site) => ({ ...site, name: site.names[0] ?? 'default', lately: site.traffic.last_minute ?? {} }));
  const found = sortedSites(sites);
  const shown = view.all ? found : found.slice(0, ROWS);
  const focused = document.activeElement?.closest?.('#sites') ? document.activeElement.dataset.focus : null;
  const last = view.status.may_purge && !NARROW.matches ? [el('th', { scope: 'col', className: 'act', ariaLabel: 'Purge' })] : [];
  $('sites').tHead.rows[0].replaceChildren(...SITE_COLUMNS.map(siteHead), ...last);
  $('sites').tBodies[0].replaceChildren(...shown.map(siteRow));
  $('sites-count').textContent = view.filter ? `${found.length} of ${sites.length}` : `${sites.length}`;
  $('more').hidden = found.length <= ROWS;
  $('more').textContent = view.all ? `Show only ${ROWS}` : `Show all ${found.length}`;
  if (focused) $('sites').querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
}

function siteHead(column) {
  const mark = view.sort === column.key ? (view.down ? ' ↓' : ' ↑') : '';
  const button = el('button', { type: 'button', textContent: column.title + mark });
  button.dataset.focus = `head-${column.key}`;
  button.addEventListener('click', () => {
    Object.assign(view, { down: view.sort === column.key ? !view.down : column.key !== 'name', sort: column.key });
    drawSites();
  });
  const head = el('th', { scope: 'col', className: column.wide ? 'wide' : '' }, button);
  if (mark) head.setAttribute('aria-sort', view.down ? 'descending' : 'ascending');
  return head;
}

function siteRow(site) {
  // On a narrow screen a name wraps after its dots.
  const name = site.name.split(/(?<=\.)/).flatMap((part, at) => at ? [el('wbr'), part] : [part]);
  const button = el('button', { type: 'button', title: `${site.names.join(', ') || 'any host'} – show its curves` }, ...name);
  button.dataset.focus = `site-${site.name}`;
  button.addEventListener('click', () => choose(view.site === site.name ? null : site.name));
  const cells = SITE_COLUMNS.slice(1).map((column) => {
    const value = column.of(site);
    const classes = [column.wide && 'wide', column.bad?.(value) && 'bad'].filter(Boolean);
    return el('td', { className: classes.join(' '), textContent: column.show(value ?? null) });
  });
  const purge = view.status.may_purge ? [purgeButton(site.name)] : [];
  const [below, beside] = NARROW.matches ? [purge, []] : [[], purge.map((one) => el('td', { className: 'act' }, one))];
  return el('tr', { className: view.site === site.name ? 'chosen' : '' }, el('td', {}, button, ...below), ...cells, ...beside);
}

function purgeButton(site) {
  const button = el('button', { type: 'button', className: 'purge', textContent: 'Purge', ariaLabel: `Purge the pages of ${site}` });
  button.dataset.focus = `purge-${site}`;
  button.addEventListener('click', () => askPurge(site));
  return button;
}

function drawTable(id, heads, rows, nothing) {
  if (!rows.length) return $(id).replaceChildren(el('p', { className: 'empty', textContent: nothing }));
  const head = el('tr', {}, ...heads.map((text) => el('th', { scope: 'col', textContent: text })));
  const body = rows.map((row) => el('tr', {}, ...row.map((text, at) => el('td', { textContent: text, title: at ? '' : text }))));
  $(id).replaceChildren(el('table', {}, el('thead', {}, head), el('tbody', {}, ...body)));
}

/** A list of bars, the first the longest. */
function drawBars(id, rows, nothing) {
  if (!rows.length) return $(id).replaceChildren(el('p', { className: 'empty', textContent: nothing }));
  const most = Math.max(1, ...rows.map(([, value]) => value));
  $(id).replaceChildren(el('ul', { className: 'bars' }, ...rows.map(([name, value, shown]) => el('li', {},
    el('div', { className: 'label' }, el('span', { textContent: name, title: name }), el('span', { textContent: shown ?? count(value) })),
    svg('svg', { 'aria-hidden': true }, svg('rect', { width: '100%', height: 5, rx: 2.5 }), svg('rect', { width: `${value * 100 / most}%`, height: 5, rx: 2.5 }))))));
}

function drawPools(status) {
  const rows = status.php.flatMap((php) => php.pools.map((pool) => [
    `${php.name} · ${pool.name}`, `${pool.running}/${pool.limit}`, count(pool.waiting),
    time(known(pool.service_seconds) ? pool.service_seconds * 1000 : null), count(pool.refused + pool.late),
  ]));
  const busiest = rows.sort((a, b) => parseInt(b[1], 10) - parseInt(a[1], 10)).slice(0, 12);
  drawTable('pools', ['Pool', 'Busy', 'Waiting', 'Mean', 'Refused'], busiest, 'No site runs PHP.');
}

function drawCauses(status) {
  const sum = new Map();
  for (const site of status.cache.sites) {
    for (const cause of site.bypassed_lately ?? []) {
      const name = cause.name ? `${cause.reason}: ${cause.name}` : cause.reason;
      sum.set(name, (sum.get(name) ?? 0) + cause.count);
    }
  }
  const rows = [...sum].sort((a, b) => b[1] - a[1]).slice(0, 8);
  drawBars('causes', rows, `No request has bypassed the cache in the last ${Math.round(status.cache.lately_seconds / 60)} minutes.`);
}

function drawSlow(status) {
  const slow = status.php.flatMap((php) => php.slowest).sort((a, b) => b.most_seconds - a.most_seconds).slice(0, 8);
  drawTable('slow', ['Page', 'Slowest', 'Times'], slow.map((one) => [one.page, time(one.most_seconds * 1000), count(one.count)]), 'No script took 100 ms or longer.');
}

function drawClients(status) {
  const { idle, reading, running, writing, handshaking, tls, h2 } = status.connections;
  const rows = [['idle', idle], ['sending a request', reading], ['request running', running], ['receiving a response', writing], ['in a TLS handshake', handshaking]];
  const all = [...rows, [`encrypted, ${count(h2)} of them HTTP/2`, tls], ['uploads', status.uploads.length]];
  drawBars('clients', all.filter(([, value]) => value > 0), 'No client is connected.');
}

/** A finding: its evidence and cure are shown when it is open. */
function finding(one, isOpen) {
  const lines = [...one.evidence.map((text) => ['Evidence', text]), ['Impact', one.impact], ['Cure', one.cure], ['Certainty', one.certainty]];
  const summary = el('summary', {}, el('span', { className: `severity ${one.severity}`, textContent: one.severity }), ` ${one.what} `);
  const list = el('dl', {}, ...lines.flatMap(([name, text]) => [el('dt', { textContent: name }), el('dd', { textContent: text })]));
  const details = el('details', { open: isOpen }, summary, list);
  details.dataset.id = one.id;
  return details;
}

function drawDoctor({ doctor }) {
  const box = $('doctor');
  const say = (text) => {
    view.findings = null;
    box.replaceChildren(el('p', { className: 'quiet', textContent: text }));
  };
  if (doctor.state === 'examining') return say(`Examining the server, for ${duration(doctor.seconds)} now …`);
  if (doctor.state === 'failed') return say(`The examination failed: ${doctor.why}. The next one begins in ${duration(doctor.retry_seconds)}.`);
  if (doctor.state !== 'ready') return say(`No examination: ${doctor.why}.`);
  const { findings, checked } = doctor.report;
  if (!findings.length) return say(`Nothing, by ${checked} checks, ${duration(doctor.age_seconds)} ago.`);
  // What is open stays open, and the same report is not drawn again: a reader may be selecting its text.
  const shown = JSON.stringify(findings);
  if (view.findings === shown) return;
  view.findings = shown;
  const open = new Set([...box.querySelectorAll('details[open]')].map((one) => one.dataset.id));
  box.replaceChildren(...findings.map((one, at) => finding(one, at === 0 || open.has(one.id))));
}

function draw(status) {
  view.status = status;
  for (const part of [drawHead, drawTiles, drawPools, drawCauses, drawSlow, drawClients, drawDoctor]) part(status);
  drawSites();
  document.body.dataset.events = Number(document.body.dataset.events ?? 0) + 1;
  if (Date.now() - view.loaded >= HISTORY_EVERY[view.range]) loadHistory();
}

// Purging: a question, the token, and what came of it.

/** Kept for this tab only, and sent with no request but these. */
const TOKEN = 'millrace-admin-token';

function askPurge(site) {
  $('purge').dataset.site = site;
  $('purge-title').textContent = `Purge all cached pages of ${site}?`;
  $('purge').querySelector('[value=soft]').checked = true;
  showTrouble('');
  askToken();
  $('purge').showModal();
  ($('token-line').hidden ? $('purge-cancel') : $('token')).focus();
}

function askToken() {
  $('token').value = '';
  $('token-line').hidden = sessionStorage.getItem(TOKEN) !== null;
}

function showTrouble(text) {
  $('purge-trouble').hidden = !text;
  $('purge-trouble').textContent = text;
}

async function purge() {
  const site = $('purge').dataset.site;
  const hard = $('purge').querySelector('[value=hard]').checked;
  const token = sessionStorage.getItem(TOKEN) ?? $('token').value.trim();
  if (!token) {
    showTrouble('Type the token: the value of admin.token in the configuration of the server.');
    return $('token').focus();
  }
  if (/[^\x21-\x7e]/.test(token)) return showTrouble('A token has no spaces and no letters outside of ASCII.');
  const body = new URLSearchParams({ site, all: '1', ...(hard ? { hard: '1' } : {}) });
  let answer, text;
  try {
    answer = await fetch('/purge', { method: 'POST', body, headers: { Authorization: `Bearer ${token}` } });
    text = (await answer.text()).trim();
  } catch {
    return showTrouble('The server does not answer: is it running? Its pages are as they were, unless it purged them before.');
  }
  if (!answer.ok) {
    if (answer.status === 401) {
      sessionStorage.removeItem(TOKEN);
      text = 'The token is wrong: type the value of admin.token in the configuration of the server. After a change there, reload the server.';
    }
    askToken();
    showTrouble(text);
    return $('token').focus();
  }
  sessionStorage.setItem(TOKEN, token);
  $('purge').close();
  const pages = parseInt(text, 10);
  const then = pages === 0 ? '' : hard ? ', deleted' : ': stale until the next request refreshes them';
  $('purged').textContent = `${clock(Date.now() / 1000)} Purged ${count(pages)} ${pages === 1 ? 'page' : 'pages'} of ${site}${then}.`;
  $('purged').hidden = false;
}

$('purge').querySelector('form').addEventListener('submit', async (event) => {
  event.preventDefault();
  $('purge-go').disabled = true;
  await purge();
  $('purge-go').disabled = false;
});
$('purge-cancel').addEventListener('click', () => $('purge').close());
// The row that had the focus has been drawn anew meanwhile.
$('purge').addEventListener('close', () => $('sites').querySelector(`[data-focus="${CSS.escape(`purge-${$('purge').dataset.site}`)}"]`)?.focus());

// The stream is open only while the page is visible.

let stream = null;

function listen() {
  if (document.hidden) {
    stream?.close();
    stream = null;
    return;
  }
  if (stream) return;
  stream = new EventSource('/events');
  stream.onmessage = (event) => draw(JSON.parse(event.data));
  stream.onerror = () => {
    say('not connected, trying again', 'bad');
    // After an error status a browser does not try again by itself.
    if (stream?.readyState === EventSource.CLOSED) {
      stream = null;
      setTimeout(listen, 5_000);
    }
  };
}

for (const button of document.querySelectorAll('[data-range]')) {
  button.addEventListener('click', () => {
    view.range = button.dataset.range;
    for (const other of document.querySelectorAll('[data-range]')) other.setAttribute('aria-pressed', other === button);
    drawCurves();
  });
}
$('filter').addEventListener('input', (event) => { view.filter = event.target.value; drawSites(); });
$('more').addEventListener('click', () => { view.all = !view.all; drawSites(); });
document.addEventListener('visibilitychange', listen);
let width = document.body.clientWidth;
new ResizeObserver(() => {
  if (document.body.clientWidth === width) return;
  width = document.body.clientWidth;
  drawCurves();
}).observe(document.body);
listen();
loadHistory();
