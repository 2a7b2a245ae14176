// The shopper's account: password, devices, deletion.
import { ask, el } from "./dom.js";
import { call, changes, device, login, logout, problem } from "./api.js";
import { askLogin } from "./login.js";
import { withProof } from "./door.js";
import { skeleton } from "./poll.js";
import { explain, language, t } from "./words.js";

const time = (text) => new Date(text).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" });
const field = (label, props) => el("label", {}, label, el("input", props));

export async function show(main) {
  const box = el("div", { className: "narrow" }, skeleton(320));
  document.body.classList.add("shop");
  document.title = t("account");
  main.append(box);
  const draw = async () => {
    if (!login()) return location.assign("/");
    try {
      const [me, { data }] = await Promise.all([call("GET", "me"), call("GET", "me/logins")]);
      box.replaceChildren(about(me), devices(data, draw), ...(me.has_password ? [password()] : []), erasure(me));
    } catch (e) {
      box.replaceChildren(problem(explain(e)));
    }
  };
  if (await askLogin()) await draw();
  changes.addEventListener("login", draw);
}

// card is a part of the page; tries runs some work and says what came of it.
function card(title, id, make) {
  const said = el("div", { attrs: { "aria-live": "polite" } });
  const tries = async (button, work) => {
    button.disabled = true;
    try {
      const text = await work();
      said.replaceChildren(...(text ? [el("p", {}, text)] : []));
    } catch (e) {
      said.replaceChildren(problem(explain(e)));
    }
    button.disabled = false;
  };
  return el("section", { className: "card", id }, el("h2", {}, title), ...make(tries), said);
}

const about = (me) => card(t("account"), "me", () => [el("dl", {}, el("dt", {}, t("phone")), el("dd", {}, me.phone ?? "–"), el("dt", {}, t("since")), el("dd", {}, time(me.created_at)))]);

const devices = (logins, draw) => card(t("logins"), "logins", (tries) => {
  const end = (path, method) => async (e) => tries(e.target, async () => { await call(method, path); await draw(); });
  return [
    el("ul", { className: "logins" }, ...logins.map((l) => el("li", {},
      el("span", { className: "grow" }, l.device_name || l.device_kind, ...(l.current ? [` · ${t("thisDevice")}`] : []), el("small", { className: "dim" }, `${t("lastUsed", { at: time(l.last_used_at) })} · ${l.address}`)),
      ...(l.current ? [] : [el("button", { className: "second small", onclick: end(`me/logins/${l.id}`, "DELETE") }, t("endLogin"))])))),
    ...(logins.length > 1 ? [el("div", { className: "row end" }, el("button", { className: "second", onclick: end("me/logout-others", "POST") }, t("endOthers")))] : []),
  ];
});

const password = () => card(t("changePassword"), "password", (tries) => {
  const go = el("button", {}, t("changePassword"));
  const form = el("form", {}, field(t("oldPassword"), { name: "old_password", type: "password", autocomplete: "current-password", required: true, maxLength: 128 }),
    field(t("newPassword"), { name: "new_password", type: "password", autocomplete: "new-password", required: true, maxLength: 128 }), el("div", { className: "row end" }, go));
  form.onsubmit = (e) => {
    e.preventDefault();
    tries(go, async () => {
      await call("POST", "me/password", { body: Object.fromEntries(new FormData(form)) });
      form.reset();
      return t("changed");
    });
  };
  return [form];
});

const erasure = (me) => card(t("erase"), "erase", (tries) => [el("button", { className: "second", onclick: (e) => tries(e.target, async () => {
  const tel = field(t("phone"), { name: "phone", type: "tel", autocomplete: "tel", inputMode: "tel" }); // the account's own is shown masked
  const code = field(t("code"), { name: "code", inputMode: "numeric", autocomplete: "one-time-code", pattern: "[0-9]{6}", maxLength: 6 });
  const send = el("button", { type: "button", className: "second" }, t("sendCode")), said = el("div", { attrs: { "aria-live": "polite" } });
  send.onclick = async () => {
    if (!form.phone.reportValidity()) return;
    send.disabled = true;
    await withProof((proof) => call("POST", "auth/sms-codes", { proof, body: { phone: form.phone.value, purpose: "erase", device_id: device().id } }))
      .then(() => said.replaceChildren(t("codeSent")), (refused) => { said.replaceChildren(problem(explain(refused))); send.disabled = false; });
  };
  const form = el("form", { method: "dialog" }, ...(me.has_password ? [field(t("password"), { name: "password", type: "password", autocomplete: "current-password", maxLength: 128 })] : []),
    ...(me.phone ? [tel, el("div", { className: "row bottom" }, code, send)] : []), said, el("div", { className: "row end" }, el("button", { value: "ok" }, t("erase"))));
  const { answered } = ask(t("erase"), el("p", {}, t("erase_hint")), form);
  if ((await answered) !== "ok") return "";
  const body = Object.fromEntries([...new FormData(form)].filter(([name, text]) => text && name !== "phone"));
  await call("DELETE", "me", { body });
  await logout();
  return t("erased");
}) }, t("erase"))]);
