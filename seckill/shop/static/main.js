// Starts the page that the document names.
import { allowGuests } from "./api.js";
import { el } from "./dom.js";
import { t, translate } from "./words.js";
import "./login.js";
import * as item from "./item.js";

const pages = {
  confirm: () => import("./confirm.js"), order: () => import("./order.js"), item: async () => item, orders: () => import("./orders.js"),
  account: () => import("./account.js"), wechat: () => import("./wechat.js"), sessions: () => import("./sessions.js"), missing: async () => ({ show() {} }), preview: () => import("./preview.js"), live: () => import("./live.js"),
};
const main = document.querySelector("main"), { page, guests } = document.body.dataset;
translate();
if (guests) allowGuests(guests);
pages[page]().then(({ show }) => {
  if (!["item", "missing"].includes(page)) main.replaceChildren(); // what there was to look at until here
  show(main, new URLSearchParams(location.search));
}, () => {
  // The server has other files since this document was made, or the network is gone.
  main.append(el("p", { className: "problem", attrs: { role: "alert" } }, t("offline")), el("button", { onclick: () => location.reload() }, t("reload")));
});
