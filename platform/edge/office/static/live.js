// Keeps a war room up to date by server-sent events. Every text is in the page; without
// this file the page shows the figures of the moment in which it was loaded.
import { draw } from "./live-chart.js";

const room = document.querySelector("#room");
const language = document.documentElement.lang === "zh" ? "zh-CN" : "en";
const number = new Intl.NumberFormat(language);
const find = (name, within = room) => within.querySelector(`[data-is="${name}"]`);

// ---- the server's time -----------------------------------------------------------

let ahead = 0; // of performance.now(), in ms
let latest = null; // the last document
let heard = performance.now();
const now = () => performance.now() + ahead;

function countDown() {
  const silent = Math.floor((performance.now() - heard) / 1000), news = find("news");
  say(news, displaced ? news.dataset.displaced : silent >= 5 ? news.dataset.late.replace("%s", silent) : "");
  if (!latest?.sessions.length) return;
  const words = room.querySelector(".clock").dataset;
  const opens = Math.min(...latest.sessions.map((s) => Date.parse(s.opens_at))), closes = Math.max(...latest.sessions.map((s) => Date.parse(s.closes_at)));
  let phase = words.over, until = 0;
  if (latest.status === "terminated") phase = words.terminated;
  else if (now() < opens) [phase, until] = [words.before, opens];
  else if (now() < closes) [phase, until] = [words.open, closes];
  const seconds = Math.max(0, Math.ceil((until - now()) / 1000)), two = (n) => String(n).padStart(2, "0");
  const days = Math.floor(seconds / 86400);
  say(find("phase"), `${latest.sessions.map((s) => s.name).join(" · ")} · ${phase}`);
  say(find("clock"), until ? `${days ? days + (language === "en" ? " d " : " 天 ") : ""}${two(Math.floor(seconds / 3600) % 24)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}` : "");
}
setInterval(countDown, 200);

// say changes a text only if it is another one, which readers would announce again.
function say(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

// ---- figures -----------------------------------------------------------------------

// figure shows a number where the page has a place for it; null is unknown.
function figure(place, value) {
  if (!place) return;
  const { most = "", badFrom } = place.dataset;
  say(place, value == null ? "–" : typeof value === "string" ? value : most + number.format(value));
  if (badFrom) place.classList.toggle("bad", value == null || value >= Number(badFrom));
}

// hide shows what applies: the form that resumes while it is paused.
function hide(within, state) {
  for (const part of within) part.hidden = !state[part.dataset.if];
}

function showItem(item) {
  const row = room.querySelector(`tr[data-item="${item.id}"]`), books = item.books;
  if (!row) return;
  const held = books && books.held + books.in_flight;
  figure(find("remaining", row), books && (books.unlimited ? "∞" : books.available - books.in_flight));
  figure(find("held", row), held);
  figure(find("sold", row), books?.sold);
  figure(find("backup", row), books?.backup);
  figure(find("attempts", row), item.attempts);
  const share = (units) => (books?.total > 0 ? (100 * units) / books.total : 0), [sold, waiting] = row.querySelectorAll(".share rect");
  sold.setAttribute("width", share(books?.sold ?? 0));
  waiting.setAttribute("x", share(books?.sold ?? 0));
  waiting.setAttribute("width", share(held ?? 0));
  hide(row.querySelectorAll("[data-if]"), { paused: item.paused, selling: !item.paused, admission: item.admission != null });
}

function showAlarms(alarms) {
  const card = room.querySelector("#alarms"), list = card.querySelector("ul"), words = card.querySelector("a").dataset;
  card.querySelector(".empty").hidden = alarms.length > 0;
  list.replaceChildren(...alarms.map((alarm) => {
    const line = card.querySelector("template").content.cloneNode(true).firstElementChild;
    const [severity, code, about] = line.children;
    severity.textContent = words[alarm.severity];
    severity.className = alarm.severity === "critical" ? "bad" : "warn";
    code.textContent = alarm.code;
    about.textContent = alarm.subject;
    line.append(alarm.next_action);
    return line;
  }));
}

// ---- events ------------------------------------------------------------------------

const points = new Map(); // the curve, answers by time

function keep(curve) {
  if (curve.whole) points.clear();
  for (const p of curve.points) points.set(Date.parse(p.at), p.answers);
  for (const at of points.keys()) if (at < Date.parse(curve.from)) points.delete(at);
}

// replanned is whether the page has rows and forms of other items than the document, or
// of another state. One that is being filled in stays.
const replanned = (doc) => !room.querySelector("details.act[open]") && (doc.status !== room.querySelector("#units").dataset.status ||
  [...room.querySelectorAll("tr[data-item]")].map((row) => row.dataset.item).join() !== doc.items.map((item) => item.id).join());

// replan takes rows and forms from the page as the server has it now. A reload would take
// the page off a wall at the opening.
async function replan(status) {
  const page = await fetch(location.href);
  if (page.redirected) return location.reload(); // to the sign-in
  const fresh = page.ok && new DOMParser().parseFromString(await page.text(), "text/html").querySelector("#units");
  if (!fresh) return;
  room.querySelector("#units").replaceWith(fresh);
  const tag = find("status");
  say(tag, tag.dataset[status]);
}
let replanning = Promise.resolve();

function show(event) {
  const doc = JSON.parse(event.data);
  heard = performance.now();
  replanning = replanning.then(() => replanned(doc) && doc === latest && replan(doc.status)).catch(() => {}); // the next event tries again
  if (!latest || Math.abs(Date.parse(doc.at) - now()) > 500) ahead = Date.parse(doc.at) - performance.now();
  const alarmed = JSON.stringify(doc.alarms) !== JSON.stringify(latest?.alarms);
  latest = doc;
  keep(doc.curve);
  for (const name of ["attempts", "queued", "wait_p99_ms", "visible_p99_ms", "payments_per_minute", "sockets", "instances", "difference"]) figure(find(name), doc[name]);
  figure(find("busiest.attempts"), doc.busiest?.attempts);
  figure(find("alarms"), doc.alarms.length);
  hide(room.querySelectorAll("h1 [data-if], .whole [data-if]"), { paused: doc.paused, selling: !doc.paused });
  doc.items.forEach(showItem);
  if (alarmed) showAlarms(doc.alarms);
  redraw();
}

const redraw = () => latest && draw(room, latest, points, language);
new ResizeObserver(redraw).observe(room.querySelector(".chart"));
room.querySelector(".numbers").addEventListener("toggle", redraw);

// The server ends the operator's oldest page where too many are open. It follows again
// once a person looks at it: two hidden ones would end each other for ever.
let events, displaced = false;
function follow() {
  displaced = false;
  events = new EventSource(room.dataset.events);
  events.onmessage = show;
  events.addEventListener("displaced", () => {
    events.close();
    displaced = true;
  });
  // A browser connects again by itself after a stream that ended, but not after a refusal:
  // an overload, or a session that has ended.
  events.onerror = async () => {
    if (events.readyState !== EventSource.CLOSED) return;
    const page = await fetch(location.href, { redirect: "manual" }).catch(() => null);
    if (page?.type === "opaqueredirect") return location.reload(); // to the sign-in
    setTimeout(follow, 3000 + 2000 * Math.random());
  };
}
follow();
addEventListener("pagehide", () => events.close());
for (const look of ["focus", "pointerdown"]) addEventListener(look, () => { if (displaced) follow(); });
addEventListener("pageshow", (e) => { if (e.persisted) follow(); });

// ---- the wall ----------------------------------------------------------------------

const wall = room.querySelector("#wall");
if (document.fullscreenEnabled) wall.hidden = false;
wall.addEventListener("click", () => room.requestFullscreen().catch(() => {})); // a refusal leaves the page as it is
addEventListener("fullscreenchange", () => { if (document.fullscreenElement) navigator.wakeLock?.request("screen").catch(() => {}); });
