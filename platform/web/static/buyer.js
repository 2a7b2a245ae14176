import { t } from "./words.js";

const api = "/api/v1";

// Buyer is the visitor as a shopper: path, rush, line, order, payment. What it
// shows comes from pushes; polling goes on beside them and must tell the same.
export class Buyer {
  #steps; #button; #cancel; #now; #token; #socket; #sale; #order; #busy = false; #timer; #line;

  constructor(steps, button, cancel, now) {
    this.#steps = steps;
    this.#button = button;
    this.#cancel = cancel;
    this.#now = now;
    button.onclick = () => (this.#order?.status === "pending_payment" ? this.#pay() : this.#buy());
    cancel.onclick = () => this.#call("POST", `/orders/${this.#order.order_no}/cancel`).catch((e) => this.#say(e.message, "bad"));
  }

  // offer tells which sale is on; a new one starts a new attempt.
  offer(sale) {
    if (sale && sale.item_id !== this.#sale?.item_id && !this.#busy && this.#order?.status !== "pending_payment") {
      this.#sale = sale;
      this.#order = undefined;
      this.#steps.replaceChildren();
    }
    const open = this.#sale && Date.parse(this.#sale.closes_at) > this.#now();
    this.#button.disabled = this.#busy || !(open || this.#order?.status === "pending_payment") || this.#order?.status === "paid";
    this.#button.textContent = this.#order?.status === "pending_payment" ? t("pay") : this.#order?.status === "paid" ? t("step_paid") : this.#order ? t("buyAgain") : t("buy");
    this.#cancel.hidden = this.#order?.status !== "pending_payment";
  }

  #say(text, kind = "done") {
    const li = Object.assign(document.createElement("li"), { textContent: text, className: kind });
    this.#steps.append(li);
    return li;
  }

  async #call(method, path, body, token = this.#token) {
    const headers = { Authorization: `Bearer ${token}` };
    if (body) headers["Content-Type"] = "application/json";
    const answer = await fetch(api + path, { method, headers, body: body && JSON.stringify(body) });
    const doc = await answer.json();
    if (!answer.ok) throw Object.assign(new Error(doc.title), { code: doc.code, doc });
    return doc;
  }

  async #login() {
    if (this.#token) return;
    const answer = await fetch("/demo/me", { method: "POST" });
    this.#token = (await answer.json()).token;
    this.#listen();
  }

  #listen() {
    const url = new URL(api + "/ws", location.href);
    url.protocol = url.protocol.replace("http", "ws");
    this.#socket = new WebSocket(url, ["stampede.v1", `bearer.${this.#token}`]);
    this.#socket.onmessage = (e) => {
      const m = JSON.parse(e.data);
      if (m.type === "order") this.#heard(m.order, "via_push");
    };
    this.#socket.onclose = () => setTimeout(() => this.#listen(), 1000 + Math.random() * 2000);
  }

  async #buy() {
    this.#busy = true;
    this.#order = undefined;
    this.#line = undefined;
    this.#steps.replaceChildren();
    try {
      await this.#login();
      const wait = (ms) => new Promise((done) => setTimeout(done, ms));
      // Paths are issued from two minutes before the opening; asking at a random
      // moment spreads the shoppers.
      const issued = Date.parse(this.#sale.opens_at) - 120_000;
      if (this.#now() < issued) await wait(issued - this.#now() + Math.random() * 1000);
      const p = await this.#call("POST", `/items/${this.#sale.item_id}/rush-path`, { quantity: 1 });
      this.#say(t("step_path"));
      const usable = Date.parse(p.usable_from);
      if (this.#now() < usable) {
        const li = this.#say(t("step_wait"), "");
        await wait(usable - this.#now() + 5);
        li.className = "done";
      }
      const ticket = await this.#rush(p.path, wait);
      this.#say(t("step_rush"));
      this.#order = { order_no: p.order_no, status: ticket.status ?? "queued" };
      this.#showLine(ticket.position ?? 0);
      this.#poll(p.order_no, ticket.poll_after_ms ?? 200);
    } catch (e) {
      if (e.code === "already-bought" && e.doc.order_no) this.#poll(e.doc.order_no, 0);
      this.#say(`${t("step_refused")}: ${e.message}`, "bad");
    } finally {
      this.#busy = false;
      this.offer(this.#sale);
    }
  }

  // The same path is one attempt: sending it again after "too hot" or an unclear
  // outcome gives the same answer or a first one, never a second unit.
  async #rush(path, wait) {
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#call("POST", `/rush/${path}`);
      } catch (e) {
        if (attempt === 4 || !["too-hot", "unknown", "fenced", "not-started", "paused"].includes(e.code)) throw e;
        await wait(300 + Math.random() * 700);
      }
    }
  }

  #showLine(position) {
    this.#line ??= this.#say("", "");
    this.#line.textContent = `${t("step_line")} ${position}`;
  }

  async #poll(no, after) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(async () => {
      try {
        const o = await this.#call("GET", `/orders/${no}`);
        this.#heard(o, "via_poll");
        if (o.status === "queued") this.#poll(no, o.poll_after_ms ?? 500);
        else if (o.status === "pending_payment") this.#poll(no, 3000);
      } catch {
        this.#poll(no, 2000);
      }
    }, after);
  }

  #heard(o, via) {
    if (this.#order && o.order_no !== this.#order.order_no) return;
    if (o.status === "queued") return this.#showLine(o.position ?? 0);
    if (this.#order?.status === o.status) return;
    // An older answer that was overtaken by a push is not news.
    if (this.#order?.version && o.version && o.version < this.#order.version) return;
    this.#order = o;
    if (this.#line) this.#line.className = "done";
    const step = { pending_payment: "step_order", paid: "step_paid", closed: "step_closed", refused: "step_refused" }[o.status] ?? o.status;
    this.#say(`${t(step)} ${t(via)}`, o.status === "refused" || o.status === "closed" ? "bad" : "done");
    this.offer(this.#sale);
    document.body.dataset.order = o.status;
  }

  async #pay() {
    try {
      const p = await this.#call("POST", `/orders/${this.#order.order_no}/payments`, {});
      window.open(p.pay_url, "_blank", "noopener");
    } catch (e) {
      this.#say(e.message, "bad");
    }
  }
}
