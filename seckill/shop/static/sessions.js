// The shop's sessions with their items.
import { el, picture, refill } from "./dom.js";
import { problem, send } from "./api.js";
import { serverNow } from "./clock.js";
import { every, keepAsking, skeleton } from "./poll.js";
import { countdown } from "./step.js";
import { count, explain, money, opening, t } from "./words.js";

const detailsFor = 60_000; // ms that the items of a session are kept whose window is not open
const mostOver = 5; // sessions that are over
const more = 30; // sessions that are shown at first, and with each press of the button
const atOnce = 100; // that the server lists

export function show(main) {
  const list = el("div", { id: "list" }, skeleton(240)), error = el("div", { className: "toast" });
  const button = el("button", { className: "second", hidden: true }, t("more"));
  main.append(el("h2", {}, t("sessions")), error, list, button);
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
    const made = sessions.length > 0 ? sessions.filter(Boolean).map(section) : [empty()];
    // Unchanged text stays, so that the reader's selection is not lost.
    const text = made.map((node) => node.outerHTML).join("");
    if (text !== shown) refill(list, ...made);
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

function section(s) {
  const upcoming = s.status === "upcoming";
  return el("section", { className: "session card" },
    el("h3", {}, el("span", { className: "grow" }, s.activity_name, el("small", { className: "dim" }, opening(s.opens_at))),
      el("span", { className: `tag ${s.status}`, data: { until: Date.parse(upcoming ? s.opens_at : s.closes_at), says: upcoming ? "opensIn" : s.status === "ended" ? "" : "onSale" } }, t(`status_${s.status}`))),
    el("ul", { className: "goods" }, ...(s.items ?? []).map(entry)));
}

function entry(item) {
  const known = item.total != null && item.remaining != null;
  const taken = known ? Math.floor((100 * (item.total - item.remaining)) / Math.max(1, item.total)) : 0;
  const early = ["upcoming", "preparing"].includes(item.status);
  const calls = ["upcoming", "on_sale", "preparing"].includes(item.status);
  return el("li", {}, el("a", { href: `/?item=${item.id}` },
    picture(item.image_url, { alt: "", loading: "lazy", width: 104, height: 104 }),
    el("span", { className: "grow" }, el("strong", {}, item.title), el("small", { className: "dim" }, item.spec),
      el("span", { className: "progress" }, early && item.total ? t("offers", { n: count(item.total) }) : known ? t("taken", { n: count(taken) }) : ""),
      el("span", { className: "price" }, money(item.sale_price), el("s", {}, money(item.list_price)))),
    el("span", { className: `go ${calls ? item.status : ""}` }, t(item.status === "on_sale" ? "buy" : `status_${item.status}`))));
}

// tick counts down to the openings by the server's time.
function tick(list) {
  for (const tag of list.querySelectorAll("[data-until]")) {
    const left = Number(tag.dataset.until) - serverNow();
    if (tag.dataset.says && left > 0) tag.textContent = `${t(tag.dataset.says)} ${countdown(left)}`;
  }
}

const empty = () => el("section", { className: "card nothing", id: "empty" }, el("p", {}, t("empty")), el("p", { className: "dim" }, t("emptyNext")));
