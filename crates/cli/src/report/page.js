const tip = document.getElementById('tip');
const number = n => n.toLocaleString('en').replaceAll(',', '\u202f');
function cell(map, event) {
  const d = map.dataset, box = map.getBoundingClientRect(), cells = d.cells.split(',');
  const column = Math.floor((event.clientX - box.left) / box.width * d.columns);
  const row = Math.floor((event.clientY - box.top) / box.height * d.rows), i = row * d.columns + column;
  if (!(i in cells)) return '';
  const from = i * d.each, size = Math.min(d.each, d.span - from), first = +d.first + from;
  return `${d.unit} ${number(first)} to ${number(first + size - 1)}\n${cells[i]} of ${size} lost`;
}
document.addEventListener('pointermove', event => {
  const over = event.target.closest('[data-t], [data-cells]');
  const text = over ? over.dataset.t || cell(over, event) : '';
  tip.style.display = text ? 'block' : 'none';
  tip.textContent = text;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + 'px';
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + 'px';
});
