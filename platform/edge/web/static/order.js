// The page of one order: the shopper returns here from the bank too. While it is to be
// paid, its item is above; all that is known of it is below.
import { ask, copyButton, el } from "./dom.js";
import { bearer, call, login, problem, send } from "./api.js";
import { askLogin } from "./login.js";
import { keepAsking, skeleton } from "./poll.js";
import { SaleCard } from "./sale.js";
import { explain, language, money, t } from "./words.js";

const often = 2000, rarely = 15_000; // ms between two looks at an order that may change soon, and at others
const final = ["refused", "closed", "refunded"];

export function show(main, query) {
  const no = query.get("order"), path = `orders/${encodeURIComponent(no)}`;
  const card = new SaleCard(), error = el("div", { className: "toast" }), box = el("div", { className: "narrow" }), sheet = el("div", {}, skeleton(320));
  document.body.classList.add("shop");
  document.title = t("orderNumber");
  main.append(el("p", {}, el("a", { href: "/?orders" }, `‹ ${t("myOrders")}`)), error, box);
  box.append(sheet);
  let version, itemLeft = false;
  keepAsking(error, async () => {
    if (!login() && !document.body.dataset.guests) await askLogin();
    const order = await call("GET", path);
    if (order.item_id && !itemLeft) {
      const item = await send("GET", `items/${order.item_id}`).catch((e) => { if (e.status !== 404) throw e; });
      itemLeft = !item; // its session closed long ago
      if (item) {
        if (!card.isConnected && !final.includes(order.status)) box.prepend(card);
        if (card.isConnected) card.show(item, no);
      }
    }
    if (order.version !== version && order.status !== "queued") {
      const whole = await call("GET", `${path}/document`);
      sheet.replaceChildren(...(await draw(whole, () => { version = undefined; })));
      version = order.version;
    } else if (order.status === "queued") {
      sheet.replaceChildren(el("section", { className: "card nothing" }, el("p", {}, t("step_next"))));
    }
    return ["queued", "pending_payment", "refunding"].includes(order.status) ? often : rarely;
  });
}

const at = (time) => new Date(time).toLocaleString(language, { dateStyle: "medium", timeStyle: "medium" });
const rows = (pairs) => el("dl", {}, ...pairs.filter(([, value]) => value).flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, value)]));

async function draw(whole, again) {
  const { order, payment, details, shipment, pickup, timeline, dispute } = whole, { lines } = order;
  const code = el("code", {}, order.order_no);
  const parts = [el("section", { className: "card", id: "order", data: { status: order.status } },
    el("h2", { attrs: { role: "status" } }, t(`state_${order.status}`), ...(order.reason ? [` · ${t(`reason_${order.reason}`)}`] : [])),
    el("div", { className: "ticket" }, el("span", {}, t("orderNumber")), code, copyButton(code)),
    rows([
      [t("item"), `${order.title ?? ""} ${whole.spec ?? ""} × ${order.quantity}`], [t("goodsPrice"), lines && money(lines.goods)],
      [t("freight"), lines?.freight.amount > 0 && money(lines.freight)], [t("discount"), lines?.discount.amount > 0 && `− ${money(lines.discount)}`],
      [t("due"), order.amount && money(order.amount)], [t("paidBy"), payment?.status === "captured" && t(`pay_${payment.provider}`)],
      [t("details_way"), details?.way && t(`way_${details.way}`)], [t("details_store_id"), details?.store && [details.store.name, details.store.address, details.store.hours].filter(Boolean).join(" · ")],
      [t("details_name"), details?.name], [t("details_phone"), details?.phone], [t("details_address"), details?.address], [t("details_note"), details?.note],
      [t("shipment"), shipment && `${shipment.carrier} ${shipment.tracking_no}`],
    ]), ...actions(order, dispute, again))];
  if (pickup) parts.push(await pickupCard(pickup));
  parts.push(el("section", { className: "card" }, el("h2", {}, t("timeline")),
    el("ol", { className: "timeline" }, ...timeline.slice().reverse().map((e) => el("li", {}, el("strong", {}, t(`line_${e.of}_${e.status}`)), ...(e.amount ? [` ${money(e.amount)}`] : []),
      el("small", { className: "dim" }, at(e.at)))))));
  return parts;
}

// pickupCard shows the code that the store scans; its picture needs the token too.
async function pickupCard({ code, image }) {
  const picture = await fetch(image, { headers: { Authorization: `Bearer ${await bearer()}` } }).then((r) => (r.ok ? r.blob() : undefined), () => undefined);
  return el("section", { className: "card", id: "pickup" }, el("h2", {}, t("pickup")),
    ...(picture ? [el("img", { src: await dataURL(picture), className: "code", width: 256, height: 256, alt: t("pickup") })] : []), el("p", { className: "pin" }, code));
}

const dataURL = (blob) => new Promise((done) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result);
  reader.readAsDataURL(blob);
});

// actions are what a shopper can still do about an order that is paid.
function actions(order, dispute, again) {
  const said = el("div", { attrs: { "aria-live": "polite" } }), buttons = el("div", { className: "row end" });
  const write = (key, field, asks, path) => el("button", { className: "second", id: key, onclick: async () => {
    const text = el("textarea", { name: field, rows: 4, maxLength: 500, required: asks });
    const { answered } = ask(t(key), el("p", { className: "dim" }, t(`${key}_hint`)),
      el("form", { method: "dialog" }, el("label", {}, t(`${key}_text`), text), el("div", { className: "row end" }, el("button", { value: "ok" }, t(key)))));
    if ((await answered) !== "ok") return;
    try {
      await call("POST", path, { body: text.value.trim() ? { [field]: text.value.trim() } : {} });
      again();
      said.replaceChildren(el("p", {}, t(`${key}_done`)));
    } catch (e) {
      said.replaceChildren(problem(explain(e)));
    }
  } }, t(key));
  if (order.status === "paid") buttons.append(write("refund", "note", false, `orders/${order.order_no}/refunds`));
  if (["paid", "completed"].includes(order.status) && (!dispute || dispute.status === "closed")) buttons.append(write("dispute", "reason", true, `orders/${order.order_no}/disputes`));
  if (dispute) said.append(el("p", { className: "dim" }, t(`dispute_${dispute.status}`)));
  return [said, buttons];
}
