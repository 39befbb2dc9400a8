// Text, tables and charts. All text is set as text: names of scans and disks come from elsewhere.

const SVG = 'http://www.w3.org/2000/svg';

/** An element with a class and children: elements or text. */
export function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

function drawn(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Three significant digits, in decimal units: the rule of `skyhaul_core::units`.
function scaled(value, units) {
  let unit = 0;
  while (value >= 1000 && unit + 1 < units.length) { value /= 1000; unit += 1; }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[unit]}`;
}
const RATES = ['b/s', 'kb/s', 'Mb/s', 'Gb/s', 'Tb/s'], SIZES = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
export const isNumber = value => typeof value === 'number' && Number.isFinite(value);
export const rate = bits => isNumber(bits) ? scaled(bits, RATES) : '–';
export const bytes = count => isNumber(count) ? scaled(count, SIZES) : '–';
export const number = count => isNumber(count) ? Math.round(count).toString().replace(/\B(?=(\d{3})+$)/g, '\u202f') : '–';
export const millis = ms => !isNumber(ms) ? '–' : ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : ms >= 100 ? `${ms.toFixed(0)} ms` : `${ms.toFixed(1)} ms`;
export const percent = part => isNumber(part) ? `${(part * 100).toFixed(0)} %` : '–';
export const clock = time => typeof time === 'string' && time.length >= 19 ? time.slice(11, 19) : '–';
export const moment = time => typeof time === 'string' && time.length >= 19 ? `${time.slice(0, 10)} ${time.slice(11, 19)}` : '–';
/** A span as an operator reads it. */
export function span(seconds) {
  if (!isNumber(seconds)) return '–';
  const all = Math.max(0, Math.floor(seconds)), d = Math.floor(all / 86400), h = Math.floor(all / 3600) % 24, m = Math.floor(all / 60) % 60;
  if (d > 999) return 'years';
  return d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min ${all % 60} s` : `${all} s`;
}

/** A table of `[title, class, cell(row)]` columns; a cell is text, `[text, class]` or an element. On a phone each row is a block. */
export function table(columns, rows, nothing) {
  if (rows.length === 0) return element('p', 'none', nothing);
  const head = element('tr', '', ...columns.map(([title, kind]) => { const th = element('th', kind, title); th.scope = 'col'; return th; }));
  const body = rows.map(row => element('tr', '', ...columns.map(([title, kind, cell]) => {
    const value = cell(row), [inside, more] = Array.isArray(value) ? value : [value, ''];
    const td = element('td', `${kind} ${more}`.trim(), inside);
    td.dataset.h = title;
    return td;
  })));
  return element('div', 'scroll', element('table', 'stack', element('thead', '', head), element('tbody', '', ...body)));
}

/** A bar of the part that is filled. */
export function meter(part, label) {
  const filled = Math.min(1, Math.max(0, part));
  const svg = drawn('svg', { class: filled > 0.95 ? 'meter high' : 'meter', viewBox: '0 0 100 6', preserveAspectRatio: 'none', role: 'img', 'aria-label': label });
  svg.append(drawn('rect', { class: 'fill', width: 100 * filled, height: 6 }));
  return svg;
}

function ceiling(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 2.5, 5, 10].find(digit => digit * power >= most) * power;
}

/** Lines over the last `seconds`, the newest value at the right. The axis reaches at least to `least`. A series is `{name, kind, values, filled}`. */
export function lineChart(series, words, least, seconds, width, label) {
  const height = 150, left = 66, right = width - 6, top = 8, floor = height - 22;
  const most = ceiling(Math.max(least, ...series.flatMap(one => one.values)));
  const x = at => right - (right - left) * at / seconds, y = value => floor - (floor - top) * value / most;
  const svg = drawn('svg', { viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': label });
  for (const part of [0, 0.5, 1]) {
    svg.append(drawn('line', { class: part ? 'grid' : 'axis', x1: left, x2: right, y1: y(most * part), y2: y(most * part) }));
    svg.append(drawn('text', { x: left - 8, y: y(most * part) + 4, 'text-anchor': 'end' }, words(most * part)));
  }
  for (let tick = 0; tick <= 4; tick += width < 420 ? 2 : 1) {
    const ago = seconds * tick / 4, anchor = tick === 0 ? 'end' : tick === 4 ? 'start' : 'middle';
    const words = ago === 0 ? 'now' : ago % 60 === 0 ? `−${ago / 60} min` : ago > 60 ? `−${(ago / 60).toFixed(1)} min` : `−${ago} s`;
    svg.append(drawn('text', { x: x(ago), y: height - 4, 'text-anchor': anchor }, words));
  }
  for (const { kind, values, filled } of series) {
    if (values.length === 0) continue;
    const points = values.map((value, n) => `${x(values.length - 1 - n).toFixed(1)} ${y(value).toFixed(1)}`);
    const path = `M${points.join('L')}`;
    if (filled) svg.append(drawn('path', { class: `area ${kind}`, d: `${path}L${right} ${floor}L${x(values.length - 1).toFixed(1)} ${floor}Z` }));
    svg.append(drawn('path', { class: kind, d: path }));
  }
  const legend = series.map(one => element('span', '', element('i', one.kind), `${one.name} `, element('b', '', one.values.length ? words(one.values.at(-1)) : '–')));
  return [element('div', 'legend', ...legend), svg];
}

/** Spans of time on a line, with the present marked. An entry is `{name, start, stop, kind}`, times in milliseconds. */
export function timeline(entries, now, width) {
  const first = Math.min(now, ...entries.map(entry => entry.start)), last = Math.max(now, ...entries.map(entry => entry.stop));
  const x = at => 4 + (width - 8) * (at - first) / Math.max(1, last - first);
  const svg = drawn('svg', { viewBox: `0 0 ${width} 58`, height: 58, role: 'img', 'aria-label': 'Scans of the schedule' });
  svg.append(drawn('line', { class: 'axis', x1: 4, x2: width - 4, y1: 38, y2: 38 }));
  for (const { name, start, stop, kind } of entries) {
    const box = drawn('rect', { class: kind, x: x(start), y: 14, width: Math.max(2, x(stop) - x(start)), height: 22, rx: 2 });
    box.append(drawn('title', {}, `${name}: ${moment(new Date(start).toISOString())} to ${clock(new Date(stop).toISOString())}`));
    svg.append(box);
  }
  svg.append(drawn('line', { class: 'now', x1: x(now), x2: x(now), y1: 6, y2: 42 }));
  svg.append(drawn('text', { x: 4, y: 54 }, moment(new Date(first).toISOString())));
  svg.append(drawn('text', { x: width - 4, y: 54, 'text-anchor': 'end' }, moment(new Date(last).toISOString())));
  return element('div', 'line', svg);
}

/** The share of each state as bars, the lowest level first. */
export function bars(shares, label) {
  const most = Math.max(0.01, ...shares), each = 100 / shares.length;
  const svg = drawn('svg', { class: 'small', viewBox: '0 0 100 36', preserveAspectRatio: 'none', role: 'img', 'aria-label': label });
  shares.forEach((share, n) => svg.append(drawn('rect', { class: 'fill', x: n * each + each * 0.08, y: 36 - 35 * share / most, width: each * 0.84, height: 35 * share / most })));
  svg.append(drawn('title', {}, label));
  return svg;
}

/** A spectrum in decibels over 20 dB, the lowest frequency at the left. */
export function spectrum(values, label) {
  const level = value => 10 * Math.log10(Math.max(value, 1e-9)), most = Math.max(...values.map(level));
  const svg = drawn('svg', { class: 'small wide', viewBox: '0 0 100 36', preserveAspectRatio: 'none', role: 'img', 'aria-label': label });
  const points = values.map((value, n) => `${(100 * n / Math.max(1, values.length - 1)).toFixed(1)} ${(1 + 34 * Math.min(1, (most - level(value)) / 20)).toFixed(1)}`);
  svg.append(drawn('path', { class: 's0', d: `M${points.join('L')}`, 'vector-effect': 'non-scaling-stroke' }), drawn('title', {}, label));
  return svg;
}
