// Logging in with a phone: this page shows a QR code and waits until a phone that is
// logged in has confirmed it.
import { el } from "./dom.js";
import { device, keep, passing, problem, send } from "./api.js";
import { sleep } from "./clock.js";
import { explain, t } from "./words.js";

const pollEvery = 1000; // ms; poll_after_ms says the same

export class QRLogin extends HTMLElement {
  connectedCallback() { this.#begin(); }

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
      this.#again(explain(e));
    }
  }

  async #poll(asked, text) {
    for (; this.isConnected; await sleep(pollEvery)) {
      let now;
      try {
        now = await send("GET", `auth/qr/${asked.qr_id}`, { headers: { "QR-Secret": asked.poll_secret } });
      } catch (e) {
        if (passing(e)) continue; // the code itself expires
        throw e;
      }
      switch (now.status) {
        case "confirmed":
          return keep(now.tokens);
        case "scanned":
          if (this.firstChild.classList.contains("taken")) break; // it was read out to the user
          text.replaceChildren(t("scanned"), el("strong", { className: "number" }, String(now.number)));
          this.firstChild.classList.add("taken");
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
