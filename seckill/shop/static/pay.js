// Paying: the sheet that says what an order costs and asks for what is to be settled
// before, and what the way to pay needs of the shopper's device.
import { ask, el } from "./dom.js";
import { call, inWeChat, send } from "./api.js";
import { serverNow } from "./clock.js";
import { tries } from "./code.js";
import { money, t } from "./words.js";

const phone = matchMedia("(pointer: coarse)").matches;
// Where a company offers several ways, each is for one kind of device; others are for all.
const only = {
  "wechat native": !inWeChat && !phone, "wechat h5": !inWeChat && phone, "wechat jsapi": inWeChat,
  "alipay page": !phone, "alipay wap": phone,
};

let known; // the shop's ways: they change only when the server restarts

// methods are the ways to pay an order that fit the device, the currency and the time left.
async function methods({ amount, pay_until }) {
  known ??= (await send("GET", "payment-methods")).methods;
  const left = (Date.parse(pay_until) - serverNow()) / 1000;
  return known.filter((m) => (only[`${m.provider} ${m.method}`] ?? true) && left > m.least_seconds && (m.currencies?.includes(amount.currency) ?? true));
}

const detailNames = ["way", "store_id", "name", "phone", "address", "note"];
const option = (value, text, chosen) => el("option", { value, selected: value === chosen }, text);
const place = (store) => [store.name, store.address, store.hours].filter(Boolean).join(" · ");

// fieldsOf are the fields of what an order's activity wants to know before the payment,
// and show(), which hides those that do not belong to the chosen way.
function fieldsOf({ ways = [], missing, ...checkout }, details, stores) {
  const label = (key, field) => el("label", {}, t(`details_${key}`), field), autofocus = missing.length > 0;
  const text = (key, props = {}) => label(key, el("input", { name: key, value: details[key] ?? "", required: checkout[key] === "required", autofocus, ...props }));
  const way = label("way", el("select", { name: "way", autofocus }, ...ways.map((w) => option(w, t(`way_${w}`), details.way))));
  const store = label("store_id", el("select", { name: "store_id", autofocus }, ...stores.map((s) => option(s.id, place(s), details.store?.id))));
  const all = {
    way, store_id: store, name: text("name", { autocomplete: "name", maxLength: 60 }), phone: text("phone", { type: "tel", autocomplete: "tel", maxLength: 32 }),
    address: text("address", { autocomplete: "street-address", maxLength: 300 }), note: text("note", { maxLength: 300 }),
  };
  const show = () => {
    const chosen = way.lastChild.value;
    for (const [key, node] of Object.entries(all)) {
      const on = { way: ways.length > 1, store_id: chosen === "pickup", address: checkout.address && chosen === "delivery" }[key] ?? checkout[key];
      node.hidden = node.control.disabled = !on;
    }
    return chosen;
  };
  return { labels: Object.values(all), show };
}

// checkOut shows the sheet of an order with all that belongs to it, and begins its
// payment, which it returns as the API shows it; undefined when the shopper gave up.
// opened is given the dialog, settled the order with its new amount.
export async function checkOut({ order, checkout, details = {}, spec }, opened, settled) {
  const { order_no: no, lines, amount: { currency } } = order;
  const [fit, { data: coupons }, { data: stores }] = await Promise.all([
    methods(order), call("GET", `coupons?order_no=${no}`).catch(() => ({ data: [] })), // it can be paid without
    checkout?.ways?.includes("pickup") ? call("GET", "stores?limit=100") : { data: [] },
  ]);
  const asked = checkout && fieldsOf(checkout, details, stores);
  const coupon = el("select", { name: "coupon" }, ...coupons.map((c) => option(c.coupon_no, `${c.name} − ${money(c.discount)}`)), option("", t("noCoupon"))); // the largest discount is first
  const pays = fit.map((m, i) => el("label", {}, el("input", { type: "radio", name: "method", value: i, checked: i === 0, data: { provider: m.provider } }), t(`pay_${m.provider}`)));
  const rows = el("dl"), said = el("div", { attrs: { "aria-live": "polite" } }), go = el("button", { id: "pay", autofocus: true });
  const form = el("form", { className: "sheet" }, el("p", {}, `${order.title} ${spec ?? ""} × ${order.quantity}`), ...(asked?.labels ?? []),
    ...(coupons.length > 0 ? [el("label", {}, t("coupon"), coupon)] : []),
    ...(pays.length > 1 ? [el("fieldset", { className: "pays" }, el("legend", {}, t("paidBy")), ...pays)] : []), rows, said, el("div", { className: "row end" }, go));
  const draw = () => {
    const way = asked?.show(), goods = lines.goods.amount;
    const freight = !asked ? lines.freight.amount : way !== "delivery" || goods >= checkout.free_from?.amount ? 0 : checkout.freight?.amount ?? 0;
    const off = coupons.length > 0 ? coupons.find((c) => c.coupon_no === coupon.value)?.discount.amount ?? 0 : lines.discount.amount;
    const said = (amount) => money({ amount, currency }), total = said(Math.max(0, goods + freight - off));
    const all = [
      [t("goodsPrice"), said(goods)], [t("freight"), way === "delivery" || freight > 0 ? (freight > 0 ? said(freight) : t("noFreight")) : ""], [t("discount"), off > 0 && `− ${said(off)}`],
      ...(asked ? [] : [[t("way_delivery"), details.address], [t("way_pickup"), details.store && place(details.store)]]), [t("paidBy"), pays.length === 1 && t(`pay_${fit[0].provider}`)], [t("due"), total],
    ];
    rows.replaceChildren(...all.filter(([, value]) => value).flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, value)]));
    go.textContent = t("payWith", { amount: total });
  };
  form.onchange = draw;
  draw();
  const { dialog, answered } = ask(t("checkout"), form);
  opened(dialog);
  let payment, kept; // what the server has of the fields: they are fixed once a payment has begun
  form.onsubmit = (e) => {
    e.preventDefault();
    tries(said, go, async () => {
      const data = new FormData(form), { provider, method } = fit[data.get("method") ?? 0] ?? {};
      const body = Object.fromEntries([...data].filter(([name, text]) => detailNames.includes(name) && text.trim())), text = JSON.stringify(body);
      if (asked && text !== kept) {
        settled((await call("PUT", `orders/${no}/details`, { body })).order);
        kept = text;
      }
      payment = await call("POST", `orders/${no}/payments`, { body: { provider, method, ...(coupons.length > 0 && { coupon: coupon.value }) } });
      dialog.close();
    });
  };
  await answered;
  return payment;
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
