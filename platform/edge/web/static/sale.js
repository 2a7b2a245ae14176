// SaleCard shows one item with its countdown and lets the visitor buy it.
import { copyButton, el } from "./dom.js";
import { changes } from "./api.js";
import { Buyer } from "./buyer.js";
import { serverNow } from "./clock.js";
import { count, money, t } from "./words.js";

const reading = 10_000; // ms that a visitor has for what was said last
const two = (n) => String(n).padStart(2, "0");
// countdown writes a time that is left; days only where there are some.
export function countdown(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000)), h = Math.floor(s / 3600);
  const clock = `${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  return h >= 24 ? `${Math.floor(h / 24)} ${t("days")} ${two(h % 24)}:${clock}` : h ? `${two(h)}:${clock}` : clock;
}

export class SaleCard extends HTMLElement {
  #item; #buyer; #lines = {}; #timer; #parts; #no; #readUntil = 0;
  #login = () => this.#begin(); // another shopper, another way through

  connectedCallback() {
    this.className = "card";
    this.#timer = setInterval(() => this.#tick(), 200);
    changes.addEventListener("login", this.#login);
  }

  disconnectedCallback() {
    clearInterval(this.#timer);
    changes.removeEventListener("login", this.#login);
    this.#buyer?.leave();
  }

  get shown() { return this.#item; }

  // show takes what the server says of the item, and the number of the order to show
  // with it, if that is known. Another item begins anew, but not while the visitor is
  // in the middle of this one, nor before the end could be read.
  show(item, no) {
    const other = item.id !== this.#item?.id;
    if (this.#item && other && (this.#buyer.busy || ["queued", "pending_payment"].includes(this.#buyer.order?.status) || performance.now() < this.#readUntil)) return;
    this.#item = item;
    if (!other) {
      this.#buyer.item = item;
      return this.#tick();
    }
    this.#no = no;
    const code = el("code"), number = el("div", { className: "number dim", id: "number", hidden: true }, el("span", {}, t("orderNumber")), code, copyButton(code));
    const p = (this.#parts = {
      number, code, left: el("div", { className: "dim", id: "left" }),
      phase: el("div", { className: "dim", id: "phase" }), clock: el("div", { className: "countdown", id: "countdown", attrs: { role: "timer" } }, "–"),
      reserve: el("button", { id: "reserve", onclick: () => this.#buyer.reserve() }), note: el("p", { className: "dim", id: "note" }), sum: el("p", { className: "dim", id: "sum" }),
      buy: el("button", { id: "buy", disabled: true, onclick: () => this.#press() }),
      cancel: el("button", { id: "cancel", className: "second", hidden: true, onclick: () => this.#buyer.cancel() }, t("cancel")),
      steps: el("ol", { className: "steps", id: "steps", attrs: { "aria-live": "polite" } }),
    });
    this.replaceChildren(
      ...(item.image_url ? [el("img", { className: "product", src: item.image_url, alt: "" })] : []),
      el("h2", {}, item.title), ...(item.spec ? [el("div", { className: "dim" }, item.spec)] : []),
      el("div", { className: "price", id: "price" }, money(item.sale_price), el("s", {}, money(item.list_price))),
      p.left, p.phase, p.clock, p.note, p.sum, el("div", { className: "row" }, p.reserve, p.buy, p.cancel), p.number, p.steps);
    this.#begin();
  }

  #begin() {
    if (!this.#item) return;
    this.#buyer?.leave();
    this.#clear();
    this.#buyer = new Buyer(this.#item, { step: (...line) => this.#step(...line), changed: () => this.#tick() }, this.#no);
    this.#tick();
  }

  #clear() {
    this.#parts.steps.replaceChildren();
    this.#lines = {};
  }

  #press() {
    if (this.#buyer.order?.status === "pending_payment") return this.#buyer.pay();
    this.#clear();
    return this.#buyer.buy();
  }

  #step(text, kind, key, link) {
    let li = this.#lines[key];
    if (!li) this.#parts.steps.append((li = el("li")));
    if (key) this.#lines[key] = li;
    li.className = kind;
    if (link) li.replaceChildren(el("a", { href: link }, text));
    else if (li.textContent !== text || li.firstElementChild) li.textContent = text;
    this.#readUntil = performance.now() + reading;
    this.#tick();
  }

  #tick() {
    if (!this.#item) return;
    const { opens_at, closes_at, reservation_opens_at, reservation_closes_at, status, total, remaining } = this.#item;
    const now = serverNow(), p = this.#parts, { number, order, busy, reserved } = this.#buyer;
    const until = (at) => Date.parse(at) - now;
    const reserving = Boolean(reservation_opens_at) && until(reservation_closes_at) > 0;
    const early = until(opens_at) > 0, over = until(closes_at) <= 0;
    const [phase, left] = reserving && until(reservation_opens_at) > 0 ? ["reserveOpensIn", until(reservation_opens_at)]
      : reserving && !reserved ? ["reserveClosesIn", until(reservation_closes_at)]
        : early ? ["opensIn", until(opens_at)] : over ? ["over", 0] : [status === "paused" ? "paused" : "onSale", until(closes_at)];
    const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };
    set(p.left, total == null ? t("unlimited") : remaining == null ? t("units", { n: count(total) }) : t("unitsLeft", { n: count(remaining), total: count(total) }));
    set(p.code, number ?? "");
    p.number.hidden = !number;
    set(p.phase, t(phase));
    set(p.clock, countdown(left));
    p.reserve.hidden = !reserving;
    p.reserve.disabled = busy || reserved || until(reservation_opens_at) > 0;
    set(p.reserve, t(reserved ? "reserved" : "reserve"));
    const pays = order?.status === "pending_payment", has = ["paid", "completed", "refunding", "refund_failed"].includes(order?.status);
    const stopped = !busy && !pays && !has && order?.status !== "queued" && ["paused", "sold_out"].includes(status);
    p.buy.hidden = reserving && !reserved;
    p.buy.disabled = busy || has || stopped || order?.status === "queued" || (over && !pays) || (reservation_opens_at && reserved === false);
    set(p.buy, t(pays ? "pay" : has ? "bought" : stopped ? `status_${status}` : busy && early ? "ready" : order?.status === "queued" ? "queued" : order ? "buyAgain" : "buy"));
    p.cancel.hidden = !pays;
    p.cancel.disabled = busy;
    const note = pays && order.pay_deadline ? `${t("payWithin")} ${countdown(until(order.pay_deadline))}` : order || over ? "" : ["sold_out", "all_held", "preparing"].includes(status) ? t(`note_${status}`)
      : reservation_opens_at && !reserving && !reserved ? t("note_reservedOnly") : reserved && early ? t("note_reserved") : "";
    p.note.hidden = !note;
    const { goods, freight, discount, total: due } = order?.lines ?? {};
    p.sum.hidden = !freight?.amount && !discount?.amount;
    if (!p.sum.hidden) set(p.sum, [money(goods), freight.amount && `+ ${t("freight")} ${money(freight)}`, discount.amount && `− ${t("discount")} ${money(discount)}`, `= ${money(due)}`].filter(Boolean).join(" "));
    set(p.note, note);
    this.dataset.order = order?.status ?? "";
    this.dataset.pushed = this.#buyer.pushed ?? "";
    this.dataset.reserved = String(Boolean(reserved));
  }
}
customElements.define("sale-card", SaleCard);
