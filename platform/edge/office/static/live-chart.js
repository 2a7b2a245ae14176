// Draws the attempts of each step of time, stacked by answer, as SVG with axes, and as a table.
// They are counts, not averages: a burst of one second is as high in a step of ten.

const letters = "http://www.w3.org/2000/svg";

function element(name, attributes, text) {
  const made = document.createElementNS(letters, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// nice is the next 1, 2, 2.5 or 5 times a power of ten, and whole.
function nice(n) {
  for (let power = 1; ; power *= 10) for (const digit of [1, 2, 2.5, 5]) if (digit * power >= n && Number.isInteger(digit * power)) return digit * power;
}

// between is how many milliseconds the labels of a time span are apart.
function between(span, labels) {
  const day = 86400, steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
  return 1000 * (steps.find((s) => span <= labels * s * 1000) ?? day);
}

// rows are the complete steps, each with its attempts by series.
function rows(curve, points, series) {
  const step = curve.step * 1000, until = Date.parse(curve.until), list = [];
  for (let at = Date.parse(curve.from); at + step <= until; at += step) {
    const by = series.map(() => 0);
    for (const [code, n] of Object.entries(points.get(at) ?? {})) {
      const found = series.findIndex((s) => s.codes.includes(code));
      by[found < 0 ? series.length - 1 : found] += n;
    }
    list.push({ at, by });
  }
  return list;
}

// draw shows a document's curve in the chart, the legend and the table.
export function draw(room, doc, points, language) {
  const chart = room.querySelector(".chart"), zone = room.dataset.zone;
  const series = [...room.querySelectorAll(".legend li[data-codes]")].map((line) => ({
    line, codes: line.dataset.codes.split(" "), color: line.querySelector("i").className, name: line.childNodes[1].textContent.trim(),
  }));
  const number = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });
  const clock = (seconds) => new Intl.DateTimeFormat(language, { timeZone: zone, hourCycle: "h23", hour: "2-digit", minute: "2-digit", ...(seconds && { second: "2-digit" }) });
  const list = rows(doc.curve, points, series), step = doc.curve.step * 1000;
  series.forEach((s, i) => { s.sum = 0; for (const [code, n] of Object.entries(doc.answers)) if ((series.findIndex((o) => o.codes.includes(code)) + series.length) % series.length === i) s.sum += n; });
  for (const s of series) {
    const place = s.line.querySelector("b"), text = number.format(s.sum);
    if (place.textContent !== text) place.textContent = text;
  }

  const width = chart.clientWidth, height = chart.clientHeight, em = parseFloat(getComputedStyle(chart).fontSize);
  const edge = { left: 5.3 * em, right: em, top: 1.9 * em, bottom: 2.2 * em };
  const from = Date.parse(doc.curve.from), until = Math.max(Date.parse(doc.curve.until), from + 120_000); // two minutes at least, or a second is a wall
  const most = Math.max(0, ...list.map((r) => r.by.reduce((a, b) => a + b, 0)));
  const tick = nice(Math.max(1, most / 4)), high = Math.max(1, Math.ceil(most / tick)) * tick;
  const x = (at) => edge.left + ((width - edge.left - edge.right) * (at - from)) / (until - from);
  const y = (n) => height - edge.bottom - ((height - edge.top - edge.bottom) * n) / high;
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  for (let n = 0; n <= high; n += tick) {
    svg.append(element("line", { class: "grid", x1: edge.left, x2: width - edge.right, y1: y(n), y2: y(n) }), element("text", { class: "y", x: edge.left - 0.7 * em, y: y(n) + em / 3 }, number.format(n)));
  }
  // A layer of the stack, from the lowest on; each step is as wide as it lasted.
  const below = list.map(() => 0);
  series.forEach((s, of) => {
    let upper = "", lower = "";
    list.forEach((r, i) => {
      const top = below[i] + r.by[of];
      upper += `${i ? "L" : "M"}${x(r.at).toFixed(1)} ${y(top).toFixed(1)}H${x(r.at + step).toFixed(1)}`;
      lower = `L${x(r.at + step).toFixed(1)} ${y(below[i]).toFixed(1)}H${x(r.at).toFixed(1)}` + lower;
      below[i] = top;
    });
    if (s.sum) svg.append(element("path", { class: s.color, d: upper + lower + "Z" }));
  });
  const apart = between(until - from, Math.max(2, Math.floor(width / (9 * em)))), label = clock(apart < 60_000);
  for (let at = Math.ceil(from / apart) * apart; at <= until; at += apart) {
    if (x(at) < edge.left + em || x(at) > width - edge.right - 2 * em) continue; // its text would be cut off
    svg.append(element("line", { class: "axis", x1: x(at), x2: x(at), y1: height - edge.bottom, y2: height - edge.bottom + 5 }), element("text", { class: "x", x: x(at), y: height - em / 2 }, label.format(at)));
  }
  for (const session of doc.sessions) {
    const opens = Date.parse(session.opens_at);
    if (opens >= from && opens <= until) svg.append(element("line", { class: "mark", x1: x(opens), x2: x(opens), y1: edge.top - em / 3, y2: height - edge.bottom }), element("text", { class: "x", x: x(opens), y: edge.top - 0.6 * em }, chart.dataset.opening));
  }
  svg.append(element("path", { class: "axis", d: `M${edge.left} ${edge.top}V${height - edge.bottom}H${width - edge.right}` }));
  if (!most) svg.append(element("text", { class: "empty-chart", x: (width + edge.left) / 2, y: height / 2 }, chart.dataset.empty));
  const per = room.querySelector(`[data-is="per"]`);
  per.textContent = doc.curve.step === 1 ? per.dataset.second : per.dataset.step.replace("%s", number.format(doc.curve.step));
  const parts = [per.textContent, clock(true).format(from), clock(true).format(Date.parse(doc.curve.until)), number.format(most)];
  svg.setAttribute("aria-label", chart.dataset.label.replaceAll("%s", () => parts.shift()));
  chart.replaceChildren(svg);
  fillTable(room.querySelector(".numbers"), series, list, clock(true), number);
}

// fillTable is the text alternative, made while it is open.
function fillTable(details, series, list, clock, number) {
  const head = details.querySelector("thead tr");
  if (head.children.length === 1) {
    for (const s of series) head.append(Object.assign(document.createElement("th"), { scope: "col", textContent: s.name }));
  }
  if (!details.open) return;
  const lines = list.filter((r) => r.by.some(Boolean)).reverse().map((r) => {
    const line = document.createElement("tr");
    line.append(Object.assign(document.createElement("th"), { scope: "row", textContent: clock.format(r.at) }),
      ...r.by.map((n) => Object.assign(document.createElement("td"), { textContent: number.format(n) })));
    return line;
  });
  details.querySelector("tbody").replaceChildren(...lines);
}
