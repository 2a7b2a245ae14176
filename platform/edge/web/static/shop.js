// The sessions of the shop; with ?item= one item, with ?order= the item of an order.
import { copyButton, el } from "./dom.js";
import { allowGuests, call, changes, problem, send } from "./api.js";
import { ready, serverNow } from "./clock.js";
import { countdown, SaleCard } from "./sale.js";
import { count, explain, language, money, t } from "./words.js";

// How often the page polls, in ms; a crowd's pages spread over half of it more.
const every = 10_000;
const everyOnSale = 2000; // an item that may be bought, or soon: the server keeps an answer for a second or two
const soon = 60_000; // ms before the opening
const detailsFor = 60_000; // ms that the items of a session are kept whose window is not open
const mostOver = 5; // sessions that are over
const more = 30; // sessions that are shown at first, and with each press of the button
const atOnce = 100; // that the server lists

export function show(main, query) {
  if (document.body.dataset.guests) allowGuests(document.body.dataset.guests);
  const error = el("div");
  if (query.has("item") || query.has("order")) showItem(main, error, query.get("item"), query.get("order"));
  else showSessions(main, error);
}

// keepAsking does some work, which returns in how many ms it makes sense again. A hidden
// page does not poll; a page that becomes visible again, or whose user changed by a
// login, polls immediately.
async function keepAsking(error, work) {
  let wake;
  const pause = (ms) => new Promise((done) => { wake = done; if (ms) setTimeout(done, ms); });
  changes.addEventListener("login", () => wake?.());
  const say = (text) => { if (error.textContent !== text) error.replaceChildren(...(text ? [problem(text)] : [])); };
  for (;;) {
    let next = every;
    try {
      next = await work();
      say("");
    } catch (e) {
      say(explain(e));
      if (e.status === 404) next = 0; // until another user logs in, for whom it may exist
    }
    await pause(next * (1 + Math.random() / 2));
    while (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
  }
}

function showItem(main, error, id, no) {
  const card = new SaleCard();
  main.append(el("p", {}, el("a", { href: "/?sessions" }, `‹ ${t("sessions")}`)), error, el("div", { className: "narrow" }, card));
  keepAsking(error, async () => {
    id ??= (await call("GET", `orders/${encodeURIComponent(no)}`)).item_id;
    if (!id) return everyOnSale; // still in line
    const item = await send("GET", `items/${encodeURIComponent(id)}`);
    card.show(item, no ?? undefined);
    return item.status === "ended" || Date.parse(item.opens_at) - serverNow() > soon ? every : everyOnSale;
  });
}

function showSessions(main, error) {
  const list = el("div", { id: "list" });
  const button = el("button", { className: "second", hidden: true }, t("more"));
  main.append(el("section", { className: "card" }, el("h2", {}, t("sessions")), error, list, button));
  setInterval(() => tick(list), 250);
  let most = more, shown = "";
  const kept = new Map(); // of sessions with their items: {header, session, until}
  // Items and what is left of them come one session at a time. They are loaded
  // again while the session runs, when its line in the list is another, and now and then.
  const withItems = async (s) => {
    const header = JSON.stringify(s), known = kept.get(s.id);
    if (known?.header === header && performance.now() < known.until) return known.session;
    const session = await send("GET", `sessions/${s.id}`).catch((e) => { if (e.status !== 404) throw e; }); // it left the list just now
    const runs = ["on_sale", "paused"].includes(s.status);
    if (session) kept.set(s.id, { header, session, until: performance.now() + (runs ? 0 : detailsFor) });
    return session;
  };
  const work = async () => {
    // Running ones come first, then upcoming ones, then what closed lately.
    const { data, next_cursor } = await send("GET", `sessions?limit=${most}`);
    const ended = data.filter((s) => s.status === "ended").slice(mostOver);
    const sessions = await Promise.all(data.filter((s) => !ended.includes(s)).map(withItems));
    for (const id of kept.keys()) if (!data.some((s) => s.id === id)) kept.delete(id);
    button.hidden = !next_cursor || most >= atOnce;
    if (sessions.length === 0) await ready; // the commands carry the server's time
    const made = sessions.length > 0 ? [table(sessions.filter(Boolean))] : empty();
    // Unchanged text stays, so that the reader's selection is not lost.
    const text = made.map((node) => node.outerHTML).join("");
    if (text !== shown) list.replaceChildren(...made);
    shown = text;
    tick(list);
    return every;
  };
  button.onclick = () => {
    most = Math.min(atOnce, most + more);
    work().catch((e) => error.replaceChildren(problem(explain(e))));
  };
  keepAsking(error, work);
}

function table(sessions) {
  const head = ["opens", "item", "price", "left", "status"].map((key) => el("th", { className: ["price", "left"].includes(key) ? "n" : "" }, t(key)));
  const row = (session, item) => el("tr", {},
    el("td", {}, new Date(session.opens_at).toLocaleString(language, { dateStyle: "short", timeStyle: "short" }),
      el("small", { className: "left dim", data: { opens: Date.parse(session.opens_at) } })),
    el("td", {}, el("a", { href: `/?item=${item.id}` }, item.title), el("small", { className: "dim" }, session.activity_name)),
    el("td", { className: "n" }, money(item.sale_price)),
    el("td", { className: "n" }, item.remaining == null ? "–" : count(item.remaining)),
    el("td", {}, el("span", { className: `tag ${item.status}` }, t(`status_${item.status}`))));
  return el("div", { className: "scroll" }, el("table", { className: "sessions" }, el("thead", {}, el("tr", {}, ...head)),
    el("tbody", {}, ...sessions.flatMap((s) => (s.items ?? []).map((item) => row(s, item))))));
}

// tick counts down to the openings by the server's time.
function tick(list) {
  for (const left of list.querySelectorAll("[data-opens]")) {
    const ms = Number(left.dataset.opens) - serverNow();
    left.textContent = ms > 0 ? `${t("opensIn")} ${countdown(ms)}` : "";
  }
}

// empty is for the operator who has just started the server: what to type, whatever
// shell and date it has. The times are the server's, in whole five minutes, so that the
// text stays the same while the operator copies it.
function empty() {
  const step = 300_000, opens = Math.ceil(serverNow() / step + 1) * step;
  const at = (ms) => new Date(ms).toISOString().slice(0, 19) + "Z";
  const item = { sku: "phone", title: "Phone", stock: 100, list_price: { amount: 599900, currency: "CNY" }, sale_price: { amount: 0, currency: "CNY" } };
  const times = [at(opens), at(opens + 6 * step)];
  const body = {
    name: "First sale", starts_at: times[0], ends_at: times[1],
    sessions: [{ name: "first", opens_at: times[0], closes_at: times[1], items: [item] }],
  };
  const pre = el("pre", {}, `API=${location.origin}/api/v1/admin/activities
AUTH="Authorization: Bearer $(stampede token --user 1 --role operator)"
MADE=$(curl -s $API -H "$AUTH" -H "Content-Type: application/json" -d '${JSON.stringify(body)}')
echo "$MADE"
ID=$(echo "$MADE" | grep -o '"id":"[0-9]*"' | head -n 1 | tr -dc 0-9)
curl -s -X POST $API/$ID/publish -H "$AUTH"`);
  return [el("p", { id: "empty" }, t("empty")), pre, copyButton(pre)];
}
