// Follower keeps the truth about one order number. The state comes from pushes; polling
// continues beside them and must agree. It reports to `hears`:
//
//   changed()            the order has changed
//   missing(no)          the number is not in line
//   surplus(reason)      money came that the order does not need
//   returned()           units of the item came back
import { at, bearer, call } from "./api.js";
import { sleep } from "./clock.js";

const unpaidEvery = 3000; // ms between two polls of an order that waits for its payment
const refundingEvery = 5000;

export class Follower {
  order; // as the server last showed it; at first {order_no, status: "queued"}, with asked if the number may not be in line
  pushed; // the last status from a push
  #item; #hears; #round = 0; #socket; #streams = false; #last; #retry = 0; #gone = false;

  constructor(item, hears) {
    this.#item = item;
    this.#hears = hears;
  }

  // leave ends the work in the background.
  leave() {
    this.#gone = true;
    this.#round++;
    this.#socket?.close();
  }

  // forget stops following; pushes about returned units still come.
  forget() {
    this.#round++;
    this.order = undefined;
  }

  // follow begins with a number, or with an order that the server has just shown.
  follow(order, after = 0) {
    this.order = order.status ? order : { ...order, status: "queued" };
    this.listen();
    this.#poll(this.order.order_no, after);
    this.#hears.changed();
  }

  async #poll(no, after) {
    const round = ++this.#round, ended = () => this.#gone || round !== this.#round;
    await sleep(after);
    for (let failed = 0; !ended();) {
      let next;
      try {
        const o = await call("GET", `orders/${no}`);
        if (ended()) return;
        failed = 0;
        this.#heard(o);
        next = { queued: o.poll_after_ms ?? 500, pending_payment: unpaidEvery, refunding: refundingEvery }[o.status];
        if (!next) return;
      } catch (e) {
        if (ended()) return;
        if (e.code === "not-entered" || e.code === "not-found") return this.#hears.missing(no);
        next = Math.min(8000, 500 * 2 ** failed++) * (1 + Math.random());
      }
      await sleep(next);
    }
  }

  #heard(o) {
    const known = this.order;
    if (o.order_no !== known?.order_no || (known.status !== "queued" && o.status === "queued")) return;
    // A push has overtaken this older answer.
    if (known.version && o.version && o.version < known.version) return;
    this.order = o;
    this.#hears.changed();
  }

  // replace takes an order that was changed on this page.
  replace(order) { this.#heard(order); }

  // listen follows pushes, and goes on when they are cut off: by a socket, or where a
  // network lets none open, by a stream of events.
  async listen() {
    if (this.#gone || this.#socket) return;
    this.#socket = { close() {} }; // an attempt is in progress
    const token = await bearer().catch(() => undefined);
    if (token && !this.#gone) await (this.#streams ? this.#stream(token) : this.#open(token)).catch(() => { this.#streams = !this.#streams; });
    if (this.#gone) return;
    await sleep(Math.min(30_000, 1000 * 2 ** this.#retry++) * (1 + Math.random()));
    this.#socket = undefined;
    this.listen();
  }

  // #open settles when a socket is closed; it fails if that never opened. A browser cannot
  // set a header on it, so the token travels as a subprotocol. A server that is full opens a
  // socket and closes it without a message.
  #open(token) {
    const url = at("/api/v1/ws");
    url.protocol = url.protocol.replace("http", "ws");
    return new Promise((closed, fails) => {
      const socket = (this.#socket = new WebSocket(url, ["stampede.v1", `bearer.${token}`]));
      socket.onopen = () => { socket.onclose = closed; };
      socket.onclose = fails;
      socket.onmessage = (e) => { this.#retry = 0; this.#told(JSON.parse(e.data)); };
    });
  }

  // #stream settles when the stream has ended; it fails if that never began.
  async #stream(token) {
    const leaves = new AbortController(), headers = { Authorization: `Bearer ${token}`, ...(this.#last && { "Last-Event-ID": this.#last }) };
    this.#socket = { close: () => leaves.abort() };
    const answer = await fetch(at("/api/v1/sse"), { headers, signal: leaves.signal });
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    this.#retry = 0;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ;) {
      const { done, value } = await reader.read().catch(() => ({ done: true }));
      if (done) return;
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) {
        const { id, data, event: name } = Object.fromEntries(event.split("\n").map((line) => line.split(/: (.*)/s)));
        this.#last = id ?? this.#last;
        if (data && !name) this.#told(JSON.parse(data));
      }
    }
  }

  #told(m) {
    if (m.type === "returned" && m.items.includes(this.#item)) this.#hears.returned();
    if (m.type === "surplus" && m.order_no === this.order?.order_no) this.#hears.surplus(m.reason);
    if (m.type !== "order" || m.order.order_no !== this.order?.order_no) return;
    this.pushed = m.order.status;
    this.#heard(m.order);
  }
}
