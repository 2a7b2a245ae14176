// The live page of `stampede run`: a sale every few minutes, a crowd to send at it,
// the books while it runs and their proof.
import { el } from "./dom.js";
import { call, problem, send } from "./api.js";
import { drawChart } from "./chart.js";
import "./sale.js";
import { ways } from "./login.js";
import { countdown } from "./step.js";
import { serverNow } from "./clock.js";
import { add, answerName, checkName, count, explain, t, translate } from "./words.js";

add({
  tagline: "一个开源的秒杀系统：不超卖、不丢单、不骗人。本页是一场真实的抢购。",
  killIdle: "抢购中结束它的进程，看系统如何恢复。",
  killed: "Redis 已被强制结束，第 {n} 秒……",
  healed: "Redis 离线 {away} 秒，{healed} 秒后全部恢复；核对 {checks} 项，违反 {violations} 处。",
  figures: "每秒应答 {per_second} · p99：拒绝 {refusal} 毫秒、订单可见 {visible} 毫秒、推送 {push} 毫秒",
  idle: "点击按钮，看一万人同时开抢。",
}, {
  tagline: "A flash-sale system that never oversells, never loses an order and never misleads a shopper. This page is a real sale.",
  killIdle: "Kill its process mid-sale and watch the system recover.",
  killed: "Redis was killed {n} s ago …",
  healed: "Redis was down for {away} s, and everything was working again after {healed} s. {checks} checks found {violations} violations.",
  figures: "{per_second} responses/s · p99: refusal {refusal} ms, order visible {visible} ms, push {push} ms",
  idle: "Press the button and watch ten thousand shoppers rush in.",
});

const $ = (id) => document.getElementById(id);
const crowdSize = 10_000;
const samples = []; // answers per quarter second, as the server keeps them: {granted, refused}
let proving = false;

export function show(main) {
  main.append($("live").content.cloneNode(true));
  translate(main);
  $("sale").ways = ways;
  $("send").onclick = sendCrowd;
  $("prove").onclick = prove;
  $("kill").onclick = killRedis;
  // The stream carries the sale, the crowd and the books four times a second.
  const source = new EventSource("/demo/live");
  source.onmessage = (e) => update(JSON.parse(e.data));
  source.onerror = () => { $("lost").hidden = false; };
}

function update({ sale, crowd, books, outage, from, samples: news = [] }) {
  $("lost").hidden = true;
  if (sale) {
    const none = books?.total > 0 && books.available === 0;
    $("sale").show({ ...sale, remaining: books?.available, status: none ? (books.held > 0 ? "all_held" : "sold_out") : "" });
  } else if (!$("sale").shown) {
    $("sale").replaceChildren(el("p", { className: "dim" }, t("waiting")));
  }
  if (news.length > 0 || from < samples.length) {
    samples.splice(from, samples.length, ...news);
    drawChart($("chart"), samples);
  }
  showCrowd(crowd, sale);
  showOutage(outage);
  showBooks(books);
}

// figures writes labels and numbers; the elements stay, so that nothing flickers.
function figures(box, rows) {
  while (box.children.length > rows.length) box.lastChild.remove();
  rows.forEach(([label, value], i) => {
    const cell = box.children[i] ?? box.appendChild(el("div", {}, el("b"), el("span")));
    cell.firstChild.textContent = count(value);
    cell.lastChild.textContent = label;
  });
}

function showCrowd(crowd, sale) {
  const answers = crowd?.answers ?? {};
  const granted = answers.queued ?? 0;
  const all = Object.values(answers).reduce((a, b) => a + b, 0);
  const refusals = Object.entries(answers).filter(([code]) => code !== "queued").sort((a, b) => b[1] - a[1]);
  figures($("funnel"), [[t("attempts"), all], [t("inLine"), granted], ...refusals.slice(0, 4).map(([code, n]) => [answerName(code), n])]);
  const running = Boolean(crowd?.running), waits = running && crowd.phase.startsWith("wait");
  $("send").disabled = running || !sale;
  if (crowd?.total && !waits) $("progress").value = crowd.done / crowd.total;
  else if (running) $("progress").removeAttribute("value");
  else $("progress").value = 0;
  $("run").textContent = !crowd ? t("idle") : crowd.error ? crowd.error
    : waits ? `${t("sendWait")}${sale ? ` ${countdown(Date.parse(sale.opens_at) - serverNow())}` : ""}`
      : crowd.figures ? t("figures", rounded(crowd.figures)) : `${t(`phase_${crowd.phase}`)}${crowd.total ? ` ${count(crowd.done)} / ${count(crowd.total)}` : " …"}`;
}

const rounded = (figures) => Object.fromEntries(Object.entries(figures).map(([name, n]) => [name, count(Math.round(n))]));

function showBooks(books) {
  if (!books) return;
  for (const [name, n] of Object.entries({ sold: books.sold, held: books.held, free: books.available })) {
    $("bar").querySelector(`.${name}`).style.width = `${(100 * n) / Math.max(1, books.total)}%`;
  }
  figures($("books"), ["total", "sold", "held", "available", "difference"].map((key) => [t(key), books[key]]));
  $("books").lastChild.className = books.difference === 0 ? "ok" : "bad";
}

async function sendCrowd() {
  $("send").disabled = true;
  try {
    await send("POST", "/demo/shoppers", { body: { shoppers: crowdSize } });
  } catch (e) {
    $("run").textContent = explain(e);
  }
}

function showOutage(outage) {
  if (!outage) return;
  const one = (n) => n.toFixed(1);
  $("kill").disabled = outage.running;
  $("outage").textContent = outage.error ? outage.error : outage.running ? t("killed", { n: one(outage.seconds) })
    : t("healed", { away: one(outage.away ?? 0), healed: one(outage.healed ?? 0), checks: outage.checks, violations: outage.violations });
  $("outage").className = `grow ${outage.running ? "dim" : outage.error || outage.violations > 0 ? "bad" : "ok"}`;
}

async function killRedis() {
  $("kill").disabled = true;
  try {
    await send("POST", "/demo/kill-redis", { body: {} });
  } catch (e) {
    $("outage").textContent = explain(e);
  }
}

async function prove() {
  if (proving) return;
  proving = $("prove").disabled = true;
  $("outcomes").replaceChildren(el("p", { className: "dim" }, t("proving")));
  try {
    const { ok, outcomes } = await call("POST", "/demo/prove", { body: {} });
    const verdict = (o) => o.error || (o.violations.length > 0 ? `${t("violated")}: ${o.violations.slice(0, 3).map((v) => `${v.subject} ${v.detail}`).join("; ")}` : t("ok"));
    const good = (o) => !o.error && o.violations.length === 0;
    $("outcomes").replaceChildren(el("div", { className: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th"), el("th", {}, t("check")), el("th", {}, t("verdict")))),
      el("tbody", {}, ...outcomes.map((o) => el("tr", {}, el("td", { className: "dim" }, o.id), el("td", {}, checkName(o.name)), el("td", { className: good(o) ? "ok" : "bad" }, verdict(o))))))));
    $("proof").dataset.proved = String(ok);
  } catch (e) {
    $("outcomes").replaceChildren(problem(explain(e)));
  } finally {
    proving = $("prove").disabled = false;
  }
}
