// Which page this is: the address says, else the document.
import { allowGuests } from "./api.js";
import { el } from "./dom.js";
import { t, translate } from "./words.js";
import "./login.js";
import * as item from "./item.js";

// What modules that are loaded later share with this one: they import it from here,
// because all of this is served as one file (see bundle.go).
export * from "./api.js";
export * from "./buyer.js";
export * from "./clock.js";
export * from "./dom.js";
export * from "./door.js";
export * from "./login.js";
export * from "./poll.js";
export * from "./sale.js";
export * from "./step.js";
export * from "./words.js";

const pages = {
  qr: () => import("./confirm.js"), order: () => import("./order.js"), item: async () => item, orders: () => import("./orders.js"),
  account: () => import("./account.js"), sessions: () => import("./sessions.js"), live: () => import("./live.js"),
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
