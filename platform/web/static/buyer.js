// Buyer is one shopper's way through one item: reservation, human check, path, rush,
// line, order, payment. It touches no page; what happened goes to `hears`:
//
//   step(text, kind, key)  a line to show: kind is done, wait or bad, a key replaces
//                          the line that was said under it before
//   changed()              order, reserved or busy are others now
//
// What it knows of an order comes from pushes; polling goes on beside them and must
// tell the same.
import { bearer, call, mayAct } from "./api.js";
import { firstChallenge, withProof } from "./door.js";
import { askLogin } from "./login.js";
import { serverNow } from "./clock.js";
import { explain, t } from "./words.js";

const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const pathsFrom = 120_000; // ms before the opening that paths are issued from
const jitter = 1000; // ms that shoppers spread over, who would all ask at that moment
// The same path is one attempt: sending it again after one of these gives the same
// answer or a first one, never a second unit.
const again = ["too-hot", "unknown", "fenced", "not-started", "paused", "unavailable", "draining"];
const sends = 5;

export class Buyer {
  order; busy = false;
  reserved; // true or false once it is known
  pushed; // the last status that a push told
  #item; #hears; #timer; #socket; #retry = 0; #gone = false;

  constructor(item, hears) {
    this.#item = item;
    this.#hears = hears;
    this.#resume();
  }

  get #key() { return `stampede-attempt-${this.#item.id}`; }

  // leave ends what goes on in the background.
  leave() {
    this.#gone = true;
    clearTimeout(this.#timer);
    this.#socket?.close();
  }

  // #resume finds out what there is already: a page that is loaded again must not
  // lose anybody's place.
  async #resume() {
    if (!mayAct()) return;
    const no = sessionStorage.getItem(this.#key);
    if (no) {
      this.order = { order_no: no, status: "queued" };
      this.#listen();
      this.#poll(no, 0);
    }
    if (this.#item.reservation_opens_at) {
      this.reserved = await call("GET", `items/${this.#item.id}/reservation`).then(() => true, (e) => (e.status === 404 ? false : undefined));
      this.#hears.changed();
    }
  }

  // #act runs one thing at a time, for somebody who is logged in or a guest.
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
    return withProof(work, { first: firstChallenge(this.#item, purpose), say: (text) => this.#hears.step(text, "wait", "door") });
  }

  reserve() {
    return this.#act(async () => {
      await this.#proved("reservation", (proof) => call("POST", `items/${this.#item.id}/reservation`, { proof }));
      this.reserved = true;
      this.#hears.step(t("step_reserved"), "done", "door");
    });
  }

  buy() {
    return this.#act(async () => {
      this.order = undefined;
      this.#listen();
      const early = Date.parse(this.#item.opens_at) - pathsFrom - serverNow();
      if (early > 0) {
        this.#hears.step(t("step_early"), "wait", "door");
        await wait(early + Math.random() * jitter);
      }
      const p = await this.#proved("rush", (proof) => call("POST", `items/${this.#item.id}/rush-path`, { proof, body: { quantity: 1 } }));
      this.#hears.step(t("step_path"), "done", "door");
      const left = Date.parse(p.usable_from) - serverNow();
      if (left > 0) {
        this.#hears.step(t("step_wait"), "wait", "wait");
        await wait(left + 5);
        this.#hears.step(t("step_wait"), "done", "wait");
      }
      sessionStorage.setItem(this.#key, p.order_no); // from here on the number may be in line
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
          this.order = { order_no: e.doc.order_no, status: "queued" };
          this.#poll(e.doc.order_no, 0);
          throw e;
        }
        if (i === sends || !(again.includes(e.code) || e instanceof TypeError)) {
          // Of an unclear end the number tells; any other refusal is final for it.
          if (e.code === "unknown" || e instanceof TypeError) this.#poll(order_no, 1000);
          else sessionStorage.removeItem(this.#key);
          throw e;
        }
        await wait(300 + Math.random() * 700);
      }
    }
  }

  #line(position) { this.#hears.step(`${t("step_line")} ${position}`, "wait", "line"); }

  #poll(no, after) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(async () => {
      try {
        const o = await call("GET", `orders/${no}`);
        this.#heard(o, "via_poll");
        if (o.status === "queued") this.#poll(no, o.poll_after_ms ?? 500);
        else if (o.status === "pending_payment") this.#poll(no, 3000);
      } catch (e) {
        if (e.code !== "not-entered" && e.code !== "not-found") return this.#poll(no, 2000);
        sessionStorage.removeItem(this.#key); // not in line, and never was
        this.order = undefined;
        this.#hears.changed();
      }
    }, after);
  }

  #heard(o, via) {
    if (o.order_no !== this.order?.order_no) return;
    if (o.status === "queued") return this.#line(o.position ?? 0);
    if (this.order.status === o.status) return;
    // An older answer that was overtaken by a push is not news.
    if (this.order.version && o.version && o.version < this.order.version) return;
    const key = this.order.status === "queued" ? "line" : undefined; // its place in line is news no more
    this.order = o;
    const bad = ["refused", "closed", "refunded"].includes(o.status);
    if (bad) sessionStorage.removeItem(this.#key);
    this.#hears.step(`${t(`step_${o.status}`)}${o.reason ? ` · ${t(`reason_${o.reason}`)}` : ""} ${t(via)}`, bad ? "bad" : "done", key);
    this.#hears.changed();
  }

  // #listen opens the socket that pushes come by, and again when it was closed. A
  // browser cannot set a header on it, so the token travels as a subprotocol.
  async #listen() {
    if (this.#gone || this.#socket) return;
    this.#socket = { close() {} }; // somebody is at it
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

  pay() {
    return this.#act(async () => {
      const p = await call("POST", `orders/${this.order.order_no}/payments`, { body: {} });
      if (p.pay_url) window.open(p.pay_url, "_blank", "noopener");
    });
  }
}
