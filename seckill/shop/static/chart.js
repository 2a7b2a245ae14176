// Draws stacked bars of granted and refused answers over time.
export function drawChart(svg, samples) {
  const width = 600, height = 90, n = Math.max(40, samples.length);
  const most = Math.max(1, ...samples.map((s) => s.granted + s.refused));
  const step = width / n;
  const bar = (x, y, h, fill) => {
    const r = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [k, v] of Object.entries({ x, y, width: Math.max(1, step - 1), height: h })) r.setAttribute(k, v);
    r.style.fill = fill;
    return r;
  };
  const bars = [];
  samples.forEach((s, i) => {
    const won = (s.granted / most) * height, lost = (s.refused / most) * height;
    if (s.refused > 0) bars.push(bar(i * step, height - won - lost, lost, "var(--free)"));
    if (s.granted > 0) bars.push(bar(i * step, height - Math.max(won, 2), Math.max(won, 2), "var(--won)"));
  });
  svg.replaceChildren(...bars);
}
