// SaleCard shows one item and takes the shopper through it with one button. Every part
// has its place from the beginning, filled or not, so that nothing moves when the state
// changes.
import { ask, copyButton, el, picture, short } from "./dom.js";
import { changes, lost, mayAct, who } from "./api.js";
import { recall } from "./attempt.js";
import { Buyer } from "./buyer.js";
import { ready, serverNow } from "./clock.js";
import { clockOf, hint, nextStep, parts } from "./step.js";
import { count, money, opening, t } from "./words.js";

const reading = 10_000; // ms that a visitor has for what was said last
const often = 200; // ms between two looks at the clock
const awakeBefore = 120_000; // ms before the opening from which the screen stays on
const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };
// shows keeps the place of what it hides.
const shows = (node, on) => { node.style.visibility = on ? "" : "hidden"; };

// deliveryOf is how an item reaches the shopper and what that costs.
function deliveryOf({ delivery: { ways, freight, free_from: from } = { ways: [] } }) {
  const ship = from ? t("shipFrom", { freight: money(freight), from: money(from) }) : freight ? t("ship", { freight: money(freight) }) : t("noFreight");
  return [ways.includes("delivery") && ship, ways.includes("pickup") && t("way_pickup")];
}

// A card leads elsewhere by the ways of the page around it:
//
//   login(what)      asks for a login, and returns whether there is one then. A page that has to
//                    leave for it gives what was pressed to goOn() of its next card: {item, does, quantity}
//   see(no)          shows an order; browse() shows other items. Without them the button is grey.
//   pay(url)         opens a provider's page
//   target           of a link to such a page; may be missing
//   tells(of, what)  hears of a grant, a refusal and a payment; may be missing
export class SaleCard extends HTMLElement {
  #ways; #item; #buyer; #timer; #parts; #no; #news; #title; #waits = false; #reservedBy; #readUntil = 0; #said; #known = false; #lock;
  #login = () => this.#begin(); // another shopper, another way through

  set ways(ways) { this.#ways = ways; } // before the first show

  connectedCallback() {
    this.classList.add("card", "sale");
    changes.addEventListener("login", this.#login);
    ready.then(() => { this.#known = true; this.#tick(); });
  }

  disconnectedCallback() {
    clearTimeout(this.#timer);
    changes.removeEventListener("login", this.#login);
    this.#buyer?.leave();
    this.#lock?.release();
    this.#untell();
  }

  get shown() { return this.#item; }
  get order() { return this.#buyer?.order; }

  // show takes what the server says of the item, and the number of the order to show
  // with it, if that is known. Another item begins anew, but not while the visitor is
  // in the middle of this one, nor before the end could be read.
  show(item, no) {
    const other = item.id !== this.#item?.id;
    if (this.#item && other && (this.#buyer.busy || this.#buyer.sending || ["queued", "pending_payment"].includes(this.order?.status) || performance.now() < this.#readUntil)) return;
    const back = !other && this.#item.status === "all_held" && item.status === "on_sale";
    this.#item = item;
    if (item.status !== "on_sale" || other) this.#untell();
    if (!other) {
      this.#buyer.item = item;
      if (back) this.#tell();
      return this.#tick();
    }
    this.#no = no;
    this.#build(item);
    this.#begin();
  }

  #build(item) {
    const code = el("code");
    const box = () => el("b", {}, "--");
    const p = (this.#parts = {
      code, of: el("span"), number: el("div", { className: "ticket", id: "number" }),
      phase: el("span", { id: "phase" }), days: el("span"), h: box(), m: box(), s: box(),
      left: el("span", { id: "left" }), taken: el("span", { id: "taken" }), bar: el("i"),
      said: el("p", { id: "said", attrs: { role: "status" } }),
      sum: el("p", { className: "dim", id: "sum" }),
      arm: el("input", { type: "checkbox", id: "arm", role: "switch" }), tell: el("input", { type: "checkbox", id: "tell", role: "switch" }), quantity: el("output", {}, "1"),
      buy: el("button", { id: "buy", disabled: true }), cancel: el("button", { id: "cancel", className: "link" }, t("cancel")),
    });
    p.buy.onclick = () => this.#press();
    p.cancel.onclick = () => this.#cancel();
    p.arm.onchange = () => this.#arm(p.arm.checked);
    p.armed = el("label", { className: "switch" }, p.arm, t("arm"));
    // Browsers let a page ask for notifications only after a press.
    p.tell.onchange = () => p.tell.checked && window.Notification?.requestPermission();
    p.told = el("label", { className: "switch" }, p.tell, t("tell"));
    p.number.append(p.of, code, copyButton(code), p.cancel);
    const step = (by, key) => el("button", { className: "second small", onclick: () => this.#count(by), attrs: { "aria-label": t(key) } }, by > 0 ? "+" : "−");
    const limit = item.limit_per_user ?? 1;
    const facts = [
      item.opens_at && t("opensOn", { at: opening(item.opens_at) }),
      item.limit_per_user && t("limit", { n: count(limit) }), ...deliveryOf(item),
      item.payment_window_seconds && t("window", { n: count(Math.round(item.payment_window_seconds / 60) || 1) }),
    ];
    p.quantities = el("div", { className: "row quantity" }, el("span", { className: "dim grow" }, t("quantity")), step(-1, "fewer"), p.quantity, step(1, "more_units"));
    p.countdown = el("div", { className: "countdown", id: "countdown", attrs: { role: "timer" } }, p.days, p.h, ":", p.m, ":", p.s);
    this.replaceChildren(
      el("div", { className: "picture" }, picture(item.image_url, { className: "product", alt: item.title })),
      el("div", { className: "band" },
        el("div", { className: "price", id: "price" }, money(item.sale_price), ...(item.list_price ? [el("s", {}, money(item.list_price))] : [])),
        el("div", { className: "when" }, p.phase, p.countdown),
        el("div", { className: "taken" }, el("div", { className: "meter" }, p.bar), p.taken, p.left)),
      el("div", { className: "about" }, el("h2", {}, item.title), ...(item.spec ? [el("div", { className: "dim" }, item.spec)] : []),
        el("ul", { className: "facts" }, ...facts.filter(Boolean).map((text) => el("li", {}, text)))),
      el("div", { className: "stage" }, p.said, el("div", { className: "slot" }, p.armed, p.told, p.number), p.sum, ...(limit > 1 ? [p.quantities] : [])),
      el("div", { className: "action" }, p.buy));
  }

  #begin() {
    if (!this.#item) return;
    const quantity = this.#buyer?.quantity ?? 1;
    this.#buyer?.leave();
    this.#buyer = new Buyer(this.#item, { changed: () => this.#tick(), returned: () => this.#returned(), pays: this.#ways.pay, tells: (of, what) => this.#ways.tells?.(of, what) }, this.#no);
    this.#buyer.quantity = quantity;
    this.#tick();
  }

  // #returned lights the button again before the next poll says so.
  #returned() {
    if (this.#item.status === "all_held") return this.show({ ...this.#item, status: "on_sale" });
    if (this.#buyer.attempt?.refused) this.#tell();
    this.#tick();
  }

  // #tell says that units are back, and also to a shopper who looks elsewhere and asked for it.
  #tell() {
    this.#news = { text: t("step_returned"), kind: "done" };
    if (!this.#parts.tell.checked) return;
    this.#parts.tell.checked = false;
    navigator.vibrate?.(200);
    this.#title ??= document.title;
    document.title = t("step_returned");
    try {
      if (window.Notification?.permission === "granted") new Notification(this.#item.title, { body: t("step_returned") });
    } catch {
      // Phones show notifications of service workers only; title and button say it there.
    }
  }

  // #untell takes the news back, and gives the tab its own title again if it has another.
  #untell() {
    if (this.#title !== undefined) document.title = this.#title;
    this.#title = this.#news = undefined;
  }

  // #loggedIn asks for a login where one is needed; the buyer is another one afterwards.
  async #loggedIn(does) { return mayAct() || this.#ways.login({ item: this.#item.id, does, quantity: this.#buyer.quantity }); }

  // goOn does what the shopper pressed before leaving for a login: it reserves, or arms before
  // the opening. What buys at once waits for another press: minutes may have passed.
  async goOn({ item, does, quantity }) {
    await ready;
    if (item !== this.#item.id || !mayAct()) return;
    const step = this.#step(serverNow());
    this.#waits = true;
    if (this.#buyer.settled || recall(who(), item, serverNow())) return; // it was begun earlier, and is taken up
    this.#buyer.quantity = quantity;
    if (does === "reserve" && step.does === does) this.#buyer.reserve();
    if (does === "arm" && step.early) this.#buyer.arm();
    this.#tick();
  }

  async #press() {
    const { does } = this.#step(serverNow());
    if (does === "login") return this.#ways.login();
    if (does === "browse") return this.#ways.browse();
    if (!does || !(await this.#loggedIn(does))) return undefined;
    this.#untell();
    if (does === "see") this.#ways.see(this.order.order_no);
    else await this.#buyer[does]();
  }

  async #arm(on) {
    if (on && !(await this.#loggedIn("arm"))) this.#tick();
    else if (on) this.#buyer.arm();
    else this.#buyer.disarm();
  }

  #count(by) {
    if (this.#buyer.settled) return;
    this.#buyer.quantity = Math.min(this.#item.limit_per_user, Math.max(1, this.#buyer.quantity + by));
    this.#tick();
  }

  async #cancel() {
    const { answered } = ask(t("cancelAsk"), el("p", {}, t("cancelWarn")),
      el("form", { method: "dialog", className: "row end" }, el("button", { className: "second", value: "cancel", id: "cancelYes" }, t("cancel")), el("button", { value: "", autofocus: true }, t("cancelNo"))));
    if ((await answered) === "cancel" && this.order?.status === "pending_payment") this.#buyer.cancel();
  }

  // #step is the shopper's next one: to log in again where the page has no token any more.
  #step(now) {
    const step = nextStep(this.#item, this.#buyer, now, this.#no);
    return lost() ? { ...step, text: t("login"), does: "login" } : step;
  }

  #tick() {
    clearTimeout(this.#timer);
    if (!this.#item || !this.isConnected) return;
    const now = serverNow();
    if (this.#known) this.#draw(now);
    // All buttons light at the same instant.
    const opens = Date.parse(this.#item.opens_at) - now;
    this.#timer = setTimeout(() => this.#tick(), opens > 0 && opens < often ? opens + 1 : often);
  }

  #draw(now) {
    const item = this.#item, p = this.#parts, b = this.#buyer, { order } = b;
    const news = order || b.sending ? undefined : this.#news;
    const clock = clockOf(item, b, now), step = this.#step(now), time = parts(clock.left);
    set(p.phase, t(clock.label));
    set(p.days, time.d ? `${time.d} ${t("days")} ` : "");
    for (const key of ["h", "m", "s"]) set(p[key], time[key]);
    this.#drawUnits(item, p);
    this.#enable(p.buy, step.does && !b.busy && (!["see", "browse"].includes(step.does) || this.#ways[step.does]));
    set(p.buy, step.text);
    p.arm.checked = b.armed;
    shows(p.armed, step.early);
    shows(p.told, !b.number && !step.early && item.status === "all_held");
    this.#drawSaid(lost() ? { text: t("loginEnded"), kind: "bad" } : news ?? b.said ?? { text: hint(item, b, now, mayAct()), kind: "" });
    const pays = order?.status === "pending_payment";
    set(p.of, t(b.number && order && order.status !== "queued" ? "orderNumber" : "queueNumber"));
    p.code.dataset.whole = b.number ?? "";
    set(p.code, b.number ? short(b.number) : "");
    shows(p.number, b.number);
    shows(p.cancel, b.number && pays);
    p.cancel.disabled = b.busy;
    set(p.quantity, String(b.quantity));
    shows(p.quantities, b.armed || !b.settled); // a shopper who waits for the opening sees it
    const { goods, freight, discount, total } = order?.lines ?? {};
    const extra = pays && (freight?.amount || discount?.amount);
    shows(p.sum, extra);
    if (extra) set(p.sum, [money(goods), freight.amount && `+ ${t("freight")} ${money(freight)}`, discount.amount && `− ${t("discount")} ${money(discount)}`, `= ${money(total)}`].filter(Boolean).join(" "));
    Object.assign(this.dataset, { order: order?.status ?? "", pushed: b.pushed ?? "", reserved: String(Boolean(b.reserved)), armed: String(b.armed), clock: clock.label });
    const left = Date.parse(item.opens_at) - now;
    this.#stayAwake(b.sending || (left > 0 && left < (b.armed ? Infinity : awakeBefore)));
  }

  // reservedBy takes how many shoppers have reserved the item.
  reservedBy(shoppers) {
    this.#reservedBy = shoppers;
    this.#tick();
  }

  // #enable gives the focus back to the button that lost it by going grey.
  #enable(button, on) {
    if (!on && this.getRootNode().activeElement === button) this.#waits = true;
    button.disabled = !on;
    if (!on || !this.#waits) return;
    this.#waits = false;
    if (document.activeElement === document.body) button.focus({ preventScroll: true });
  }

  #drawUnits({ total, remaining, status }, p) {
    if (status === "upcoming") { // nothing is taken before the opening
      const by = Math.max(this.#reservedBy ?? 0, this.#buyer.reserved ? 1 : 0); // the count may be a minute old
      set(p.taken, by > 0 ? t("reservedBy", { n: count(by) }) : "");
      p.bar.style.width = 0;
      return set(p.left, total == null ? t("unlimited") : t("units", { n: count(total) }));
    }
    const known = total != null && remaining != null;
    const taken = known ? Math.floor((100 * (total - remaining)) / Math.max(1, total)) : 0;
    set(p.taken, known ? t("taken", { n: count(taken) }) : "");
    p.bar.style.width = `${taken}%`;
    if (total === undefined) return set(p.left, ""); // see standIn of order.js
    if (total === null) return set(p.left, t("unlimited"));
    return set(p.left, remaining == null ? t("units", { n: count(total) }) : t("unitsLeft", { n: count(remaining), total: count(total) }));
  }

  #drawSaid({ text, kind, link }) {
    const p = this.#parts, now = `${kind} ${text} ${link ?? ""}`;
    if (now === this.#said) return;
    this.#said = now;
    p.said.className = kind;
    p.said.replaceChildren(link ? el("a", { href: link, target: this.#ways.target ?? "" }, text) : text);
    if (kind) this.#readUntil = performance.now() + reading;
  }

  // #stayAwake keeps the screen of a waiting phone on, where the browser can.
  async #stayAwake(on) {
    if (!on || document.hidden) {
      if (!on) { this.#lock?.release(); this.#lock = undefined; }
      return;
    }
    if (this.#lock && !this.#lock.released) return;
    const asked = (this.#lock = { released: false, release() {} }); // until there is an answer
    const lock = await navigator.wakeLock?.request("screen").catch(() => {});
    if (this.#lock === asked) this.#lock = lock ?? asked;
    else lock?.release();
  }
}
customElements.define("sale-card", SaleCard);
