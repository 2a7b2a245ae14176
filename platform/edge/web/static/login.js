// Logging in: by SMS code, password, or with a phone that scans a QR code.
import { el } from "./dom.js";
import { call, changes, device, keep, login, logout, problem, send } from "./api.js";
import { explain, t } from "./words.js";
import { sleep } from "./clock.js";
import { withProof } from "./door.js";

const field = (label, props) => el("label", {}, label, el("input", { required: true, ...props }));
const phone = () => field(t("phone"), { name: "phone", type: "tel", autocomplete: "tel", inputMode: "tel", autofocus: true });

// LoginForm is the form with its ways; `scan` adds the QR code, which makes no sense
// on the phone that scans.
export class LoginForm extends HTMLElement {
  connectedCallback() {
    if (!this.firstChild) this.#show("sms");
  }

  #show(way) {
    const ways = ["sms", "password", ...(this.hasAttribute("scan") ? ["qr"] : [])];
    const tabs = el("div", { className: "tabs" }, ...ways.map((w) =>
      el("button", { type: "button", onclick: () => this.#show(w), attrs: { "aria-pressed": w === way } }, t(`way_${w}`))));
    this.replaceChildren(tabs, way === "qr" ? el("qr-login") : this.#form(way));
    if (way === "qr") import("./qr.js"); // defines the element
    this.querySelector("form input")?.focus(); // autofocus is for a dialog's opening only
  }

  #form(way) {
    const said = el("div", { attrs: { "aria-live": "polite" } });
    const go = el("button", {}, t("login"));
    const form = el("form", {}, phone());
    if (way === "sms") {
      const code = field(t("code"), { name: "code", autocomplete: "one-time-code", inputMode: "numeric", pattern: "[0-9]{6}", maxLength: 6 });
      const ask = el("button", { type: "button", className: "second" }, t("sendCode"));
      ask.onclick = () => this.#try(said, ask, async () => {
        if (!form.phone.reportValidity()) return;
        const { retry_after } = await withProof((proof) => send("POST", "auth/sms-codes", { proof, body: { phone: form.phone.value, purpose: "login", device_id: device().id } }));
        const sandbox = document.body.dataset.sms;
        said.replaceChildren(el("p", { className: "dim" }, t("codeSent"), ...(sandbox ? [" ", el("a", { href: sandbox, target: "_blank" }, t("sandboxSMS"))] : [])));
        form.code.focus();
        return retry_after;
      });
      form.append(el("div", { className: "row bottom" }, code, ask));
    } else {
      form.append(field(t("password"), { name: "password", type: "password", autocomplete: "current-password", maxLength: 128 }));
    }
    form.append(said, el("div", { className: "row end" }, go));
    form.onsubmit = (e) => {
      e.preventDefault();
      const body = { phone: form.phone.value, device: device(), ...(way === "sms" ? { code: form.code.value } : { password: form.password.value }), ...(form.totp && { totp: form.totp.value }) };
      this.#try(said, go, async () => keep(await withProof((proof) => send("POST", way === "sms" ? "auth/login/sms" : "auth/login", { proof, body }))));
    };
    return form;
  }

  // #try does something with its button off, for as many seconds longer as it says.
  async #try(said, button, work) {
    button.disabled = true;
    let pause = 0;
    try {
      pause = (await work()) ?? 0;
    } catch (e) {
      said.replaceChildren(problem(explain(e)));
      if (e.code === "totp-required" && !said.closest("form").totp) {
        said.before(field(t("totp"), { name: "totp", autocomplete: "one-time-code", inputMode: "numeric", pattern: "[0-9]{6}", maxLength: 6 }));
        said.closest("form").totp.focus();
      }
      pause = e.retryAfter ?? 0;
    }
    const text = button.textContent;
    for (let left = Math.min(pause, 60); left > 0; left--) {
      button.textContent = t("resend", { n: left });
      await sleep(1000);
    }
    button.textContent = text;
    button.disabled = false;
  }
}
customElements.define("login-form", LoginForm);

// askLogin opens the dialog and returns whether the shopper is logged in afterwards.
export function askLogin() {
  if (login()) return true;
  const form = new LoginForm();
  form.setAttribute("scan", "");
  const dialog = el("dialog", { className: "login" },
    el("div", { className: "row" }, el("h2", { className: "grow" }, t("login")), el("button", { className: "second", onclick: () => dialog.close(), attrs: { "aria-label": t("close") } }, "✕")), form);
  document.body.append(dialog);
  const done = () => login() && dialog.close();
  changes.addEventListener("login", done);
  dialog.showModal();
  return new Promise((answer) => {
    dialog.onclose = () => {
      changes.removeEventListener("login", done);
      dialog.remove();
      answer(Boolean(login()));
    };
  });
}

// LoginBox is who is logged in, in the page's head.
customElements.define("login-box", class extends HTMLElement {
  connectedCallback() {
    changes.addEventListener("login", () => this.#show());
    this.#show();
    // A login that was ended elsewhere is noticed when the page opens.
    if (login()) call("GET", "me").catch(() => {});
  }

  #show() {
    const now = login(), tel = now?.phone ?? "";
    // Of a phone's number a narrow page shows the end.
    const whose = el("span", { className: "dim" }, ...(tel ? [el("i", {}, tel.slice(0, -4)), tel.slice(-4)] : [`#${now?.user}`]));
    this.replaceChildren(...(now
      ? [el("a", { href: "/?account", attrs: { "aria-label": t("account") } }, whose), el("button", { className: "second small", onclick: logout }, t("logout"))]
      : [el("button", { className: "second small", onclick: askLogin }, t("login"))]));
  }
});
