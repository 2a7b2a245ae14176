// The page of one order: the shopper returns here from the bank too. While it is to be
// paid, its item is above; all that is known of it is below.
import { ask, copyButton, el, refill, short } from "./dom.js";
import { bearer, call, login, send } from "./api.js";
import { tries } from "./code.js";
import { askLogin, ways } from "./login.js";
import { keepAsking, skeleton } from "./poll.js";
import { SaleCard } from "./sale.js";
import { language, money, t } from "./words.js";

const often = 2000, talking = 5000, rarely = 15_000; // ms between two looks at an order that may change soon, one in a dispute, and others
const final = ["refused", "closed", "refunded"];

// standIn is the item of an order that waits for its payment when the server does not show its own: it forgets
// an item a day after the activity, and the payment window may last a week.
const standIn = ({ item_id: id, title, unit_price: sale_price }) => ({ id, title, sale_price, status: "ended" });

export function show(main, query) {
  const no = query.get("order"), path = `orders/${encodeURIComponent(no)}`;
  const card = Object.assign(new SaleCard(), { ways }), error = el("div", { className: "toast" }), sheet = el("div"), box = el("div", { className: "narrow" }, skeleton(560));
  main.append(el("p", {}, el("a", { href: "/?orders" }, `‹ ${t("myOrders")}`)), error, box);
  let version, drawn, talk, item, itemLeft = false;
  keepAsking(error, async (soon) => {
    if (!login() && !document.body.dataset.guests) await askLogin();
    const order = await call("GET", path);
    if (order.item_id && !itemLeft) {
      item = await send("GET", `items/${order.item_id}`).catch((e) => {
        itemLeft = e.status === 404;
        return item; // the order's page does without; a busy server refuses items first
      });
    }
    const waits = ["queued", "pending_payment"].includes(order.status), shown = item ?? (order.status === "pending_payment" && standIn(order));
    const sells = shown && (waits || card.isConnected);
    if (sells) card.show(shown, no);
    if (order.status === "queued") {
      sheet.replaceChildren(el("section", { className: "card nothing" }, el("p", {}, t("step_next"))));
    } else if (order.version !== version || !waits) { // a reply and a refund of a part leave the version as it is
      const whole = await call("GET", `${path}/document`);
      talk = whole.dispute && (await call("GET", `${path}/disputes`)).data.at(-1);
      const now = JSON.stringify([whole, talk]);
      if (now !== drawn) refill(sheet, ...(await draw(whole, talk, () => { version = undefined; soon(); })));
      [version, drawn] = [order.version, now];
    }
    if (!sheet.isConnected || (sells && !card.isConnected)) box.replaceChildren(...(sells ? [card] : []), sheet); // all at once, so that nothing moves
    if (waits || order.status === "refunding") return often;
    return talk && talk.status !== "closed" ? talking : rarely;
  }, t("offlineOrder"));
}

const at = (time) => new Date(time).toLocaleString(language, { dateStyle: "medium", timeStyle: "medium" });
const rows = (pairs) => el("dl", {}, ...pairs.filter(([, value]) => value).flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, value)]));

async function draw(whole, talk, again) {
  const { order, payment, details, shipment, pickup, timeline } = whole, { lines } = order;
  const code = el("code", { data: { whole: order.order_no } }, short(order.order_no));
  const parts = [el("section", { className: "card", id: "order", data: { status: order.status } },
    el("h2", { tabIndex: -1, attrs: { role: "status" } }, t(`state_${order.handover ?? order.status}`), ...(order.reason ? [` · ${t(`reason_${order.reason}`)}`] : [])),
    ...note(order, payment),
    ...(whole.image_url ? [el("img", { className: "thumb", src: whole.image_url, alt: "" })] : []),
    el("div", { className: "ticket" }, el("span", {}, t("orderNumber")), code, copyButton(code)),
    rows([
      [t("item"), `${order.title ?? ""} ${whole.spec ?? ""} × ${order.quantity}`], [t("goodsPrice"), lines && money(lines.goods)],
      [t("freight"), lines?.freight.amount > 0 && money(lines.freight)], [t("discount"), lines?.discount.amount > 0 && `− ${money(lines.discount)}`],
      [t("due"), order.amount && money(order.amount)], [t("paidBy"), payment?.status === "captured" && t(`pay_${payment.provider}`)],
      [t("details_way"), details?.way && t(`way_${details.way}`)], [t("details_store_id"), details?.store && [details.store.name, details.store.address, details.store.hours].filter(Boolean).join(" · ")],
      [t("details_name"), details?.name], [t("details_phone"), details?.phone?.replace(/^\+86/, "")], [t("details_address"), details?.address], [t("details_note"), details?.note],
      [t("shipment"), shipment && parcel(shipment)], [t("refundUntil"), whole.refund_until && at(whole.refund_until)], [t("contact"), contact()],
    ]), ...actions(whole, again))];
  if (talk) parts.push(disputeCard(talk, again));
  if (pickup) parts.push(await pickupCard(pickup));
  parts.push(el("section", { className: "card" }, el("h2", {}, t("timeline")),
    el("ol", { className: "timeline" }, ...timeline.filter(news).reverse().map((e) => el("li", {}, el("strong", {}, t(shipped(e) ? "line_order_shipped" : `line_${e.of}_${e.status}`)), ...(e.amount ? [` ${money(e.amount)}`] : []),
      el("small", { className: "dim" }, at(e.at)))))));
  return parts;
}

// parcel is how an order was sent, with the page where it is followed.
function parcel({ carrier_name, tracking_no, tracking_url }) {
  const text = tracking_no === "-" ? carrier_name : `${carrier_name} ${tracking_no}`;
  return tracking_url ? el("a", { href: tracking_url, target: "_blank", rel: "noopener noreferrer", id: "tracking" }, text) : text;
}

// contact is how the shop is reached: a page, a phone or a text.
function contact() {
  const text = document.body.dataset.contact;
  if (/^https:\/\//.test(text)) return el("a", { href: text, target: "_blank", rel: "noopener" }, text);
  return /^\+?[\d -]{5,20}$/.test(text) ? el("a", { href: `tel:${text.replaceAll(/[ -]/g, "")}` }, text) : text;
}

// shipped tells that a paid order was sent.
const shipped = (e) => e.of === "order" && e.status === "paid" && e.reason === "shipped";

// news tells a change of state from one of the details before the payment.
const news = (e, i, all) => e.of !== "order" || shipped(e) || all.slice(0, i).findLast((before) => before.of === "order")?.status !== e.status;

const refundWaits = (payment) => payment?.refunds?.some((r) => r.status === "awaiting_approval");

// note is what a shopper who returns from the bank, or asked for money back, has to know.
function note({ status }, payment) {
  const begun = status === "pending_payment" && payment?.status === "created", late = status === "closed" && payment?.status === "captured";
  const text = begun ? t("payOpen", { way: t(`pay_${payment.provider}`) }) : late ? t("paidLate") : refundWaits(payment) ? t("refundWaits") : "";
  return text ? [el("p", { id: "note" }, text)] : [];
}

// disputeCard is what was written about an order's latest dispute, by whom.
function disputeCard(dispute, again) {
  const line = (by, text, time) => el("li", {}, el("strong", {}, t(`by_${by}`)), el("p", {}, text), el("small", { className: "dim" }, at(time)));
  return el("section", { className: "card", id: "talk" }, el("h2", { attrs: { role: "status" } }, t(`dispute_${dispute.status}`)),
    el("ul", { className: "talk" }, line("shopper", dispute.reason, dispute.created_at), ...(dispute.texts ?? []).map((e) => line(e.by === "shop" ? "shop" : "shopper", e.text, e.at))),
    ...(dispute.status === "closed" ? [] : [el("div", { className: "row end" }, write(again, "reply", "text", true, `disputes/${dispute.dispute_no}/replies`))]));
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

// write is a button that asks for a text, if it has a field, and sends it.
function write(again, key, field, asks, path) {
  return el("button", { className: "second", id: key, onclick: () => {
    const text = field && el("textarea", { name: field, rows: 4, maxLength: 500, required: asks, autofocus: true });
    const said = el("div", { attrs: { "aria-live": "polite" } }), go = el("button", {}, t(key));
    const form = el("form", {}, ...(field ? [el("label", {}, t(`${key}_text`), text)] : []), said, el("div", { className: "row end" }, go));
    const { dialog } = ask(t(key), el("p", { className: "dim" }, t(`${key}_hint`)), form);
    form.onsubmit = (e) => {
      e.preventDefault();
      tries(said, go, async () => {
        await call("POST", path, { body: field && text.value.trim() ? { [field]: text.value.trim() } : {} });
        dialog.close();
        again();
      });
    };
  } }, t(key));
}

// actions are what a shopper can still do about an order.
function actions(whole, again) {
  const { order, dispute } = whole, path = `orders/${order.order_no}`, buttons = el("div", { className: "row end" });
  if (order.status === "paid" && order.handover === "shipped") buttons.append(write(again, "receipt", "", false, `${path}/receipt`));
  if (whole.refund_until && !refundWaits(whole.payment)) buttons.append(write(again, "refund", "reason", false, `${path}/refunds`));
  if (["paid", "completed"].includes(order.status) && (!dispute || dispute.status === "closed")) buttons.append(write(again, "dispute", "reason", true, `${path}/disputes`));
  if (final.includes(order.status) && order.item_id) buttons.append(el("a", { className: "button", id: "again", href: `/?item=${order.item_id}` }, t("buyItem")));
  return [buttons];
}
