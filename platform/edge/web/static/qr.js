// Logging in with a phone: this page shows a QR code and waits until a phone that is
// logged in has confirmed it.
import { el } from "./dom.js";
import { device, keep, problem, send } from "./api.js";
import { explain, t } from "./words.js";

const waitSeconds = 20; // a poll waits for a change, well within what proxies allow

export class QRLogin extends HTMLElement {
  #ended = new AbortController();

  connectedCallback() { this.#begin(); }
  disconnectedCallback() { this.#ended.abort(); }

  // #again offers another code below what happened to this one.
  #again(text) {
    this.replaceChildren(problem(text), el("button", { type: "button", className: "second", onclick: () => this.#begin() }, t("newCode")));
  }

  async #begin() {
    try {
      const asked = await send("POST", "auth/qr", { body: { device: device() } });
      const text = el("p", { className: "dim", attrs: { role: "status" } }, t("scan"));
      this.replaceChildren(el("img", { src: asked.image, width: 256, height: 256, alt: t("qrCode"), className: "code" }), text);
      this.dataset.url = asked.url;
      await this.#poll(asked, text);
    } catch (e) {
      if (e.name !== "AbortError") this.#again(explain(e));
    }
  }

  async #poll(asked, text) {
    for (let knows = "pending"; ;) {
      const now = await send("GET", `auth/qr/${asked.qr_id}?wait=${waitSeconds}&knows=${knows}`, {
        headers: { "QR-Secret": asked.poll_secret }, signal: this.#ended.signal,
      });
      switch (now.status) {
        case "confirmed":
          return keep(now.tokens);
        case "scanned":
          text.replaceChildren(t("scanned"), el("strong", { className: "number" }, String(now.number)));
          this.firstChild.classList.add("taken");
          knows = "scanned";
          break;
        case "pending":
          break;
        default:
          return this.#again(t(`qr_${now.status}`));
      }
    }
  }
}
customElements.define("qr-login", QRLogin);
