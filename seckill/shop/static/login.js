// Logging in: by SMS code, password, or with a phone that scans a QR code.
import { codeFields, digits, field, newPassword, phoneField, tries } from "./code.js";
import { el } from "./dom.js";
import { call, changes, device, inWeChat, keep, later, login, logout, problem, send, unguessable } from "./api.js";
import { explain, t } from "./words.js";
import { withProof } from "./door.js";

// elsewhere is where shoppers log in whose accounts the shop's own system has; undefined
// where they are here.
export const elsewhere = document.body.dataset.loginUrl;

// offered tells whether the shop has a page for a login by WeChat, which exists inside
// WeChat only. The answer is there before a shopper opens the form.
let offered = false;
if (inWeChat) (elsewhere ? call : send)("POST", "auth/wechat/state").then(({ url }) => { offered = Boolean(url); }, () => {});
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
    if (elsewhere) return second ? this.#second() : this.#away();
    const ways = [...(offered ? ["wechat"] : []), ...(sendsCodes ? ["sms"] : []), "password", ...(this.hasAttribute("scan") ? ["qr"] : [])];
    const tabs = el("div", { className: "tabs" }, ...ways.map((w) =>
      el("button", { type: "button", onclick: () => this.#show(w), attrs: { "aria-pressed": w === way } }, t(`way_${w}`))));
    const chosen = way === "qr" ? el("qr-login") : way === "wechat" ? this.#weChat() : this.#form(way);
    this.replaceChildren(tabs, chosen);
    if (way === "qr") later("qr.js", () => import("./qr.js")).catch((e) => chosen.replaceChildren(problem(explain(e)))); // defines the element
    this.querySelector("form input")?.focus(); // autofocus is for a dialog's opening only
  }

  #away() {
    const go = el("button", { id: "elsewhere", autofocus: true, onclick: () => leave() }, t("login"));
    this.replaceChildren(...(refused ? [problem(refused)] : []), el("p", { className: "dim" }, t("elsewhere")), el("div", { className: "row end" }, go));
  }

  // #second asks for the second factor that an account here has.
  #second() {
    const said = el("div", { attrs: { "aria-live": "polite" } }), go = el("button", {}, t("login"));
    const form = el("form", {}, digits("totp", "totp"), said, el("div", { className: "row end" }, go));
    form.totp.autofocus = true;
    form.onsubmit = (e) => {
      e.preventDefault();
      tries(said, go, () => second(form.totp.value), (e) => {
        if (e.code !== "bad-external-token") return; // the token has expired meanwhile
        second = undefined;
        refused = explain(e);
        this.#away();
      });
    };
    this.replaceChildren(el("p", { className: "dim" }, t("totpHint")), form);
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

const leaving = "stampede-login-state";
let pressed; // what the shopper pressed before being sent to log in; see SaleCard
let second; // sends the token again with the code of the second factor; undefined while none is asked for
let refused = ""; // why the shopper came back from the shop's own login without one here
// stays is set for a shopper who has just logged out, or come back without a login: an
// own login that remembers its users would at once log them in again.
let stays = false;
changes.addEventListener("login", () => { stays = !login(); });

// leave sends the shopper to the shop's own login, and from there back to this page, to log
// in or to prove who deletes the account. The answer is for a page that the browser's back
// button shows again.
export function leave(does = "login") {
  const state = unguessable(), to = new URL(elsewhere);
  sessionStorage.setItem(leaving, JSON.stringify({ state, does, pressed }));
  to.searchParams.set("return", location.href.split("#")[0]);
  to.searchParams.set("state", state);
  location.assign(to);
  return new Promise((answer) => { addEventListener("pageshow", (e) => e.persisted && answer(Boolean(login()))); });
}

// comeBack takes the token from the address, where neither the history nor a bookmark may
// keep it, and does what it is for. Only the tab that left knows the state: a stranger's
// link must not log the shopper in as somebody else. It returns {pressed} after a login,
// {erased} when the account is deleted, and {said}, why not, when it is not.
async function comeBack() {
  const answer = new URLSearchParams(location.hash.slice(1)), { state, does, ...left } = JSON.parse(sessionStorage.getItem(leaving)) ?? {};
  if (!elsewhere || !answer.has("state")) return undefined;
  pressed = left.pressed;
  history.replaceState(history.state, "", location.pathname + location.search);
  sessionStorage.removeItem(leaving);
  try {
    if (answer.get("state") !== state) throw new Error(t("loginForeign"));
    if (!answer.get("id_token")) throw new Error(t("loginDeclined"));
    const token = answer.get("id_token");
    const exchange = async (totp) => keep(await send("POST", "auth/exchange", { body: { token, device: device(), totp } }));
    if (does === "login") {
      await exchange().catch((e) => {
        if (e.code !== "totp-required") throw e;
        [second, stays] = [exchange, true];
        return openLogin("", "login");
      });
      return login() && { pressed };
    }
    await call("DELETE", "me", { body: { token } });
    await logout();
    return { erased: true };
  } catch (e) {
    if (login()) return { said: does === "erase" && explain(e) };
    stays = true;
    refused = explain(e);
    openLogin("", "login");
    return undefined;
  }
}

// askLogin asks for a login where there is none, and returns whether there is one
// afterwards; what is what the shopper pressed.
export async function askLogin(what) {
  await back;
  pressed = what;
  return Boolean(login()) || (elsewhere && !stays ? leave() : openLogin("", "login"));
}

// ways are where a card leads on this server's pages; see SaleCard.
export const ways = {
  login: askLogin, see: (no) => location.assign(`/?order=${no}`), browse: () => location.assign("/?sessions"), pay: (url) => location.assign(url),
};

let open; // what the dialog that is open will answer
// openLogin opens the dialog with a way in front, also for a shopper who is logged in.
export function openLogin(way, title) {
  if (open) return open;
  const form = new LoginForm();
  form.setAttribute("scan", "");
  form.setAttribute("way", way);
  const dialog = el("dialog", { className: "login" },
    el("div", { className: "row" }, el("h2", { className: "grow" }, t(title)), el("button", { className: "second close", onclick: () => dialog.close(), attrs: { "aria-label": t("close") } }, "✕")), form, ...agreement());
  document.body.append(dialog);
  const done = () => login() && dialog.close();
  changes.addEventListener("login", done);
  dialog.showModal();
  return (open = new Promise((answer) => {
    dialog.onclose = () => {
      open = second = undefined;
      changes.removeEventListener("login", done);
      dialog.remove();
      answer(Boolean(login()));
    };
  }));
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
      : [el("button", { className: "second small", onclick: () => askLogin() }, t("login"))]));
  }
});

export const back = comeBack();
