// The shopper's account: phone, password, devices, deletion.
import { ask, el } from "./dom.js";
import { call, changes, login, logout, problem } from "./api.js";
import { codeFields, field, newPassword, tries } from "./code.js";
import { askLogin, back, canLink, elsewhere, goToWeChat, leave, openLogin, sendsCodes } from "./login.js";
import { skeleton } from "./poll.js";
import { explain, language, t } from "./words.js";

const time = (text) => new Date(text).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" });
let leaving = false; // the account was deleted here

export async function show(main) {
  const box = el("div", { className: "narrow" }, skeleton(320));
  main.append(box);
  const { erased, said } = (await back) ?? {};
  if (erased) return box.replaceChildren(gone());
  const draw = async () => {
    if (leaving) return undefined;
    if (!login()) return location.assign("/");
    try {
      const [me, { data }, points, wants] = await Promise.all([call("GET", "me"), call("GET", "me/logins"), ...["me/points?limit=1", "me/messages"].map((path) => call("GET", path).catch(() => undefined))]);
      return box.replaceChildren(about(me, points), ...(me.phone || !sendsCodes || elsewhere ? [] : [phone(draw)]), ...(wants && (me.phone && sendsCodes || me.has_wechat || me.email) ? [messages(wants)] : []), devices(data, draw),
        ...(elsewhere ? [] : me.has_password ? [password()] : me.phone && sendsCodes ? [firstPassword()] : []), ...(sendsCodes || elsewhere ? [erasure(me, box, said)] : []));
    } catch (e) {
      return box.replaceChildren(problem(explain(e)));
    }
  };
  if (await askLogin()) await draw();
  else location.assign("/");
  changes.addEventListener("login", draw);
}

// card is a part of the page; said is where it says what came of some work.
function card(title, id, make) {
  const said = el("div", { attrs: { "aria-live": "polite" } });
  return el("section", { className: "card", id }, el("h2", {}, title), ...make(said), said);
}

const about = (me, points) => card(t("account"), "me", (said) => [el("dl", {}, el("dt", {}, t("phone")), el("dd", {}, me.phone ?? t("noPhone")), ...(me.email ? [el("dt", {}, t("email")), el("dd", {}, me.email)] : []), el("dt", {}, t("wechat")), el("dd", {}, t(me.has_wechat ? "linked" : "notLinked")),
  ...(points?.data.length ? [el("dt", {}, t("points")), el("dd", { id: "points" }, points.balance.toLocaleString(language))] : []), // a shop may give none
  el("dt", {}, t("since")), el("dd", {}, time(me.created_at))),
  ...(!me.has_wechat && canLink() ? [el("div", { className: "row end" }, el("button", { className: "second", id: "link", onclick: (e) => tries(said, e.target, () => goToWeChat("link")) }, t("linkWeChat")))] : [])]);

// messages is what the shopper wants to get beside news of orders.
const messages = (wants) => card(t("messages"), "messages", (said) => {
  const go = el("button", { className: "second" }, t("save")), offers = el("input", { type: "checkbox", role: "switch", checked: wants.offers });
  const languages = el("select", { name: "language" }, ...Object.entries({ "": t("shopsLanguage"), zh: "中文", en: "English" }).map(([value, name]) => el("option", { value, selected: value === wants.language }, name)));
  const form = el("form", {}, el("label", { className: "switch" }, offers, t("reminders")), el("p", { className: "dim" }, t("remindersHint")),
    el("label", {}, t("messageLanguage"), languages), el("div", { className: "row end" }, go));
  form.onsubmit = (e) => {
    e.preventDefault();
    tries(said, go, async () => {
      await call("PUT", "me/messages", { body: { offers: offers.checked, language: languages.value } });
      return t("saved");
    });
  };
  return [form];
});

const devices = (logins, draw) => card(t("logins"), "logins", (said) => {
  const end = (path, method) => async (e) => tries(said, e.target, async () => { await call(method, path); await draw(); });
  return [
    el("ul", { className: "logins" }, ...logins.map((l) => {
      const name = l.device_name || l.device_kind;
      return el("li", {},
        el("span", { className: "grow" }, name, ...(l.current ? [` · ${t("thisDevice")}`] : []), el("small", { className: "dim" }, `${t("lastUsed", { at: time(l.last_used_at) })} · ${l.address}`)),
        ...(l.current ? [] : [el("button", { className: "second small", onclick: end(`me/logins/${l.id}`, "DELETE"), attrs: { "aria-label": `${t("endLogin")}: ${name}` } }, t("endLogin"))]));
    })),
    ...(logins.length > 1 ? [el("div", { className: "row end" }, el("button", { className: "second", onclick: end("me/logout-others", "POST") }, t("endOthers")))] : []),
  ];
});

// phone adds one to an account that has none.
const phone = (draw) => card(t("addPhone"), "phone", (said) => {
  const go = el("button", {}, t("addPhone"));
  const form = el("form", {}, el("p", { className: "dim" }, t("addPhoneHint")), ...codeFields("bind", said, call), el("div", { className: "row end" }, go));
  form.onsubmit = (e) => {
    e.preventDefault();
    tries(said, go, async () => {
      await call("POST", "me/phone", { body: { phone: form.phone.value, code: form.code.value, refresh_token: login().refresh } });
      await draw();
    });
  };
  return [form];
});

const password = () => card(t("changePassword"), "password", (said) => {
  const go = el("button", {}, t("changePassword"));
  const form = el("form", {}, field(t("oldPassword"), { name: "old_password", type: "password", autocomplete: "current-password", maxLength: 128 }), newPassword(), el("div", { className: "row end" }, go));
  form.onsubmit = (e) => {
    e.preventDefault();
    tries(said, go, async () => {
      await call("POST", "me/password", { body: Object.fromEntries(new FormData(form)) });
      form.reset();
      return t("changed");
    });
  };
  return [form];
});

// firstPassword is for an account that was made with a code alone.
const firstPassword = () => card(t("password"), "password", () => [el("p", { className: "dim" }, t("noPassword")),
  el("div", { className: "row end" }, el("button", { className: "second", onclick: () => openLogin("reset", "resetPassword") }, t("resetPassword")))]);

const gone = () => el("section", { className: "card nothing", id: "erased" }, el("p", { attrs: { role: "status" } }, t("erased")), el("p", {}, el("a", { href: "/" }, t("toShop"))));

const erasure = (me, box, failed) => card(t("erase"), "erase", (said) => [el("p", { className: "dim" }, t("erase_card")), ...(failed ? [problem(failed)] : []), el("div", { className: "row end" }, el("button", { className: "second", onclick: (e) => tries(said, e.target, async () => {
  const wrong = el("div", { attrs: { "aria-live": "polite" } }), go = el("button", {}, t("erase"));
  if (elsewhere) {
    go.onclick = () => leave("erase");
    return void await ask(t("erase"), el("p", {}, t("erase_elsewhere")), el("div", { className: "row end" }, go)).answered;
  }
  // The account's own phone is shown masked, so its owner writes it.
  const form = el("form", {}, ...(me.phone ? codeFields("erase", wrong, call) : []), wrong, el("div", { className: "row end" }, go));
  if (form.phone) form.phone.autofocus = true;
  const { dialog, answered } = ask(t("erase"), el("p", {}, t(me.phone ? "erase_hint" : "erase_noPhone")), ...(me.phone ? [form] : []));
  form.onsubmit = (e) => {
    e.preventDefault();
    tries(wrong, go, async () => {
      await call("DELETE", "me", { body: { code: form.code.value } });
      leaving = true;
      dialog.close("erased");
      await logout();
      box.replaceChildren(gone());
    });
  };
  await answered;
}) }, t("erase")))]);
