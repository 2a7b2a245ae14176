// The shopper's orders, newest first.
import { el, refill } from "./dom.js";
import { call, login } from "./api.js";
import { askLogin } from "./login.js";
import { keepAsking, skeleton } from "./poll.js";
import { language, money, t } from "./words.js";

const page = 20;

export function show(main) {
  const list = el("ul", { className: "goods card", id: "orders" }, skeleton(240)), error = el("div", { className: "toast" });
  const button = el("button", { className: "second", hidden: true }, t("more"));
  let most = page;
  main.append(el("div", { className: "narrow" }, el("h2", {}, t("myOrders")), error, list, button));
  const work = async () => {
    if (!login() && !document.body.dataset.guests) await askLogin();
    const { data, next_cursor } = await call("GET", `orders?limit=${most}`);
    button.hidden = !next_cursor || most >= 100;
    refill(list, ...(data.length > 0 ? data.map(entry) : [el("li", { className: "nothing" }, t("noOrders"))]));
  };
  button.onclick = () => { most = Math.min(100, most + page); work().catch(() => {}); };
  keepAsking(error, work);
}

const entry = (o) => el("li", {}, el("a", { href: `/?order=${o.order_no}` },
  el("span", { className: "grow" }, el("strong", {}, `${o.title ?? ""} × ${o.quantity}`), el("small", { className: "dim" }, new Date(o.created_at).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" })),
    el("span", { className: "price" }, o.amount ? money(o.amount) : "")),
  el("span", { className: `go ${o.status === "pending_payment" ? "on_sale" : ""}` }, t(`state_${o.handover ?? o.status}`))));
