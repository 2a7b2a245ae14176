// Which page this is: the address says, else the document.
import { allowGuests } from "./api.js";
import { el } from "./dom.js";
import { t, translate } from "./words.js";
import "./login.js";
import * as item from "./item.js";

const query = new URLSearchParams(location.search);
const pages = { qr: "confirm", order: "order", item: "item", orders: "orders", account: "account", sessions: "sessions" };
const key = Object.keys(pages).find((name) => query.has(name));
const main = document.querySelector("main");
translate();
if (document.body.dataset.guests) allowGuests(document.body.dataset.guests);
const page = key ? pages[key] : document.body.dataset.page;
(page === "item" ? Promise.resolve(item) : import(`./${page}.js`)).then(({ show }) => show(main, query), () => {
  // The server has other files since this document was made, or the network is gone.
  main.append(el("p", { className: "problem", attrs: { role: "alert" } }, t("offline")), el("button", { onclick: () => location.reload() }, t("reload")));
});
