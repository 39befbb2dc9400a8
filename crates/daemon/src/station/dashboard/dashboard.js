// The dashboard of a station: everything that it shows comes from the API, and it keeps nothing but a token for this tab.
//
//   GET figures (history, log) ─▶ state ◀─ events: status, recording, disk, figures each second, log
//                                   └─▶ render
//
// Without figures for STALE_MS the page says since when, and nothing that was live looks live.

import { bars, bytes, clock, element, isNumber, lineChart, meter, millis, moment, number, percent, rate, span, spectrum, table, timeline } from './parts.js';

const STALE_MS = 3500, HISTORY = 600, LOG = 256, PAGE = 100;
const VIEWS = [['overview', 'Overview'], ['scans', 'Scans'], ['schedule', 'Schedule', /^\/api\/v1\/schedules?$/], ['transfers', 'Transfers', /^\/api\/v1\/queue$/], ['fleet', 'Fleet', /^\/api\/v1\/fleet$/], ['events', 'Events']];
const at = id => document.getElementById(id);
const sleep = ms => new Promise(done => setTimeout(done, ms));
const state = { status: null, figures: null, history: {}, log: [], scans: [], hasMore: false, paths: {}, lists: {}, heard: null, live: false, why: '' };

// --- Calls ---

const token = () => sessionStorage.getItem('skyhaul-token');

class Refused extends Error {}

/** A call of the API. A refusal is an error with the station's words. */
async function call(path, options = {}) {
  const headers = { ...(token() ? { Authorization: `Bearer ${token()}` } : {}), ...(options.body ? { 'Content-Type': 'application/json' } : {}) };
  const response = await fetch(`api/v1/${path}`, { cache: 'no-store', credentials: 'omit', redirect: 'error', ...options, headers });
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  if (response.status === 401) await askForToken(error?.message);
  throw new Refused([error?.message ?? `HTTP status ${response.status}`, error?.hint].filter(Boolean).join('. '));
}
const get = async path => (await call(path)).json();
const post = async (path, body) => (await call(path, { method: 'POST', body: JSON.stringify(body) })).json();

/** Shows the form for the token, and waits until one is given. */
function askForToken(message) {
  const dialog = at('token-dialog');
  at('token-reply').textContent = token() ? message ?? '' : '';
  at('token-reply').classList.add('bad');
  if (!dialog.open) dialog.showModal();
  return new Promise(done => dialog.addEventListener('close', done, { once: true }));
}

// --- Following the station ---

async function follow() {
  for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
    const abort = new AbortController(), begun = Date.now();
    const watchdog = setInterval(() => { if (Date.now() - Math.max(begun, state.heard ?? 0) > STALE_MS && !at('token-dialog').open) abort.abort(); }, 500);
    try {
      const response = await call('events', { signal: abort.signal });
      state.paths = (await get('openapi.json')).paths ?? {};
      const { history, log, ...figures } = await get('figures');
      // A service whose figures stand still is not live.
      if (figures.time !== state.figures?.time) state.heard = Date.now();
      Object.assign(state, { history, log, figures });
      if (state.scans.length === 0) loadScans(false);
      loadList();
      for await (const [event, data] of changes(response.body)) {
        take(event, data);
        if (event === 'figures') wait = 250;
        render();
      }
      state.why = 'the service closed the connection';
    } catch (error) {
      state.why = error instanceof Refused ? error.message : 'the service does not answer';
    }
    clearInterval(watchdog);
    abort.abort();
    // What was heard last is old from here on.
    if (state.heard) state.heard = Math.min(state.heard, Date.now() - STALE_MS - 1);
    render();
    await sleep(wait);
  }
}

/** Server-sent events of a stream, one by one: name and data. */
async function* changes(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
      const lines = text.slice(0, end).split('\n');
      const field = name => lines.find(line => line.startsWith(`${name}: `))?.slice(name.length + 2);
      if (field('event') && field('data')) yield [field('event'), JSON.parse(field('data'))];
    }
  }
}

const isSilent = () => state.heard !== null && Date.now() - state.heard > STALE_MS;

function take(event, data) {
  if (event === 'status') state.status = data;
  else if (event === 'log') {
    // What happened while the page connected is in the list already.
    const isSame = one => one.time === data.time && one.subject === data.subject && one.text === data.text;
    if (!state.log.some(isSame)) state.log = [...state.log, data].slice(-LOG);
  } else if (event === 'disk' && state.status) state.status.disks = state.status.disks.map(disk => disk.path === data.path ? data : disk);
  else if (event === 'figures') {
    state.heard = Date.now();
    state.figures = data;
    for (const key of ['received_bits', 'written_bits', 'lost_frames', 'dropped_packets']) {
      state.history[key] = [...(state.history[key] ?? []), data[key]].slice(-HISTORY);
    }
  } else if (event === 'recording' && state.status) {
    const others = state.status.recordings.filter(one => one.name !== data.name);
    const isOver = data.state === 'ended';
    state.status.recordings = isOver ? others : [...others, data].sort((a, b) => a.requested_at < b.requested_at ? -1 : 1);
    if (isOver) { state.status.ended = [...state.status.ended, data].slice(-256); loadScans(false); }
    for (const input of state.status.inputs) {
      if (input.name === data.input) input.recording = isOver ? null : data.name;
    }
  } else if (['scan', 'schedules', 'transfer', 'queued'].includes(event)) loadList();
}

// --- Lists that are asked for ---

async function loadScans(more) {
  const after = more ? state.scans.at(-1)?.scan ?? '' : '';
  const ask = () => get(`scans?limit=${PAGE}${after ? `&after=${encodeURIComponent(after)}` : ''}`);
  try {
    // One list at a time is made; another client may have asked.
    const page = await ask().catch(() => sleep(1000).then(ask));
    state.scans = more ? [...state.scans, ...page.scans] : page.scans;
    state.hasMore = page.scans.length === PAGE;
    const silent = page.silent_disks ?? [];
    state.scansLack = silent.length ? `Scans may be missing: ${silent.join(', ')} ${silent.length > 1 ? 'do' : 'does'} not respond.` : '';
    state.scansError = '';
  } catch (error) {
    state.scansError = error.message;
  }
  render();
}

/** Schedule or transfers, while they are shown. */
async function loadList() {
  const view = VIEWS.find(view => view[0] === shown()), path = pathOf(view);
  if (!path) return;
  try {
    const short = path.slice('/api/v1/'.length), list = await get(short);
    // What is sent by VSI-S is beside the queue.
    if (view[0] === 'transfers') list.push(...await get('transfers'));
    // The station reads the fleet from the first question on.
    if (view[0] === 'fleet' && !list.seen) setTimeout(loadList, 1000);
    // Schedules come in numbers; the scans of each are asked for.
    const isDivided = view[0] === 'schedule' && state.paths[`${path}/{name}`]?.get && Array.isArray(list);
    const parts = isDivided ? await Promise.all(list.slice(0, 16).map(one => get(`${short}/${encodeURIComponent(one.name)}`))) : [];
    if (isDivided) state.deliveries = list.flatMap(one => (one.deliveries ?? []).map(delivery => ({ ...delivery, schedule: one.name })));
    state.lists[view[0]] = isDivided ? parts.flatMap(part => part.scans ?? []).sort((a, b) => a.start < b.start ? -1 : 1) : list;
    state.listError = '';
  } catch (error) {
    state.listError = error.message;
  }
  render();
}

// --- Drawing ---

/** Changes `old` to look like `fresh`, so that focus, selection and scrolling stay. */
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) { old.replaceWith(fresh); return; }
  if (old.nodeType === Node.TEXT_NODE) { if (old.data !== fresh.data) old.data = fresh.data; return; }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const [had, has] = [[...old.childNodes], [...fresh.childNodes]];
  has.forEach((child, n) => had[n] ? morph(had[n], child) : old.append(child));
  had.slice(has.length).forEach(child => child.remove());
}
function show(id, ...children) {
  const old = at(id), fresh = old.cloneNode(false);
  fresh.append(...children);
  morph(old, fresh);
}

let isDue = false;
function render() {
  if (isDue) return;
  isDue = true;
  // Not requestAnimationFrame: a page in the background keeps its title.
  setTimeout(() => { isDue = false; draw(); }, 0);
}

function draw() {
  state.live = state.heard !== null && !isSilent();
  document.body.classList.toggle('stale', !state.live);
  const since = state.figures?.time;
  at('link-text').textContent = state.live ? 'Live' : since ? `Not connected since ${clock(since)} UTC` : state.why ? `Not connected: ${state.why}` : 'Connecting';
  at('link').title = state.live ? '' : state.why;
  at('clock').textContent = since ? clock(since) : '--:--:--';
  at('where').textContent = location.host;
  for (const button of document.querySelectorAll('main button, main input, main select')) button.disabled = !state.live;
  const alarms = state.figures?.alarms ?? [];
  document.title = `${state.live ? alarms.length ? `(${alarms.length}) ` : '' : 'Not connected: '}Skyhaul station`;
  drawViews();
  if (!state.status || !state.figures) return;
  const failing = (state.figures.alarm_receivers ?? []).filter(one => one.failure).map(one => ({ level: 'warning', subject: `Alarms to ${one.name}`,
    text: `${number(one.waiting)} ${one.waiting === 1 ? 'message waits' : 'messages wait'}: ${one.failure}`, since: one.failing_since }));
  show('alarms', ...[...alarms, ...failing].map(alarm => {
    const time = element('time', '', `since ${clock(alarm.since)}`);
    time.title = moment(alarm.since);
    return element('div', `alarm ${alarm.level}`, element('span', 'level', alarm.level), element('span', 'subject', alarm.subject || 'Station'), element('span', 'what', alarm.text), time);
  }));
  const view = shown();
  if (view === 'overview') { drawTiles(alarms); drawRecordings(); drawCharts(); drawQuality(); drawDisks(); drawCauses(); }
  if (view === 'scans') drawScans();
  if (view === 'events') drawEvents();
  if (view === 'schedule' || view === 'transfers') drawList(view);
  if (view === 'fleet') drawFleet();
}

/** Every recorder of the fleet, what it records now, and the members of the store. */
function drawFleet() {
  const { recorders = [], store = [], at: time, left_out: others, problem } = state.lists.fleet?.seen ?? {}, own = state.figures.fleet;
  const count = new Set(recorders.map(one => one.station)).size, online = new Set(recorders.filter(one => one.online).map(one => one.station)).size;
  at('fleet-name').textContent = `${own.name}, here ${own.station}/${own.recorder}${time ? `; ${online} of ${count} ${count === 1 ? 'station' : 'stations'} online at ${clock(time)}` : ''}`;
  const wrong = [state.listError, own.problem, problem, others ? `${number(others)} more recorders are not shown` : ''].filter(Boolean);
  at('fleet-problem').hidden = wrong.length === 0;
  at('fleet-problem').className = 'reply bad';
  at('fleet-problem').textContent = wrong.join('; ');
  if (!time) {
    for (const id of ['fleet', 'fleet-store']) show(id, element('p', 'none', 'Reading …'));
    return;
  }
  const live = make => one => one.online && !one.problem ? make(one) : '';
  show('fleet', table([
    ['Station', 'name', one => one.station],
    ['Recorder', '', one => one.recorder],
    ['State', '', one => one.online ? stateOf(one.problem ? 'unreadable' : one.activity.replaceAll('_', ' ')) : element('span', 'state bad', 'offline')],
    ['Scans under way', 'what', live(one => one.scans.join(', '))],
    ['Rate', 'n', live(one => rate(one.rate_bits))],
    ['Never arrived', 'n', live(one => missing(one))],
    ['Free', 'n', live(one => bytes(one.free_bytes))],
    ['Disk lag', 'n', live(one => millis(one.disk_lag_ms))],
    ['Data − UTC', 'n', live(one => isNumber(one.clock_offset_ns) ? `${(one.clock_offset_ns / 1e9).toFixed(3)} s` : '–')],
    ['Schedule', '', live(one => one.schedule?.experiment ?? '')],
    ['Unpublished', 'n', live(one => counted(one.unpublished_scans, 'care'))],
    ['Reported', 'n', live(one => clock(one.at))],
    ['', 'what', one => one.problem ?? ''],
  ], recorders, 'No recorder has reported.'));
  show('fleet-store', table([
    ['Member', 'name', one => one.at],
    ['State', '', one => one.problem ? element('span', 'state bad', 'no answer') : stateOf(one.is_leader ? 'leader' : 'follower')],
    ['Version', '', one => one.version ?? ''],
    ['', 'what', one => one.problem ?? ''],
  ], store, 'The store has no member.'));
}

/** Where the API has the list of a view, if it has one. */
const pathOf = ([, , like]) => like && Object.keys(state.paths).find(path => like.test(path) && state.paths[path].get);
const isOffered = view => !view[2] || (pathOf(view) && (view[0] !== 'fleet' || state.figures?.fleet));
function shown() {
  const id = location.hash.slice(1), view = VIEWS.find(view => view[0] === id);
  return view && isOffered(view) ? id : 'overview';
}
function drawViews() {
  const counts = { overview: state.status?.recordings.length, scans: state.scans.length ? `${number(state.scans.length)}${state.hasMore ? '+' : ''}` : '' };
  show('views', ...VIEWS.filter(isOffered).map(([id, name]) => {
    const link = element('a', '', name, counts[id] ? element('span', 'count', `${counts[id]}`) : '');
    link.href = `#${id}`;
    if (id === shown()) link.setAttribute('aria-current', 'page');
    return link;
  }));
  for (const [id] of VIEWS) at(`view-${id}`).hidden = id !== shown();
}

const sum = (list, key) => list.reduce((total, one) => total + (one[key] ?? 0), 0);
function tile(name, value, more, kind) {
  const [figure, ...unit] = value.split(' ');
  // A value and its unit; a span of time has two.
  const words = unit.length > 1 ? [value] : [figure, element('small', '', unit.join(''))];
  return element('div', `tile ${kind}`, element('span', 'name', name), element('b', '', ...words), element('div', 'more', more));
}
function drawTiles(alarms) {
  const { figures, status } = state, running = status.recordings;
  const has = (...kinds) => alarms.some(alarm => kinds.includes(alarm.kind));
  const lost = sum(running, 'kernel_drops'), gone = sum(running, 'discarded_bytes');
  const { free_bytes: free, seconds_left: left } = figures.space, { bytes: pool, used_bytes: used } = figures.pool;
  const count = running.length === 0 ? 'nothing is recorded' : running.length === 1 ? '1 recording' : `${running.length} recordings`;
  show('tiles',
    tile('Received', rate(figures.received_bits), count, has('no_data') ? 'warn' : running.length ? 'good' : ''),
    tile('Written to disks', rate(figures.written_bits), status.disks_rate_bits ? `of ${rate(status.disks_rate_bits)}` : `${figures.disks.length} disks`, has('no_disk') ? 'bad' : has('disk_failed', 'disk_silent') ? 'warn' : running.length ? 'good' : ''),
    tile('Lost on this host', `${number(figures.dropped_packets)} /s`, gone ? `${number(lost)} packets, ${bytes(gone)}` : `${number(lost)} packets in total`, has('data_lost') ? 'bad' : running.length ? 'good' : ''),
    tile('Never arrived', `${number(figures.lost_frames)} /s`, `${least(sum(running, 'lost_frames'), running.some(one => one.lost_is_lower_bound))} frames in total`, has('frames_missing') ? 'warn' : running.length ? 'good' : ''),
    tile('Space left', isNumber(left) ? span(left) : bytes(free), isNumber(left) ? `${bytes(free)} free` : 'free', has('space', 'disk_full') ? 'warn' : ''),
    tile('Memory in use', pool ? percent(used / pool) : '0 %', `${bytes(status.reserved.memory_bytes)} of ${bytes(status.memory_bytes)} reserved`, pool && used / pool > 0.8 ? 'bad' : ''));
}

const STATES = { recording: 'good', starting: 'warn', stopping: 'warn', complete: 'good', gaps: 'warn', irregular: 'warn', empty: 'warn', lossy: 'bad', failed: 'bad', usable: 'good', leader: 'good', follower: 'good', full: 'warn', ended: '', live: 'good', interrupted: 'warn', recorded: 'good', missed: 'bad', cut: 'warn', stopped: 'warn', sending: 'good', sent: 'good' };
const stateOf = name => element('span', `state ${STATES[name] ?? ''}`, name);
// Where a frame rate is not known, frames lost at the ends of seconds are not counted yet.
const least = (count, isBound) => isBound ? `at least ${number(count)}` : number(count);
const missing = one => [least(one.lost_frames, one.lost_is_lower_bound), one.lost_frames ? 'care' : 'zero'];
const counted = (count, kind) => [number(count), count ? kind : 'zero'];
const seconds = (from, to) => from ? (Date.parse(to) - Date.parse(from)) / 1000 : undefined;

function drawRecordings() {
  const { status, figures } = state;
  const rows = status.inputs.map(input => ({ input, one: status.recordings.find(one => one.name === input.recording) }));
  const of = one => figures.recordings.find(other => other.name === one.name) ?? {};
  const cell = make => ({ one }) => one ? make(one) : '';
  const stop = one => {
    const button = element('button', 'small', 'Stop');
    Object.assign(button, { type: 'button', disabled: !state.live || one.state === 'stopping' });
    Object.assign(button.dataset, { stop: one.name });
    button.setAttribute('aria-label', `Stop ${one.name}`);
    return button;
  };
  show('recordings', table([
    ['Scan', 'name', ({ input, one }) => one ? one.name : element('span', 'soft', input.name)],
    ['Input', '', cell(one => one.input)],
    ['State', '', ({ one }) => one ? stateOf(one.state) : element('span', 'state idle', 'idle')],
    ['For', 'n', cell(one => span(seconds(one.started_at, figures.time)))],
    ['Rate', 'n', cell(one => rate(of(one).received_bits))],
    ['Received', 'n', cell(one => bytes(one.received_bytes))],
    ['Safe on disk', 'n', cell(one => bytes(one.written_bytes))],
    ['Never arrived', 'n', cell(one => missing(one))],
    ['Dropped', 'n', cell(one => counted(one.kernel_drops, 'hurt'))],
    ['', 'act', cell(stop)],
  ], rows, 'The station has no input.'));
  const chosen = at('start-input').value;
  show('start-input', ...status.inputs.map(input => {
    const option = element('option', '', input.recording ? `${input.name} (recording)` : input.name);
    option.value = input.name;
    return option;
  }));
  const first = status.inputs.find(input => !input.recording) ?? status.inputs[0];
  at('start-input').value = chosen || first?.name;
}

function drawCharts() {
  const { received_bits: received, written_bits: written, lost_frames: lost, dropped_packets: dropped } = state.history;
  // The shortest span that shows all there is.
  const seconds = [60, 120, 240, HISTORY].find(seconds => (received ?? []).length <= seconds) ?? HISTORY;
  const draw = (id, series, words, least, label) => show(id, ...lineChart(series, words, least, seconds, Math.max(280, at(id).clientWidth || 600), label));
  draw('chart-rate', [{ name: 'Received', kind: 's0', values: received ?? [], filled: true }, { name: 'Written', kind: 's2', values: written ?? [] }], rate, 1e6, 'Rates of the last minutes');
  draw('chart-loss', [{ name: 'Never arrived', kind: 's1', values: lost ?? [], filled: true }, { name: 'Lost on this host', kind: 's5', values: dropped ?? [] }], value => `${value < 10 && !Number.isInteger(value) ? value.toFixed(1) : number(value)} /s`, 10, 'Losses of the last minutes');
}

function drawDisks() {
  const used = disk => isNumber(disk.capacity_bytes) && isNumber(disk.free_bytes) && disk.capacity_bytes > 0 ? 1 - disk.free_bytes / disk.capacity_bytes : null;
  show('disks', table([
    ['Disk', 'name', disk => disk.path],
    ['State', '', disk => { const made = stateOf(disk.condition); made.title = disk.error ?? ''; return made; }],
    ['Rate', 'n', disk => rate(disk.written_bits)],
    ['Share', 'n', disk => percent(disk.share)],
    ['Latency p50', 'n', disk => millis(disk.latency_ms.p50)],
    ['p99', 'n', disk => millis(disk.latency_ms.p99)],
    ['max', 'n', disk => millis(disk.latency_ms.max)],
    ['Waiting', 'n', disk => bytes(disk.queue_bytes)],
    ['Readers held', 'n', disk => { const made = element("span", "", number(disk.readers?.waiting ?? 0)); made.title = 'Readers and copies that wait while a recording writes to this disk'; return made; }],
    ['Free', 'n', disk => used(disk) === null ? bytes(disk.free_bytes) : element('span', '', bytes(disk.free_bytes), meter(used(disk), `${percent(used(disk))} used`))],
  ], state.figures.disks, 'The station has no disk.'));
}

function drawCauses() {
  const { status, figures } = state, refused = {};
  for (const one of figures.recordings) for (const [why, count] of Object.entries(one.refused ?? {})) refused[why] = (refused[why] ?? 0) + count;
  const { no_buffer: memory = 0, ...others } = refused;
  const rows = [
    ['Never arrived', 'network', sum(status.recordings, 'lost_frames'), count => least(count, status.recordings.some(one => one.lost_is_lower_bound)), 'care'],
    ['Dropped by the kernel', 'this host', sum(status.recordings, 'kernel_drops'), number, 'hurt'],
    ['No free memory', 'this host', memory, number, 'hurt'],
    ['On no disk', 'disks', sum(status.recordings, 'discarded_bytes'), bytes, 'hurt'],
    ...Object.entries(others).filter(([, count]) => count > 0).sort((a, b) => b[1] - a[1]).map(([why, count]) => [`Refused: ${why.replaceAll('_', ' ')}`, 'packets', count, number, '']),
  ];
  show('causes', table([['Cause', 'name', row => row[0]], ['Where', '', row => row[1]], ['Count', 'n', row => [row[3](row[2]), row[2] ? row[4] : 'zero']]], rows, ''));
}

function drawQuality() {
  const threads = state.figures.recordings.flatMap(one => (one.quality?.threads ?? []).map(thread => ({ scan: one.name, ...thread })));
  at('quality-card').hidden = threads.length === 0;
  const rows = threads.flatMap(thread => (thread.channels.length ? thread.channels : [null]).map((channel, n) => ({ thread, channel, isFirst: n === 0 })));
  const first = make => ({ thread, isFirst }) => isFirst ? make(thread) : '';
  const drawing = make => ({ thread, channel }) => channel ? make(channel, `${thread.scan} thread ${thread.thread} channel ${channel.channel}`) : '';
  const shares = channel => channel.states.map(share => `${(share * 100).toFixed(1)} %`).join(', ');
  const found = thread => thread.findings.length ? element('span', thread.findings.some(one => one.is_alarm) ? 'hurt' : '', thread.findings.map(one => one.text).join('; ')) : stateOf('good');
  show('quality', table([
    ['Scan', 'name', first(thread => thread.scan)],
    ['Sender', '', first(thread => thread.sender)],
    ['Thread', 'n', first(thread => `${thread.thread}`)],
    ['Station', '', first(thread => thread.station ?? '')],
    ['Data − UTC', 'n', first(thread => isNumber(thread.clock_offset_seconds) ? `${thread.clock_offset_seconds.toFixed(3)} s` : '–')],
    ['Channel', 'n', ({ channel }) => channel ? `${channel.channel}` : ''],
    ['States', '', drawing((channel, where) => bars(channel.states, `${where}: ${shares(channel)}`))],
    ['Spectrum', '', drawing((channel, where) => channel.spectrum.length ? spectrum(channel.spectrum, `${where}: spectrum, 20 dB`) : '')],
    ['Found', 'what', first(found)],
  ], rows, ''));
}

function drawScans() {
  const { status, scans } = state;
  show('ended', table([
    ['Scan', 'name', one => one.name],
    ['Input', '', one => one.input],
    ['Outcome', '', one => stateOf(one.outcome ?? '')],
    ['Started', 'n', one => moment(one.started_at)],
    ['Length', 'n', one => span(seconds(one.started_at, one.ended_at))],
    ['Received', 'n', one => bytes(one.received_bytes)],
    ['Safe on disk', 'n', one => bytes(one.written_bytes)],
    ['Never arrived', 'n', one => missing(one)],
    ['Dropped', 'n', one => counted(one.kernel_drops, 'hurt')],
    ['', 'what', one => one.reason ?? ''],
  ], [...status.ended].reverse(), 'No recording has ended since the service began.'));
  show('scans', state.scansError ? element('p', 'reply bad', state.scansError) : table([
    ['Scan', 'name', scan => scan.scan],
    ['State', '', scan => stateOf(scan.state)],
    ['Started', 'n', scan => moment(scan.started)],
    ['Size', 'n', scan => bytes(scan.bytes)],
    ['Chunks', 'n', scan => number(scan.chunks)],
    ['Missing or lost', 'n', scan => counted((scan.missing ?? 0) + (scan.lost ?? 0), 'hurt')],
    ['Disks', 'n', scan => number(scan.disks?.length)],
  ], scans, 'No scan is on the disks.'));
  at('scans-more').hidden = !state.hasMore;
  at('scans-lack').hidden = !state.scansLack;
  at('scans-lack').textContent = state.scansLack ?? '';
}

function drawEvents() {
  show('events', table([
    ['Time, UTC', '', entry => moment(entry.time)],
    ['', '', entry => element('span', `state ${{ error: 'bad', warning: 'warn' }[entry.level] ?? 'idle'}`, entry.level)],
    ['What', '', entry => entry.kind],
    ['Which', 'name', entry => entry.subject || 'station'],
    ['', 'what', entry => entry.text],
  ], [...state.log].reverse(), 'Nothing has happened since the service began.'));
}

// What became of a copy that a schedule asked for, in words.
const COPY_WORDS = { done: 'copied', forgotten: 'not in the queue any more', waiting_for_hours: 'waiting for its hours', backing_off: 'tried again later' };
const copyWord = name => COPY_WORDS[name] ?? name.replaceAll('_', ' ');
const hoursOf = one => one.from ? `${one.from}–${one.until}` : 'any';
const total = (counts, ...keys) => keys.reduce((all, key) => all + (counts?.[key] ?? 0), 0);

/** The deliveries of a scan in words: each destination, and where its copies are. */
function scanDeliveries(deliveries) {
  return (deliveries ?? []).map(one => {
    const copies = one.copies.map(copy => `${copy.copy} ${copyWord(copy.waiting_for_hours ? 'waiting_for_hours' : copy.state ?? 'forgotten')}`);
    return `${one.destination}: ${copies.length ? copies.join(', ') : [one.state.replaceAll('_', ' '), one.reason].filter(Boolean).join(', ')}`;
  }).join('; ');
}

function drawDeliveries() {
  const deliveries = state.deliveries ?? [];
  at('deliveries-card').hidden = deliveries.length === 0;
  show('deliveries', table([
    ['Schedule', 'name', one => one.schedule],
    ['To', '', one => one.to.join(', ')],
    ['After', '', one => one.after === 'session' ? 'the session' : 'each scan'],
    ['Hours, UTC', 'n', hoursOf],
    ['Priority', 'n', one => number(one.priority)],
    ['Scans waiting', 'n', one => number(total(one.states, 'waiting', 'pending'))],
    ['Copies waiting', 'n', one => number(total(one.copies, 'waiting', 'backing_off'))],
    ['For hours', 'n', one => number(total(one.copies, 'waiting_for_hours'))],
    ['Running', 'n', one => number(total(one.copies, 'running', 'comparing'))],
    ['Copied', 'n', one => number(total(one.copies, 'done'))],
    ['Failed', 'n', one => counted(total(one.copies, 'failed', 'cancelled'), 'hurt')],
    ['Not recorded', 'n', one => counted(total(one.states, 'not_recorded'), 'care')],
    ['', 'what', one => [one.pending, ...Object.entries(one.not_recorded ?? {}).map(([why, count]) => `${number(count)} not recorded: ${why}`)].filter(Boolean).join('; ')],
  ], deliveries, ''));
}

// Columns of lists by field; those that a list does not have are left out.
const FIELDS = {
  copy: ['No.', 'n', number], scan: ['Scan', 'name'], name: ['Name', 'name'], to: ['To', ''], destination: ['Destination', ''], schedule: ['Schedule', ''], input: ['Input', ''], state: ['State', '', stateOf], order: ['Priority', 'n', number], hours: ['Hours, UTC', 'n'],
  outcome: ['Outcome', '', stateOf], start: ['Start, UTC', 'n', moment], stop: ['Stop, UTC', 'n', moment], rate_bits: ['Rate', 'n', rate],
  limit_bits: ['Limit', 'n', rate], sent_bytes: ['Sent', 'n', bytes], there_bytes: ['There', 'n', bytes], unconfirmed_bytes: ['Unconfirmed', 'n', bytes], size_bytes: ['Size', 'n', bytes], space_bytes: ['Space', 'n', bytes],
  eta_seconds: ['Left', 'n', span], due_at: ['Due, UTC', 'n', moment], requested_at: ['Requested', 'n', moment], ended_at: ['Ended', 'n', moment], attempts: ['Attempts', 'n', number], recording: ['Recording', ''], delivered: ['Deliveries', 'what'], reason: ['', 'what'],
};
// What a row of a list says beside its fields.
const told = row => ({ ...row, ...(row.waiting_for_hours ? { state: 'waiting for hours' } : {}), ...(row.deliveries?.length ? { delivered: scanDeliveries(row.deliveries) } : {}) });
function drawList(view) {
  const value = state.lists[view];
  if (state.listError) return show(view, element('p', 'reply bad', state.listError));
  if (value === undefined) return show(view, element('p', 'none', 'Reading …'));
  const lists = Array.isArray(value) ? [value] : Object.values(value).filter(Array.isArray);
  const rows = lists.flat().filter(row => row && typeof row === 'object').map(told);
  if (view === 'schedule') drawDeliveries();
  const has = (row, key) => row[key] !== null && row[key] !== undefined && typeof row[key] !== 'object';
  const columns = Object.entries(FIELDS).filter(([key]) => rows.some(row => has(row, key))).map(([key, [title, kind, words]]) =>
    [title, kind, row => !has(row, key) ? '' : words ? words(row[key]) : `${row[key]}`]);
  const now = Date.parse(state.figures.time);
  const spans = rows.map(row => ({ name: `${row.scan ?? row.name ?? ''}`, start: Date.parse(row.start), stop: Date.parse(row.stop), state: row.state })).filter(one => one.start < one.stop);
  const kind = one => ['failed', 'missed', 'lossy'].includes(one.state) ? 'bad' : one.stop < now ? 'past' : '';
  const line = spans.length ? [timeline(spans.map(one => ({ ...one, kind: kind(one) })), now, Math.max(280, at(view).clientWidth || 900))] : [];
  const problems = (view === 'schedule' ? state.status.schedule_problems ?? [] : []).map(text => element('p', 'reply bad', text));
  return show(view, ...problems, ...line, table(columns, rows, view === 'schedule' ? 'No scan is scheduled.' : 'Nothing is transferred.'));
}

// --- What people do ---

function say(id, text, isGood) {
  at(id).textContent = text;
  at(id).className = `reply ${isGood ? 'good' : 'bad'}`;
}
at('start').addEventListener('submit', async event => {
  event.preventDefault();
  const name = at('start-name').value.trim(), input = at('start-input').value, stop = at('start-stop').value.trim();
  say('start-reply', 'Opening sockets, files and memory …', true);
  try {
    const made = await post('recordings', { name, input, ...(stop ? { stop } : {}) });
    say('start-reply', `${made.name}: ${made.state} from ${made.input}`, true);
    at('start-name').value = '';
  } catch (error) {
    say('start-reply', error instanceof Refused ? error.message : 'The service does not answer; nothing is known of this request.', false);
  }
});
document.addEventListener('click', event => {
  const button = event.target.closest('[data-stop]');
  if (!button) return;
  at('stop-dialog').dataset.scan = button.dataset.stop;
  at('stop-name').textContent = button.dataset.stop;
  at('stop-dialog').showModal();
});
at('stop-cancel').addEventListener('click', () => at('stop-dialog').close());
at('stop-form').addEventListener('submit', async event => {
  event.preventDefault();
  at('stop-dialog').close();
  const name = at('stop-dialog').dataset.scan;
  try {
    await post(`recordings/${encodeURIComponent(name)}/stop`, {});
    say('start-reply', `${name}: stopping`, true);
  } catch (error) {
    say('start-reply', `${name}: ${error.message}`, false);
  }
});
at('token-form').addEventListener('submit', event => {
  event.preventDefault();
  sessionStorage.setItem('skyhaul-token', at('token').value.trim());
  at('token').value = '';
  at('token-dialog').close();
});
at('scans-more').addEventListener('click', () => loadScans(true));
at('scans-again').addEventListener('click', () => loadScans(false));
addEventListener('hashchange', () => { loadList(); render(); });
addEventListener('resize', render);
addEventListener('keydown', event => {
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || document.querySelector('dialog[open]');
  if (isTyping || event.ctrlKey || event.altKey || event.metaKey) return;
  const view = VIEWS.filter(isOffered)[Number(event.key) - 1];
  if (view) location.hash = view[0];
  if (event.key === 'n' || event.key === 'N') { event.preventDefault(); location.hash = 'overview'; setTimeout(() => at('start-name').focus(), 0); }
});
setInterval(() => { if (isSilent() === state.live) render(); }, 500);
setInterval(() => { if (state.live && !document.hidden) loadList(); }, 5000);
render();
follow();
