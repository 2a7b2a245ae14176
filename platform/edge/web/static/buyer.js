// Buyer takes one shopper through one item: reservation, human check, path, rush,
// queue, order, payment. It does not touch the page; it reports to `hears`:
//
//   step(text, kind, key, link)  a line to show: kind is done, wait or bad, a key
//                                replaces the previous line with that key, a link
//                                is the line's target
//   changed()                    number, order, reserved or busy has changed
//
// The state of an order comes from pushes; polling continues beside them and must
// agree.
import { bearer, call, mayAct, who } from "./api.js";
import { firstChallenge, withProof } from "./door.js";
import { askLogin } from "./login.js";
import { ready, serverNow } from "./clock.js";
import { count, explain, t } from "./words.js";

const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const pathsFrom = 120_000; // ms before the opening that paths are issued from
const jitter = 1000; // ms over which shoppers spread requests that would otherwise coincide
// The same path is one attempt: sending it again after one of these gives the same
// answer or a first one, never a second unit.
const again = ["too-hot", "unknown", "fenced", "not-started", "paused", "unavailable", "draining"];
const sends = 5;
const pathLife = 120_000; // ms that a path can be sent for
// numbered is when a number was made, in Unix ms: numbers are UUIDs of version 7.
const numbered = (no) => parseInt(no.slice(0, 12), 16);
const ended = ["refused", "closed", "refunded"]; // the item may be bought again

export class Buyer {
  item; // as the server last showed it
  number; // of the attempt, from its path on; a shopper quotes it to the shop
  order; busy = false;
  reserved; // true or false once it is known
  pushed; // the last status from a push
  #hears; #timer; #socket; #retry = 0; #gone = false;
  #code; // the dialog with the code to scan
  #late = false; // refused because others held every unit

  // no is the number to show, where the address names one.
  constructor(item, hears, no) {
    this.item = item;
    this.#hears = hears;
    queueMicrotask(() => this.#resume(no)); // once its maker has it
  }

  // The attempt is remembered for this user alone: the next one here is another.
  get #key() { return `stampede-attempt-${who()}-${this.item.id}`; }

  // leave ends the work in the background.
  leave() {
    this.#gone = true;
    clearTimeout(this.#timer);
    this.#code?.close();
    this.#socket?.close();
  }

  // #resume restores the shopper's place after a reload, here or in another tab.
  async #resume(no) {
    if (!who()) return;
    if (this.item.reservation_opens_at) {
      call("GET", `items/${this.item.id}/reservation`).then(() => true, (e) => (e.status === 404 ? false : undefined))
        .then((reserved) => { this.reserved = reserved; this.#hears.changed(); });
    }
    no = localStorage.getItem(this.#key) ?? no; // what was tried here since is newer
    const o = no ? { order_no: no, status: "queued" } : await this.#bought();
    if (!o || this.order || this.busy || this.#gone) return;
    this.number = o.order_no;
    this.order = { order_no: o.order_no, status: "queued" };
    this.#listen();
    if (no) this.#poll(no, 0);
    else this.#told(o);
    this.#hears.changed();
  }

  // #bought is the user's newest order of the item that is open or paid. Before the
  // opening there is none, so the waiting crowd sends no request for it.
  async #bought() {
    await ready;
    while (!this.#gone) {
      if (serverNow() < Date.parse(this.item.opens_at)) return undefined;
      try {
        const { data } = await call("GET", "orders?limit=100");
        return data.find((o) => o.item_id === this.item.id && !ended.includes(o.status));
      } catch (e) {
        if (e.status < 500) return undefined;
        await wait(2000 + Math.random() * jitter);
      }
    }
  }

  // #act runs one thing at a time, for a logged-in shopper or a guest.
  async #act(work) {
    if (this.busy || !(mayAct() || (await askLogin()))) return;
    this.busy = true;
    this.#hears.changed();
    try {
      await work();
    } catch (e) {
      this.#hears.step(explain(e), "bad");
    } finally {
      this.busy = false;
      this.#hears.changed();
    }
  }

  #proved(purpose, work) {
    return withProof(work, { first: firstChallenge(this.item, purpose), say: (text) => this.#hears.step(text, "wait", "door") });
  }

  reserve() {
    return this.#act(async () => {
      await this.#proved("reservation", (proof) => call("POST", `items/${this.item.id}/reservation`, { proof }));
      this.reserved = true;
      this.#hears.step(t("step_reserved"), "done", "door");
    });
  }

  buy() {
    return this.#act(async () => {
      this.order = this.number = undefined;
      this.#listen();
      const early = Date.parse(this.item.opens_at) - pathsFrom - serverNow();
      if (early > 0) {
        this.#hears.step(t("step_early"), "wait", "door");
        await wait(early + Math.random() * jitter);
      }
      if (this.#gone) return;
      const p = await this.#proved("rush", (proof) => call("POST", `items/${this.item.id}/rush-path`, { proof, body: { quantity: 1 } }));
      this.number = p.order_no;
      this.#hears.step(t("step_path"), "done", "door");
      const left = Date.parse(p.usable_from) - serverNow();
      if (left > 0) {
        this.#hears.step(t("step_wait"), "wait", "wait");
        await wait(left + 5);
        this.#hears.step(t("step_wait"), "done", "wait");
      }
      if (this.#gone) return;
      localStorage.setItem(this.#key, p.order_no); // from here on the number may be in line
      await this.#rush(p);
    });
  }

  async #rush({ path, order_no }) {
    for (let i = 1; ; i++) {
      try {
        const ticket = await call("POST", `rush/${path}`);
        this.order = { order_no, status: "queued" };
        this.#hears.step(t("step_rush"), "done");
        if ((ticket.status ?? "queued") === "queued") this.#line(ticket.position ?? 0);
        this.#poll(order_no, ticket.poll_after_ms ?? 200);
        return;
      } catch (e) {
        if (e.code === "already-bought" && e.doc.order_no) {
          this.number = e.doc.order_no;
          this.order = { order_no: e.doc.order_no, status: "queued" };
          this.#poll(e.doc.order_no, 0);
          throw e;
        }
        if (i === sends || !(again.includes(e.code) || e instanceof TypeError)) {
          // An unclear outcome is resolved by the number; any other refusal is final for it.
          if (e.code === "unknown" || e instanceof TypeError) this.#poll(order_no, 1000);
          else localStorage.removeItem(this.#key);
          this.#late = e.code === "all-held";
          throw e;
        }
        await wait(300 + Math.random() * 700);
      }
    }
  }

  // #line shows the place in the queue: 1 is the next one to be written, 0 is being written.
  #line(position) { this.#hears.step(position > 0 ? t("step_line", { n: count(position) }) : t("step_next"), "wait", "line"); }

  // #told handles an answer about the order, and polls again while it may change.
  #told(o) {
    this.#heard(o, "via_poll");
    if (o.status === "queued") this.#poll(o.order_no, o.poll_after_ms ?? 500);
    else if (o.status === "pending_payment") this.#poll(o.order_no, 3000);
  }

  #poll(no, after) {
    clearTimeout(this.#timer);
    if (this.#gone) return;
    this.#timer = setTimeout(async () => {
      try {
        this.#told(await call("GET", `orders/${no}`));
      } catch (e) {
        if (e.code !== "not-entered" && e.code !== "not-found") return this.#poll(no, 2000);
        // Not in line. Another tab may be about to send it, until its path has ended.
        if (serverNow() - numbered(no) > pathLife) localStorage.removeItem(this.#key);
        this.order = this.number = undefined;
        this.#hears.changed();
      }
    }, after);
  }

  #heard(o, via) {
    if (o.order_no !== this.order?.order_no) return;
    if (o.status === "queued") return this.#line(o.position ?? 0);
    if (this.order.status === o.status) return;
    // A push has overtaken this older answer.
    if (this.order.version && o.version && o.version < this.order.version) return;
    // The lines with the place in the queue and the pay link are outdated.
    const key = { queued: "line", pending_payment: "pay" }[this.order.status];
    this.order = o;
    this.#code?.close();
    const bad = ended.includes(o.status);
    if (bad) localStorage.removeItem(this.#key);
    this.#hears.step(`${t(`step_${o.status}`)}${o.reason ? ` · ${t(`reason_${o.reason}`)}` : ""}${t(via)}`, bad ? "bad" : "done", key);
    this.#hears.changed();
  }

  // #listen opens the socket for pushes, and reopens it when it was closed. A
  // browser cannot set a header on it, so the token travels as a subprotocol.
  async #listen() {
    if (this.#gone || this.#socket) return;
    this.#socket = { close() {} }; // an attempt is in progress
    const later = () => {
      this.#socket = undefined;
      if (!this.#gone) setTimeout(() => this.#listen(), Math.min(30_000, 1000 * 2 ** this.#retry++) * (1 + Math.random()));
    };
    const token = await bearer().catch(() => undefined);
    if (!token || this.#gone) return later();
    const url = new URL("/api/v1/ws", location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url, ["stampede.v1", `bearer.${token}`]);
    socket.onopen = () => { this.#retry = 0; };
    socket.onmessage = (e) => {
      const m = JSON.parse(e.data);
      if (m.type === "returned" && this.#late && m.items.includes(this.item.id)) {
        this.#late = false;
        this.#hears.step(t("step_returned"), "wait", "door");
      }
      if (m.type === "surplus" && m.order_no === this.order?.order_no) this.#hears.step(t(`surplus_${m.reason}`), "wait", "surplus");
      if (m.type !== "order") return;
      this.#heard(m.order, "via_push");
      this.pushed = m.order.status;
    };
    socket.onclose = later;
    this.#socket = socket;
  }

  cancel() {
    return this.#act(() => call("POST", `orders/${this.order.order_no}/cancel`));
  }

  // pay opens the provider's page in this tab: a window that opens after an answer
  // has arrived is blocked by browsers. The link stays for shoppers who come back.
  pay() {
    return this.#act(async () => {
      const { chooseWay, inApp, settle, showCode } = await import("./pay.js"); // only winners need it
      const no = this.order.order_no;
      let p;
      while (!p) {
        const way = await chooseWay(this.order);
        if (!way || this.order?.status !== "pending_payment") return;
        try {
          p = await call("POST", `orders/${no}/payments`, { body: way });
        } catch (e) {
          const settled = e.code === "details-missing" ? await settle(no) : undefined;
          if (!settled) throw e;
          this.order = settled; // with its freight
          this.#hears.changed();
        }
      }
      if (p.qr_code) {
        this.#code = showCode(p);
      } else if (p.jsapi) {
        inApp(p.jsapi);
      } else if (p.pay_url) {
        this.#hears.step(t("step_pay"), "wait", "pay", p.pay_url);
        location.assign(p.pay_url);
      }
    });
  }
}
