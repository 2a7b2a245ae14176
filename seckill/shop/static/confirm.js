// What a phone opens after scanning the QR code of a login: which device asks, and
// whether that is the user.
import { el } from "./dom.js";
import { call, changes, login, problem } from "./api.js";
import { explain, language, t } from "./words.js";
import { LoginForm } from "./login.js";

export function show(main, query) {
  const id = encodeURIComponent(query.get("qr"));
  const card = el("section", { className: "card narrow", id: "confirm" });
  main.append(card);
  const heading = el("h2", {}, t("confirmTitle"));
  const end = (text, good) => {
    card.dataset.state = good ? "done" : "bad";
    card.replaceChildren(heading, good ? el("p", { attrs: { role: "status" } }, text) : problem(text), el("p", {}, el("a", { href: "/" }, t("toShop"))));
  };

  async function scan() {
    try {
      const asked = await call("POST", `auth/qr/${id}/scan`);
      const number = el("input", { name: "number", required: true, inputMode: "numeric", pattern: "[0-9]{2}", maxLength: 2 });
      const decide = (verb, after) => async () => {
        if (verb === "confirm" && !number.reportValidity()) return;
        const proof = verb === "confirm" ? { number: Number(number.value), refresh_token: login()?.refresh } : {};
        for (const b of card.querySelectorAll("button")) b.disabled = true;
        try {
          await call("POST", `auth/qr/${id}/${verb}`, { body: { scan_token: asked.scan_token, ...proof } });
          end(t(after), true);
        } catch (e) {
          end(explain(e));
        }
      };
      const rows = [
        [t("device"), asked.device.name || asked.device.kind], [t("address"), asked.address || "–"],
        [t("askedAt"), new Date(asked.asked_at).toLocaleTimeString(language)], [t("as"), login()?.phone ?? `#${login()?.user}`],
      ];
      card.dataset.state = "asked";
      card.replaceChildren(heading, el("p", {}, t("confirmAsk")),
        el("dl", {}, ...rows.flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)])),
        el("p", { className: "dim" }, t("confirmWarn")), el("label", {}, t("confirmNumber"), number),
        el("div", { className: "row end" },
          el("button", { className: "second", id: "deny", onclick: decide("deny", "deniedHere") }, t("deny")),
          el("button", { id: "allow", onclick: decide("confirm", "confirmedHere") }, t("allow"))));
    } catch (e) {
      if (e.code === "no-token" || e.code === "bad-token") ask();
      else end(explain(e));
    }
  }

  function ask() {
    card.dataset.state = "login";
    card.replaceChildren(heading, el("p", {}, t("confirmLogin")), new LoginForm());
    const again = () => {
      if (!login()) return; // the browser kept the page meanwhile
      changes.removeEventListener("login", again);
      scan();
    };
    changes.addEventListener("login", again);
  }

  if (login()) scan();
  else ask();
}
