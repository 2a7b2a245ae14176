// Paying: what is to be settled before, which way, and what that way needs of the
// shopper's device.
import { ask, el } from "./dom.js";
import { call, inWeChat, problem, send } from "./api.js";
import { serverNow } from "./clock.js";
import { explain, money, t } from "./words.js";

const phone = matchMedia("(pointer: coarse)").matches;
// Where a company offers several ways, each is for one kind of device; others are for all.
const only = {
  "wechat native": !inWeChat && !phone, "wechat h5": !inWeChat && phone, "wechat jsapi": inWeChat,
  "alipay page": !phone, "alipay wap": phone,
};

let known; // the shop's ways: they change only when the server restarts

// chooseWay returns the provider, method and coupon to pay an order with: the only way
// that fits the device, the currency and the time left, or the shopper's choice;
// undefined when the shopper chose none. Without any, the server says why.
export async function chooseWay({ order_no, amount, lines, pay_deadline }) {
  known ??= (await send("GET", "payment-methods")).methods;
  const left = (Date.parse(pay_deadline) - serverNow()) / 1000;
  const fit = known.filter((m) => (only[`${m.provider} ${m.method}`] ?? true) && left > m.least_seconds && (m.currencies?.includes(amount.currency) ?? true));
  // The largest discount comes first. Without an answer the order can be paid all the same.
  const { data: coupons } = await call("GET", `coupons?order_no=${order_no}`).catch(() => ({ data: [] }));
  const way = (m) => m && { provider: m.provider, method: m.method };
  if (coupons.length === 0 && (fit.length < 2 || amount.amount === 0)) return way(fit[0]) ?? {};
  const select = el("select", { name: "coupon", autofocus: true }, ...coupons.map((c) => el("option", { value: c.coupon_no }, `${c.name} − ${money(c.discount)}`)), el("option", { value: "" }, t("noCoupon")));
  // What is to be paid with the chosen coupon; one of an earlier try is off again.
  const due = () => {
    const off = coupons.find((c) => c.coupon_no === select.value)?.discount.amount ?? 0;
    return t("payWith", { amount: money({ ...amount, amount: Math.max(0, amount.amount + (lines?.discount.amount ?? 0) - off) }) });
  };
  const { dialog, answered } = ask(due(),
    el("form", { method: "dialog", className: "ways" }, ...(coupons.length > 0 ? [el("label", {}, t("coupon"), select)] : []),
      ...(fit.length > 0 ? fit : [{ provider: "" }]).map((m, i) => el("button", { value: String(i), autofocus: true, data: { provider: m.provider } }, m.provider ? t(`pay_${m.provider}`) : t("details_go")))));
  select.onchange = () => {
    dialog.setAttribute("aria-label", due());
    dialog.querySelector("h2").textContent = due();
  };
  const chosen = await answered;
  return chosen === undefined ? undefined : { ...way(fit[chosen]), ...(coupons.length > 0 && { coupon: select.value }) };
}

// settle asks for what an order's activity wants to know before the payment, and returns
// the order with its new amount; undefined when the shopper gave up.
export async function settle({ order: { order_no: no }, checkout, details = {} }) {
  const { ways = [] } = checkout;
  const stores = ways.includes("pickup") ? (await call("GET", "stores?limit=100")).data : [];
  const field = (key, props = {}) => el("label", { hidden: !checkout[key] }, t(`details_${key}`), el("input", { name: key, value: details[key] ?? "", required: checkout[key] === "required", disabled: !checkout[key], autofocus: true, ...props }));
  const choice = (name, options) => el("label", {}, t(`details_${name}`), el("select", { name, autofocus: true }, ...options));
  const way = choice("way", ways.map((w) => el("option", { value: w, selected: w === details.way }, t(`way_${w}`))));
  const store = choice("store_id", stores.map((s) => el("option", { value: s.id, selected: s.id === details.store?.id }, [s.name, s.address, s.hours].filter(Boolean).join(" · "))));
  const address = field("address", { autocomplete: "street-address", maxLength: 300 });
  const said = el("div", { attrs: { "aria-live": "polite" } }), go = el("button", {}, t("details_go"));
  const form = el("form", {}, way, store, field("name", { autocomplete: "name", maxLength: 60 }), field("phone", { type: "tel", autocomplete: "tel", maxLength: 20 }), address, field("note", { maxLength: 300 }), said, el("div", { className: "row end" }, go));
  const shows = (label, on) => { label.hidden = !on; label.lastChild.disabled = !on; };
  const follow = () => {
    const chosen = form.elements.way.value;
    shows(way, ways.length > 1);
    shows(store, chosen === "pickup");
    shows(address, Boolean(checkout.address) && chosen === "delivery");
  };
  form.elements.way.onchange = follow;
  follow();
  let order;
  const { dialog, answered } = ask(t("details"), form);
  form.onsubmit = async (e) => {
    e.preventDefault();
    go.disabled = true;
    try {
      const body = Object.fromEntries([...new FormData(form)].filter(([, text]) => text.trim()));
      if (ways.length === 1) body.way = ways[0];
      ({ order } = await call("PUT", `orders/${no}/details`, { body }));
      dialog.close();
    } catch (e) {
      said.replaceChildren(problem(explain(e)));
    }
    go.disabled = false;
  };
  await answered;
  return order;
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
