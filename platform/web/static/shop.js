// The sessions of the shop, and with ?item= one item.
import { el } from "./dom.js";
import { allowGuests, problem, send } from "./api.js";
import { serverNow } from "./clock.js";
import { countdown, SaleCard } from "./sale.js";
import { explain, language, money, t } from "./words.js";

// every is how often the page asks again, in ms; a crowd's pages spread over half of
// it more.
const every = 10_000;
const mostOver = 5; // sessions that are over

export function show(main, query) {
  if (document.body.dataset.guests) allowGuests(document.body.dataset.guests);
  const again = async (work, error) => {
    try {
      await work();
      error.replaceChildren();
    } catch (e) {
      error.replaceChildren(problem(explain(e)));
      if (e.status === 404) return;
    }
    setTimeout(() => again(work, error), every * (1 + Math.random() / 2));
  };
  const error = el("div");
  if (query.has("item")) {
    const card = new SaleCard();
    main.append(el("p", {}, el("a", { href: "/?sessions" }, `‹ ${t("sessions")}`)), error, el("div", { className: "narrow" }, card));
    return again(async () => card.show(await send("GET", `items/${encodeURIComponent(query.get("item"))}`)), error);
  }
  const list = el("div", { id: "list" });
  main.append(el("section", { className: "card" }, el("h2", {}, t("sessions")), error, list));
  setInterval(() => tick(list), 250);
  return again(async () => {
    // The server lists by opening, what closed lately first: a little of that goes to
    // the end.
    const { data } = await send("GET", "sessions?limit=100");
    const over = (s) => s.status === "ended";
    const shown = [...data.filter((s) => !over(s)), ...data.filter(over).slice(-mostOver)];
    const sessions = await Promise.all(shown.map((s) => send("GET", `sessions/${s.id}`)));
    list.replaceChildren(...(sessions.length > 0 ? [table(sessions)] : empty()));
    tick(list);
  }, error);
}

function table(sessions) {
  const head = ["opens", "item", "price", "left", "status"].map((key) => el("th", { className: ["price", "left"].includes(key) ? "n" : "" }, t(key)));
  const row = (session, item) => el("tr", {},
    el("td", {}, new Date(session.opens_at).toLocaleString(language, { dateStyle: "short", timeStyle: "short" }),
      el("small", { className: "left dim", data: { opens: Date.parse(session.opens_at) } })),
    el("td", {}, el("a", { href: `/?item=${item.id}` }, item.title), el("small", { className: "dim" }, session.activity_name)),
    el("td", { className: "n" }, money(item.sale_price)),
    el("td", { className: "n" }, item.remaining == null ? "–" : item.remaining.toLocaleString()),
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

// empty is for the operator who has just started the server.
const empty = () => [
  el("p", { id: "empty" }, t("empty")),
  el("pre", {}, `TOKEN=$(stampede token --user 1 --role operator)
OPENS=$(date -u -d '+5 minutes' +%FT%TZ); CLOSES=$(date -u -d '+35 minutes' +%FT%TZ)
curl -s ${location.origin}/api/v1/admin/activities -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{
  "name": "First sale", "starts_at": "'$OPENS'", "ends_at": "'$CLOSES'",
  "sessions": [{"name": "first", "opens_at": "'$OPENS'", "closes_at": "'$CLOSES'", "items": [{
    "sku": "phone-15", "title": "Phone 15", "stock": 100,
    "list_price": {"amount": 599900, "currency": "CNY"}, "sale_price": {"amount": 9900, "currency": "CNY"}}]}]}'
# its "id" is what to publish:
curl -s -X POST ${location.origin}/api/v1/admin/activities/ID/publish -H "Authorization: Bearer $TOKEN"`),
];
