import { t, translate, money } from "./words.js";
import { Buyer } from "./buyer.js";
import { drawChart } from "./chart.js";
import { serverNow } from "./clock.js";

translate();
const $ = (id) => document.getElementById(id);
let state = { sale: null };

const buyer = new Buyer($("steps"), $("buy"), $("cancel"), serverNow);
const samples = []; // answers per quarter second: {granted, refused}
let lastAnswers = { granted: 0, refused: 0 };

// The stream carries the sale, the crowd and the books four times a second.
function listen() {
  const source = new EventSource("/demo/live");
  source.onmessage = (e) => show(JSON.parse(e.data));
  source.onerror = () => { $("phase").textContent = t("lost"); };
}

function show(next) {
  state = next;
  showSale(next);
  showCrowd(next);
  showBooks(next.books);
  buyer.offer(next.sale);
}

function showSale({ sale }) {
  if (!sale) {
    $("phase").textContent = t("waiting");
    return;
  }
  $("title").textContent = `${sale.title} · ${sale.stock} ${t("units")}`;
  $("price").replaceChildren(money(sale.sale_price), Object.assign(document.createElement("s"), { textContent: money(sale.list_price) }));
}

function tick() {
  const { sale } = state;
  if (!sale) return;
  const left = Date.parse(sale.opens_at) - serverNow();
  const until = Date.parse(sale.closes_at) - serverNow();
  const clock = (ms) => {
    const s = Math.max(0, Math.ceil(ms / 1000));
    return `${String(Math.floor(s / 60)).padStart(2, "0")}:${String(s % 60).padStart(2, "0")}`;
  };
  $("phase").textContent = left > 0 ? t("opensIn") : until > 0 ? t("onSale") : t("over");
  $("countdown").textContent = clock(left > 0 ? left : until);
}

function figures(el, rows) {
  el.replaceChildren(...rows.map(([label, value]) => {
    const div = document.createElement("div");
    const b = Object.assign(document.createElement("b"), { textContent: Number(value).toLocaleString() });
    div.append(b, Object.assign(document.createElement("span"), { textContent: label }));
    return div;
  }));
}

function showCrowd({ crowd }) {
  const answers = crowd?.answers ?? {};
  const granted = answers.queued ?? 0;
  const all = Object.values(answers).reduce((a, b) => a + b, 0);
  if (all < lastAnswers.granted + lastAnswers.refused) lastAnswers = { granted: 0, refused: 0 };
  if (crowd?.phase === "rush" || all > lastAnswers.granted + lastAnswers.refused) {
    samples.push({ granted: granted - lastAnswers.granted, refused: all - granted - lastAnswers.refused });
    if (samples.length > 120) samples.shift();
    drawChart($("chart"), samples);
  }
  lastAnswers = { granted, refused: all - granted };
  const refusals = Object.entries(answers).filter(([code]) => code !== "queued").sort((a, b) => b[1] - a[1]);
  figures($("funnel"), [[t("attempts"), all], [t("inLine"), granted], ...refusals.slice(0, 4).map(([code, n]) => [code, n])]);
  const running = Boolean(crowd?.running);
  $("send").disabled = running || !state.sale;
  $("progress").value = crowd?.total ? crowd.done / crowd.total : running ? null : 0;
  if (!crowd) $("run").textContent = t("idle");
  else if (crowd.error) $("run").textContent = crowd.error;
  else if (crowd.phase === "wait for the opening" || crowd.phase === "wait for paths") $("run").textContent = t("sendWait");
  else $("run").textContent = crowd.summary || (crowd.total ? `${crowd.phase} ${crowd.done.toLocaleString()} / ${crowd.total.toLocaleString()}` : crowd.phase);
}

function showBooks(books) {
  if (!books) return;
  const parts = { sold: books.sold, held: books.held, free: books.remaining };
  for (const [name, n] of Object.entries(parts)) {
    $("bar").querySelector("." + name).style.width = `${(100 * n) / Math.max(1, books.total)}%`;
  }
  figures($("books"), [["total", books.total], ["sold", books.sold], ["held", books.held], ["remaining", books.remaining], ["difference", books.difference]]
    .map(([key, n]) => [t(key), n]));
}

$("send").onclick = async () => {
  $("send").disabled = true;
  samples.length = 0;
  const answer = await fetch("/demo/shoppers", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ shoppers: 10000 }) });
  if (!answer.ok) $("run").textContent = (await answer.json()).title;
};

$("prove").onclick = async () => {
  $("prove").disabled = true;
  $("outcomes").textContent = t("proving");
  try {
    const answer = await fetch("/demo/prove", { method: "POST" });
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.title);
    const table = document.createElement("table");
    table.innerHTML = "<tr><th></th><th></th><th></th></tr>";
    table.rows[0].cells[1].textContent = t("check");
    table.rows[0].cells[2].textContent = t("verdict");
    for (const o of body.outcomes) {
      const row = table.insertRow();
      row.insertCell().textContent = o.id;
      row.insertCell().textContent = o.name;
      const verdict = row.insertCell();
      const good = !o.error && o.violations.length === 0;
      verdict.className = good ? "ok" : "bad";
      verdict.textContent = good ? t("ok") : o.error || `${t("violated")}: ${o.violations.slice(0, 3).map((v) => `${v.subject} ${v.detail}`).join("; ")}`;
    }
    $("outcomes").replaceChildren(table);
    document.body.dataset.proved = String(body.ok);
  } catch (e) {
    $("outcomes").textContent = e.message;
  } finally {
    $("prove").disabled = false;
  }
};

setInterval(tick, 200);
listen();
