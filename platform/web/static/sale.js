// SaleCard shows one item with its countdown and lets the visitor buy it.
import { el } from "./dom.js";
import { changes } from "./api.js";
import { Buyer } from "./buyer.js";
import { serverNow } from "./clock.js";
import { money, t } from "./words.js";

const reading = 10_000; // ms that a visitor has for what was said last
const two = (n) => String(n).padStart(2, "0");
// countdown writes a time that is left; days only where there are some.
export function countdown(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000)), h = Math.floor(s / 3600);
  const clock = `${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  return h >= 24 ? `${Math.floor(h / 24)} ${t("days")} ${two(h % 24)}:${clock}` : h ? `${two(h)}:${clock}` : clock;
}

export class SaleCard extends HTMLElement {
  #item; #buyer; #lines = {}; #timer; #parts; #readUntil = 0;
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

  // show takes what the server says of the item. Another item begins anew, but not
  // while the visitor is in the middle of this one, nor before the end could be read.
  show(item) {
    const other = item.id !== this.#item?.id;
    if (this.#item && other && (this.#buyer.busy || ["queued", "pending_payment"].includes(this.#buyer.order?.status) || performance.now() < this.#readUntil)) return;
    this.#item = item;
    if (!other) return this.#tick();
    const p = (this.#parts = {
      phase: el("div", { className: "dim", id: "phase" }), clock: el("div", { className: "countdown", id: "countdown", attrs: { role: "timer" } }, "–"),
      reserve: el("button", { id: "reserve", onclick: () => this.#buyer.reserve() }), note: el("p", { className: "dim", id: "note" }),
      buy: el("button", { id: "buy", disabled: true, onclick: () => this.#press() }),
      cancel: el("button", { id: "cancel", className: "second", hidden: true, onclick: () => this.#buyer.cancel() }, t("cancel")),
      steps: el("ol", { className: "steps", id: "steps", attrs: { "aria-live": "polite" } }),
    });
    this.replaceChildren(
      ...(item.image_url ? [el("img", { className: "product", src: item.image_url, alt: "" })] : []),
      el("h2", {}, item.title), ...(item.spec ? [el("div", { className: "dim" }, item.spec)] : []),
      el("div", { className: "price", id: "price" }, money(item.sale_price), el("s", {}, money(item.list_price))),
      el("div", { className: "dim" }, item.total == null ? t("unlimited") : `${item.total.toLocaleString()} ${t("units")}`),
      p.phase, p.clock, p.note, el("div", { className: "row" }, p.reserve, p.buy, p.cancel), p.steps);
    this.#begin();
  }

  #begin() {
    if (!this.#item) return;
    this.#buyer?.leave();
    this.#clear();
    this.#buyer = new Buyer(this.#item, { step: (...line) => this.#step(...line), changed: () => this.#tick() });
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

  #step(text, kind, key) {
    let li = this.#lines[key];
    if (!li) this.#parts.steps.append((li = el("li")));
    if (key) this.#lines[key] = li;
    li.className = kind;
    if (li.textContent !== text) li.textContent = text;
    this.#readUntil = performance.now() + reading;
    this.#tick();
  }

  #tick() {
    if (!this.#item) return;
    const { opens_at, closes_at, reservation_opens_at, reservation_closes_at, status } = this.#item;
    const now = serverNow(), p = this.#parts, { order, busy, reserved } = this.#buyer;
    const until = (at) => Date.parse(at) - now;
    const reserving = Boolean(reservation_opens_at) && until(reservation_closes_at) > 0;
    const early = until(opens_at) > 0, over = until(closes_at) <= 0;
    const [phase, left] = reserving && until(reservation_opens_at) > 0 ? ["reserveOpensIn", until(reservation_opens_at)]
      : reserving && !reserved ? ["reserveClosesIn", until(reservation_closes_at)]
        : early ? ["opensIn", until(opens_at)] : over ? ["over", 0] : [status === "paused" ? "paused" : "onSale", until(closes_at)];
    const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };
    set(p.phase, t(phase));
    set(p.clock, countdown(left));
    p.reserve.hidden = !reserving;
    p.reserve.disabled = busy || reserved || until(reservation_opens_at) > 0;
    set(p.reserve, t(reserved ? "reserved" : "reserve"));
    const pays = order?.status === "pending_payment", has = ["paid", "completed"].includes(order?.status);
    p.buy.hidden = reserving && !reserved;
    p.buy.disabled = busy || has || order?.status === "queued" || (over && !pays) || (reservation_opens_at && reserved === false);
    set(p.buy, t(pays ? "pay" : has ? "step_paid" : busy && early ? "ready" : order?.status === "queued" ? "queued" : order ? "buyAgain" : "buy"));
    p.cancel.hidden = !pays;
    p.cancel.disabled = busy;
    const note = pays && order.pay_deadline ? `${t("payWithin")} ${countdown(until(order.pay_deadline))}` : order || over ? "" : ["sold_out", "all_held", "preparing"].includes(status) ? t(`note_${status}`)
      : reservation_opens_at && !reserving && !reserved ? t("note_reservedOnly") : reserved && early ? t("note_reserved") : "";
    p.note.hidden = !note;
    set(p.note, note);
    this.dataset.order = order?.status ?? "";
    this.dataset.pushed = this.#buyer.pushed ?? "";
    this.dataset.reserved = String(Boolean(reserved));
  }
}
customElements.define("sale-card", SaleCard);
