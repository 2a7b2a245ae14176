// Which page this is: the address says, else the document.
import { allowGuests } from "./api.js";
import { el } from "./dom.js";
import { t, translate } from "./words.js";
import "./login.js";
import * as item from "./item.js";

const pages = {
  qr: () => import("./confirm.js"), order: () => import("./order.js"), item: async () => item, orders: () => import("./orders.js"),
  account: () => import("./account.js"), sessions: () => import("./sessions.js"), preview: () => import("./preview.js"), live: () => import("./live.js"),
};
const query = new URLSearchParams(location.search);
const asked = Object.keys(pages).find((name) => name !== "live" && query.has(name));
const main = document.querySelector("main");
translate();
if (document.body.dataset.guests) allowGuests(document.body.dataset.guests);
pages[asked ?? document.body.dataset.page]().then(({ show }) => show(main, query), () => {
  // The server has other files since this document was made, or the network is gone.
  main.append(el("p", { className: "problem", attrs: { role: "alert" } }, t("offline")), el("button", { onclick: () => location.reload() }, t("reload")));
});
