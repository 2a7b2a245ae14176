// Where WeChat sends a shopper who agreed to log in, or to be linked to an account, with a
// code.
import { call, device, keep, login, problem, send } from "./api.js";
import { el } from "./dom.js";
import { withProof } from "./door.js";
import { goToWeChat, wayBack } from "./login.js";
import { skeleton } from "./poll.js";
import { explain, t } from "./words.js";

// Only an official account sends shoppers here. A code of a mini program, which needs no state, must not come in a link.
const work = {
  login: async (code, state) => keep(await withProof((proof) => send("POST", "auth/login/wechat", { proof, body: { code, state, app: "official", device: device() } }))),
  link: (code, state) => call("POST", "me/wechat", { body: { code, state, app: "official", refresh_token: login()?.refresh } }),
};

export async function show(main, query) {
  const { does, back } = wayBack(), card = el("section", { className: "card narrow", id: "wechat" }, skeleton(120));
  main.append(card);
  history.replaceState(null, "", "/?wechat"); // a code serves once: a reload must not send it again
  try {
    if (!query.get("code")) throw new Error(t("wechatRefused"));
    await work[does](query.get("code"), query.get("state"));
    location.replace(back);
  } catch (e) {
    const said = el("div", { attrs: { "aria-live": "polite" } }, problem(explain(e)));
    card.replaceChildren(el("h2", {}, t("way_wechat")), said, el("div", { className: "row end" }, el("a", { href: back }, t("goBack")),
      el("button", { onclick: () => goToWeChat(does, back).catch((refused) => said.replaceChildren(problem(explain(refused)))) }, t("wechatAgain"))));
  }
}
