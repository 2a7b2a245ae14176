// Paying: which way, and what that way needs of the shopper's device.
import { el } from "./dom.js";
import { send } from "./api.js";
import { serverNow } from "./clock.js";
import { money, t } from "./words.js";

const phone = matchMedia("(pointer: coarse)").matches, inWeChat = /MicroMessenger/.test(navigator.userAgent);
// Where a company offers several ways, each is for one kind of device; others are for all.
const only = {
  "wechat native": !inWeChat && !phone, "wechat h5": !inWeChat && phone, "wechat jsapi": inWeChat,
  "alipay page": !phone, "alipay wap": phone,
};

let known; // the shop's ways: they change only when the server restarts

// ask opens a dialog and returns what was chosen; undefined when it was closed.
function ask(title, ...content) {
  const dialog = el("dialog", { className: "pay" },
    el("div", { className: "row" }, el("h2", { className: "grow" }, title), el("button", { className: "second", onclick: () => dialog.close(), attrs: { "aria-label": t("close") } }, "✕")),
    ...content);
  document.body.append(dialog);
  dialog.showModal();
  const answered = new Promise((answer) => { dialog.onclose = () => { dialog.remove(); answer(dialog.returnValue || undefined); }; });
  return { dialog, answered };
}

// chooseWay returns the provider and method to pay an order with: the only one that
// fits the device, the currency and the time left, or the shopper's choice; undefined
// when the shopper chose none. Without any, the server says why.
export async function chooseWay({ amount, pay_deadline }) {
  known ??= (await send("GET", "payment-methods")).methods;
  const left = (Date.parse(pay_deadline) - serverNow()) / 1000;
  const fit = known.filter((m) => (only[`${m.provider} ${m.method}`] ?? true) && left > m.least_seconds && (m.currencies?.includes(amount.currency) ?? true));
  const way = (m) => m && { provider: m.provider, method: m.method };
  if (fit.length < 2 || amount.amount === 0) return way(fit[0]) ?? {};
  const { answered } = ask(t("payWith", { amount: money(amount) }),
    el("form", { method: "dialog", className: "ways" }, ...fit.map((m, i) => el("button", { value: String(i), data: { provider: m.provider } }, t(`pay_${m.provider}`)))));
  const chosen = await answered;
  return chosen === undefined ? undefined : way(fit[chosen]);
}

// showCode shows the code that the shopper scans with the company's app, until the
// dialog is closed by its button or by the caller. A stand-in's code is an address.
export function showCode({ provider, qr_code, qr_image, amount }) {
  const practice = /^https?:/.test(qr_code);
  return ask(t(`pay_${provider}`),
    el("p", { className: "price" }, money(amount)),
    qr_image ? el("img", { src: qr_image, width: 256, height: 256, alt: t("payCode"), className: "code" }) : el("code", {}, qr_code),
    el("p", { className: "dim", attrs: { role: "status" } }, t("scanToPay")),
    ...(practice ? [el("a", { id: "practice", href: qr_code }, t("payPractice"))] : [])).dialog;
}

// inApp opens the payment inside WeChat, whose browser brings the bridge along.
export function inApp(jsapi) {
  const open = () => window.WeixinJSBridge.invoke("getBrandWCPayRequest", jsapi, () => {}); // what came of it, the order says
  if (window.WeixinJSBridge) open();
  else document.addEventListener("WeixinJSBridgeReady", open, { once: true });
}
