// Logging in: by SMS code, password, or with a phone that scans a QR code.
import { codeFields, digits, field, newPassword, phoneField, tries } from "./code.js";
import { el } from "./dom.js";
import { call, changes, device, inWeChat, keep, login, logout, send } from "./api.js";
import { t } from "./words.js";
import { withProof } from "./door.js";

// offered tells whether the shop has a page for a login by WeChat, which exists inside
// WeChat only. The answer is there before a shopper opens the form.
let offered = false;
if (inWeChat) send("POST", "auth/wechat/state").then(({ url }) => { offered = Boolean(url); }, () => {});
export const canLink = () => offered;

// sendsCodes tells whether the shop has a gateway that sends them.
export const sendsCodes = !("noCodes" in document.body.dataset);

// goToWeChat sends the shopper to WeChat's page, to log in or to be linked to an account;
// wayBack is what was kept for the return.
const returning = "stampede-wechat";
export async function goToWeChat(does, back = location.href) {
  const { url } = await (does === "link" ? call : send)("POST", "auth/wechat/state"); // the link is for the account that asks
  sessionStorage.setItem(returning, JSON.stringify({ does, back }));
  location.assign(url);
}
export const wayBack = () => JSON.parse(sessionStorage.getItem(returning)) ?? { does: "login", back: "/" };

// paths of the API by which a way logs in.
const paths = { sms: "auth/login/sms", password: "auth/login", reset: "auth/login" };

// LoginForm is the form with its ways; `scan` adds the QR code, which makes no sense
// on the phone that scans. `way` is the first one; a new password is a way too, because
// it ends with a login.
export class LoginForm extends HTMLElement {
  connectedCallback() {
    if (!this.firstChild) this.#show(this.getAttribute("way") || (offered ? "wechat" : sendsCodes ? "sms" : "password"));
  }

  #show(way) {
    const ways = [...(offered ? ["wechat"] : []), ...(sendsCodes ? ["sms"] : []), "password", ...(this.hasAttribute("scan") ? ["qr"] : [])];
    const tabs = el("div", { className: "tabs" }, ...ways.map((w) =>
      el("button", { type: "button", onclick: () => this.#show(w), attrs: { "aria-pressed": w === way } }, t(`way_${w}`))));
    this.replaceChildren(tabs, way === "qr" ? el("qr-login") : way === "wechat" ? this.#weChat() : this.#form(way));
    if (way === "qr") import("./qr.js"); // defines the element
    this.querySelector("form input")?.focus(); // autofocus is for a dialog's opening only
  }

  #weChat() {
    const said = el("div", { attrs: { "aria-live": "polite" } });
    const go = el("button", { id: "wechat", autofocus: true, onclick: () => tries(said, go, () => goToWeChat("login")) }, t("wechatGo"));
    return el("div", {}, el("p", { className: "dim" }, t("wechatHint")), said, el("div", { className: "row end" }, go));
  }

  #form(way) {
    const said = el("div", { attrs: { "aria-live": "polite" } });
    const go = el("button", {}, t(way === "reset" ? "resetPassword" : "login"));
    const forgot = el("button", { type: "button", className: "link", id: "forgot", onclick: () => this.#show("reset") }, t("forgotPassword"));
    const parts = {
      sms: () => [...codeFields("login", said), el("p", { className: "dim" }, t("registers"))],
      password: () => [phoneField(), field(t("password"), { name: "password", type: "password", autocomplete: "current-password", maxLength: 128 }), ...(sendsCodes ? [forgot] : [])],
      reset: () => [...codeFields("reset", said), newPassword(), el("p", { className: "dim" }, t("resetHint"))],
    };
    const form = el("form", {}, ...parts[way](), said, el("div", { className: "row end" }, go));
    form.phone.autofocus = true;
    form.onsubmit = (e) => {
      e.preventDefault();
      tries(said, go, () => this.#logIn(way, form), (refused) => {
        if (refused.code !== "totp-required" || form.totp) return;
        said.before(digits("totp", "totp"));
        form.totp.focus();
      });
    };
    return form;
  }

  async #logIn(way, { phone, code, password, new_password, totp }) {
    if (way === "reset" && !totp) await send("POST", "auth/password/reset", { body: { phone: phone.value, code: code.value, password: new_password.value } });
    const proves = way === "sms" ? { code: code.value } : { password: (password ?? new_password).value };
    const body = { phone: phone.value, device: device(), ...proves, ...(totp && { totp: totp.value }) };
    await keep(await withProof((proof) => send("POST", paths[way], { proof, body })));
  }
}
customElements.define("login-form", LoginForm);

// agreement links what a shopper agrees to by logging in, if the shop says where it is.
const agreement = () => {
  const links = [...document.querySelectorAll("footer a")].flatMap((a) => [" ", a.cloneNode(true)]);
  return links.length > 0 ? [el("p", { className: "dim small" }, t("agreement"), ...links)] : [];
};

// askLogin opens the dialog and returns whether the shopper is logged in afterwards.
export const askLogin = () => Boolean(login()) || openLogin("", "login");

// ways are where a card leads on this server's pages; see SaleCard.
export const ways = {
  login: askLogin, see: (no) => location.assign(`/?order=${no}`), browse: () => location.assign("/?sessions"), pay: (url) => location.assign(url),
};

// openLogin opens the dialog with a way in front, also for a shopper who is logged in.
export function openLogin(way, title) {
  const form = new LoginForm();
  form.setAttribute("scan", "");
  form.setAttribute("way", way);
  const dialog = el("dialog", { className: "login" },
    el("div", { className: "row" }, el("h2", { className: "grow" }, t(title)), el("button", { className: "second close", onclick: () => dialog.close(), attrs: { "aria-label": t("close") } }, "✕")), form, ...agreement());
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

// login-box is who is logged in, in the page's head.
customElements.define("login-box", class extends HTMLElement {
  connectedCallback() {
    changes.addEventListener("login", () => this.#show());
    this.#show();
    // A login that was ended elsewhere is noticed when the page opens.
    if (login()) call("GET", "me").catch(() => {});
  }

  #show() {
    const now = login(), tel = now?.phone ?? "";
    // A narrow page has no room for the number.
    const whose = [el("span", { className: "dim" }, tel || `#${now?.user}`), el("b", {}, t("mine"))];
    this.replaceChildren(...(now
      ? [el("a", { href: "/?account", attrs: { "aria-label": t("account") } }, ...whose), el("button", { className: "second small", onclick: logout }, t("logout"))]
      : [el("button", { className: "second small", onclick: askLogin }, t("login"))]));
  }
});
