// Buyer takes one shopper through one item: reservation, human check, path, rush,
// queue, order, payment. It does not touch the page; it calls changed() when what it
// shows has changed, returned() when units of the item came back, pays(url) to open a
// provider's page, and tells(of, what) about "granted", "refused" and "paid".
//
// An attempt survives its page: see attempt.js. It is sent again until it has an answer
// or its path has expired; then GET /api/v1/orders/{no} decides.
import { bearer, call, later, passing, send, unanswered, who } from "./api.js";
import { alone, forget, keepAttempt, recall, slot } from "./attempt.js";
import { ready, serverNow, sleep, until } from "./clock.js";
import { firstChallenge, withProof } from "./door.js";
import { Follower } from "./follow.js";
import { count, explain, t } from "./words.js";

const pathsFrom = 120_000; // ms before the opening that paths are issued from
const spread = 30_000; // ms over which shoppers who armed earlier spread the requests for their paths
const coolDown = 5000; // ms after a press in which the button stays grey
const mostTries = 6; // to get a path after the opening
const ended = ["refused", "closed", "refunded"]; // the item may be bought again
const inLine = "wait-your-turn";
const sendAgain = ["all-held", "not-enough"]; // the shopper may send the same path again

// backoff is how long to wait before trying again, in ms.
// A shopper in line comes back when the server says: the place is kept.
const backoff = (e, failed) => e.code === inLine ? 1000 * e.retryAfter * (0.9 + Math.random() / 5) : Math.max(1000 * (e.retryAfter ?? 0), Math.min(8000, 300 * 2 ** failed)) * (1 + Math.random() / 2);

export class Buyer {
  quantity = 1;
  reserved; // true or false once it is known
  busy = false; // with a reservation, a payment or a cancellation
  said; // the last words for the shopper: {text, kind, link}; kind is wait, done or bad
  coolUntil = 0; // server time until which the button stays grey
  #item; #attempt; #follower; #hears; #round = 0; #gone = false;
  #dialog; // of the payment
  #told; // the state of the order that was said last
  #toldOf; // the number whose grant was told

  constructor(item, hears, no) {
    this.#item = item;
    this.#hears = hears;
    this.#follower = new Follower(item.id, {
      changed: () => this.#followed(), missing: (number) => this.#missing(number), returned: () => this.#returned(),
      surplus: (reason) => this.#say(t(`surplus_${reason}`), "wait"),
    });
    addEventListener("storage", this.#stored);
    queueMicrotask(() => this.#resume(no)); // once its maker has it
  }

  #stored = (e) => e.key === slot(who(), this.item.id) && this.#elsewhere();

  // #elsewhere follows what another tab did to the attempt: one that was armed or begun
  // there is taken up here, one that was disarmed there ends here.
  #elsewhere() {
    const kept = recall(who(), this.item.id, serverNow());
    if (!kept && this.armed) {
      this.#round++;
      this.#attempt = this.said = undefined;
      this.#hears.changed();
    } else if (kept && !this.#attempt && !(this.order && !ended.includes(this.order.status))) {
      this.#follower.forget();
      this.#resume();
    }
  }

  // item is as the server last showed it. An armed attempt follows an opening that is moved.
  get item() { return this.#item; }
  set item(item) {
    this.#item = item;
    const opens = Date.parse(item.opens_at);
    if (!this.armed || this.#attempt.path || this.#attempt.opens === opens) return;
    this.#save({ opens });
    this.#run();
  }

  get order() { return this.#follower.order; }
  get pushed() { return this.#follower.pushed; }
  get attempt() { return this.#attempt; }
  get armed() { return Boolean(this.#attempt && !this.#attempt.sent && !this.#attempt.manual); }
  // sending: the attempt is under way and its answer is not there yet.
  get sending() {
    const a = this.#attempt;
    return Boolean(a && !a.refused && !this.order && (a.manual || a.sent || serverNow() >= a.opens));
  }

  // settled says that there is a grant or an order, or that one is asked for: its quantity stays.
  get settled() { return this.order ? !ended.includes(this.order.status) : Boolean(this.#attempt && !this.#attempt.refused); }

  // number is what the shopper can quote to the shop; a lost attempt leaves none.
  get number() {
    if (this.order) return ended.includes(this.order.status) ? undefined : this.order.order_no;
    return this.#attempt?.sent && !this.#attempt.refused ? this.#attempt.no : undefined;
  }

  // leave ends the work in the background; what is remembered stays.
  leave() {
    this.#gone = true;
    this.#round++;
    removeEventListener("storage", this.#stored);
    this.#dialog?.close();
    this.#follower.leave();
  }

  // #resume restores the shopper's place after a reload, here or in another tab. no is
  // the number to show, where the address names one.
  async #resume(no) {
    if (!who()) return;
    if (this.item.reservation_opens_at) {
      call("GET", `items/${this.item.id}/reservation`).then(() => true, (e) => (e.status === 404 ? false : undefined))
        .then((reserved) => { this.reserved = reserved; this.#hears.changed(); });
    }
    await ready;
    if (this.#gone || this.#attempt || this.order) return;
    const kept = recall(who(), this.item.id, serverNow());
    if (kept) {
      this.#attempt = kept;
      this.quantity = kept.quantity;
      this.#hears.changed();
      if (kept.queued) return this.#follower.follow({ order_no: kept.no });
      if (kept.refused) return this.#follower.listen();
      return this.#run();
    }
    if (recall(who(), this.item.id, 0)) { // armed, but the page was closed until it was too late
      forget(who(), this.item.id);
      this.#say(t("said_missed"), "bad");
    }
    const o = no ? { order_no: no } : await this.#bought();
    if (o && !this.order && !this.#attempt && !this.#gone) this.#follower.follow(o);
  }

  // #bought is the user's newest order of the item that is open or paid. Before the
  // opening there is none, so the waiting crowd sends no request for it.
  async #bought() {
    while (!this.#gone && serverNow() >= Date.parse(this.item.opens_at)) {
      try {
        const { data } = await call("GET", "orders?limit=100");
        return data.find((o) => o.item_id === this.item.id && !ended.includes(o.status));
      } catch (e) {
        if (!passing(e)) return undefined;
        await sleep(backoff(e, 3));
      }
    }
    return undefined;
  }

  #say(text, kind, link) {
    this.said = { text, kind, link };
    this.#hears.changed();
  }

  #save(more) {
    this.#attempt = { ...this.#attempt, ...more };
    keepAttempt(who(), this.item.id, this.#attempt);
    this.#hears.changed();
  }

  #drop() {
    this.#round++;
    this.#attempt = undefined;
    if (who()) forget(who(), this.item.id);
  }

  // #act runs one thing at a time.
  async #act(work) {
    if (this.busy) return;
    this.busy = true;
    this.#hears.changed();
    try {
      await work();
    } catch (e) {
      this.#say(explain(e), "bad");
    } finally {
      this.busy = false;
      this.#hears.changed();
    }
  }

  #proved(purpose, work) {
    const opens = purpose === "rush" ? Date.parse(this.item.opens_at) : Infinity;
    return withProof(work, { first: firstChallenge(this.item, purpose), opens, say: (text) => this.#say(text, "wait") });
  }

  reserve() {
    return this.#act(async () => {
      await this.#proved("reservation", (proof) => call("POST", `items/${this.item.id}/reservation`, { proof }));
      this.reserved = true;
      this.#say(t("step_reserved"), "done");
    });
  }

  // arm makes the page send at the opening by itself.
  arm() { return this.#begin({ opens: Date.parse(this.item.opens_at), quantity: this.quantity }); }

  disarm() {
    if (!this.armed) return;
    this.#drop();
    this.said = undefined;
    this.#hears.changed();
  }

  // buy makes an attempt, or sends the last one's path again while it lasts: never two.
  buy() {
    const now = serverNow(), a = this.#attempt;
    if (this.sending || now < this.coolUntil || (this.order && !ended.includes(this.order.status))) return undefined;
    this.coolUntil = now + coolDown;
    this.#follower.forget();
    const again = a?.refused && now < a.until && a.quantity === this.quantity;
    return this.#begin(again ? { ...a, refused: undefined } : { opens: now, quantity: this.quantity, manual: true });
  }

  async #begin(attempt) {
    this.#attempt = attempt;
    this.said = undefined;
    this.#hears.changed();
    try {
      await bearer(); // a guest has an id from here on
      if (this.#gone) return;
      this.#save({});
      await this.#run();
    } catch (e) {
      this.#refuse(e);
    }
  }

  // #run takes the attempt from where it is to an answer.
  async #run() {
    const round = ++this.#round, stale = () => this.#gone || round !== this.#round;
    this.#follower.listen();
    try {
      if (!this.#attempt.path) await this.#fetchPath(stale);
      if (stale()) return;
      await until(this.#attempt.from);
      if (stale()) return;
      if (recall(who(), this.item.id, serverNow())?.no === this.#attempt.no) await this.#send(stale);
      else this.#elsewhere(); // it was disarmed in another tab
    } catch (e) {
      if (!stale()) this.#refuse(e);
    }
  }

  async #fetchPath(stale) {
    const { opens, manual, quantity } = this.#attempt, user = who(), id = this.item.id;
    const from = opens - pathsFrom - serverNow();
    if (from > 0) await until(serverNow() + from + Math.random() * spread);
    const issue = async () => {
      const other = recall(user, id, serverNow()); // of another tab
      if (other?.path && !other.refused) return other;
      const p = await this.#proved("rush", (proof) => call("POST", `items/${id}/rush-path`, { proof, body: { quantity } }));
      return { no: p.order_no, path: p.rush_url, from: Date.parse(p.usable_from), until: Date.parse(p.expires_at) };
    };
    for (let failed = 0; !stale(); failed++) {
      try {
        const path = await alone(user, id, issue);
        if (!stale()) this.#save(path);
        if (!stale() && this.armed) this.said = undefined;
        return;
      } catch (e) {
        if (stale() || !passing(e) || (manual ? failed >= mostTries : serverNow() > opens + pathsFrom)) throw e;
        this.#say(explain(e), "wait");
        await sleep(backoff(e, failed));
      }
    }
  }

  // #send repeats the path until it has an answer: sending it again gives the same answer
  // or a first one, never a second unit.
  async #send(stale) {
    const a = this.#attempt;
    let unclear = Boolean(a.sent); // an earlier sending may have had an effect
    let waits = false; // in line, when it was last sent
    this.coolUntil = Math.max(this.coolUntil, serverNow() + coolDown);
    this.#save({ sent: true });
    for (let failed = 0; !stale() && serverNow() < a.until; failed++) {
      try {
        const ticket = await send("POST", a.path);
        if (stale()) return;
        this.#save({ queued: true });
        this.#granted(a.no);
        return this.#follower.follow({ order_no: a.no, position: ticket.position }, ticket.poll_after_ms ?? 200);
      } catch (e) {
        if (stale()) return;
        if (e.code === "already-bought" && e.doc.order_no) {
          this.#drop();
          this.#follower.follow({ order_no: e.doc.order_no });
          return this.#say(explain(e), "wait");
        }
        if (!passing(e) && unclear) return this.#ask(e);
        if (!passing(e)) throw e;
        unclear ||= unanswered(e) || e.code === "unknown" || e.status === 502 || e.status === 504;
        waits = e.code === inLine;
        this.#say(unanswered(e) ? t("said_repeating") : explain(e), "wait");
        await sleep(backoff(e, failed));
      }
    }
    if (stale()) return undefined;
    if (!waits || unclear) return this.#ask();
    this.#save({ no: undefined, path: undefined, sent: undefined, manual: true }); // the place is the shopper's, not the path's
    return this.#run();
  }

  // #ask finds out by the number what came of an attempt; refusal is what the path said
  // last, which holds for a number that is not in line.
  #ask(refusal) {
    this.#save({ over: refusal ? explain(refusal) : t("said_notEntered") });
    this.#follower.follow({ order_no: this.#attempt.no, asked: true });
  }

  #missing(no) {
    const a = this.#attempt;
    this.#follower.forget();
    if (a?.no === no && !a.over && serverNow() < a.until) { // it can still be sent
      this.#attempt = { ...a, queued: undefined };
      sleep(1000).then(() => this.#attempt?.no === no && this.#run());
    } else {
      if (a?.no === no) this.#drop();
      this.#hears.tells("refused", { code: "not-entered", title: t("said_notEntered") });
      this.#say((a?.no === no && a.over) || t("said_notEntered"), "bad");
    }
  }

  // #granted tells of a number that is in line, once.
  #granted(no) {
    if (this.#toldOf === no) return;
    this.#toldOf = no;
    this.#hears.tells("granted", { order_no: no });
  }

  #refuse(e) {
    if (sendAgain.includes(e.code) && this.#attempt?.path) this.#save({ refused: e.code });
    else this.#drop();
    this.#hears.tells("refused", { code: e.code, title: e.message });
    this.#say(explain(e), "bad");
  }

  #returned() {
    if (this.order && !ended.includes(this.order.status)) return;
    this.#hears.returned();
  }

  #followed() {
    const o = this.order;
    if (!o) return this.#hears.changed();
    if (o.status === "queued") {
      const place = o.position;
      return this.#say(place > 0 ? t("step_line", { n: count(place) }) : t(o.asked ? "said_asking" : "step_next"), "wait");
    }
    if (o.status !== "pending_payment") {
      this.#dialog?.close();
      this.#drop();
    }
    const state = `${o.order_no} ${o.status} ${o.version}`;
    if (state === this.#told) return this.#hears.changed(); // what was said since stays
    this.#told = state;
    if (o.status === "pending_payment") this.#granted(o.order_no); // also one whose ticket was lost
    const news = { paid: "paid", refused: "refused", closed: "refused" }[o.status];
    if (news) this.#hears.tells(news, o);
    this.#say(`${t(`step_${o.handover === "shipped" ? o.handover : o.status}`)}${o.reason ? ` · ${t(`reason_${o.reason}`)}` : ""}`, ended.includes(o.status) ? "bad" : "done");
  }

  cancel() {
    return this.#act(() => call("POST", `orders/${this.order.order_no}/cancel`));
  }

  // pay opens the sheet, then the provider's page in this tab: a window that opens after an answer
  // has arrived is blocked by browsers. The link stays for shoppers who come back.
  pay() {
    return this.#act(async () => {
      const { checkOut, inApp, showCode } = await later("pay.js", () => import("./pay.js")); // only winners need it
      const whole = await call("GET", `orders/${this.order.order_no}/document`);
      const p = await checkOut(whole, (dialog) => { this.#dialog = dialog; }, (order) => this.#follower.replace(order));
      if (!p) return;
      if (p.qr_code) {
        this.#dialog = showCode(p);
      } else if (p.jsapi) {
        inApp(p.jsapi);
      } else if (p.pay_url) {
        this.#say(t("step_pay"), "wait", p.pay_url);
        this.#hears.pays(p.pay_url);
      }
    });
  }
}
