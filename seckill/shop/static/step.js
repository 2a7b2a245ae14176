// What the one button of an item says and does: always the shopper's next step, by the
// server's clock.
import { count, language, t } from "./words.js";

const two = (n) => String(n).padStart(2, "0");
// parts divides a time that is left into days, hours, minutes and seconds.
export function parts(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  return { d: Math.floor(s / 86_400), h: two(Math.floor(s / 3600) % 24), m: two(Math.floor(s / 60) % 60), s: two(s % 60) };
}
// countdown writes a time that is left; days only where there are some.
export function countdown(ms) {
  const { d, h, m, s } = parts(ms);
  return `${d ? `${d} ${t("days")} ` : ""}${d || h !== "00" ? `${h}:` : ""}${m}:${s}`;
}

const has = ["paid", "completed", "refunding", "refund_failed"];

// clockOf is what the big clock counts down to: {label, left}.
export function clockOf(item, buyer, now) {
  const until = (at) => Date.parse(at) - now, order = buyer.order;
  if (order?.status === "pending_payment" && order.pay_until) return { label: "payWithin", left: until(order.pay_until) };
  if (item.reservation_opens_at && !buyer.reserved) {
    if (until(item.reservation_opens_at) > 0) return { label: "reserveOpensIn", left: until(item.reservation_opens_at) };
    if (until(item.reservation_closes_at) > 0) return { label: "reserveClosesIn", left: until(item.reservation_closes_at) };
  }
  if (until(item.opens_at) > 0) return { label: "opensIn", left: until(item.opens_at) };
  if (item.status === "ended" || until(item.closes_at) <= 0) return { label: "over", left: 0 };
  return { label: item.status === "paused" ? "paused" : "onSale", left: until(item.closes_at) };
}

// nextStep is {text, does, early}: a button that does nothing is grey; early says that
// the opening is still to come and the attempt can be armed.
export function nextStep(item, buyer, now, onOrderPage) {
  const until = (at) => Date.parse(at) - now, status = buyer.order?.status;
  if (status === "pending_payment" && until(buyer.order.pay_until) <= 0) return { text: t("closing") };
  if (status === "pending_payment") return { text: t("pay"), does: "pay" };
  if (status === "queued") return { text: t(buyer.order.asked ? "asking" : "queued") };
  if (buyer.sending) return { text: t(buyer.attempt.path ? "sending" : "notQueued") };
  if (has.includes(status)) return onOrderPage ? { text: t("browseOn"), does: "browse" } : { text: t("seeOrder"), does: "see" };
  if (item.status === "ended" || until(item.closes_at) <= 0) return { text: t("browseOn"), does: "browse" };
  if (item.reservation_opens_at) {
    if (until(item.reservation_opens_at) > 0) return { text: t("reserveSoon") };
    if (until(item.reservation_closes_at) > 0 && !buyer.reserved) return { text: t("reserve"), does: "reserve" };
    if (buyer.reserved === false) return { text: t("reservedOnly") };
  }
  const left = until(item.opens_at);
  if (left > 0) return { text: t(buyer.armed ? "sendsIn" : "waitsFor", { left: countdown(left) }), early: true };
  if (["paused", "sold_out", "all_held"].includes(item.status)) return { text: t(`status_${item.status}`) };
  const cools = Math.ceil((buyer.coolUntil - now) / 1000);
  if (cools > 0) return { text: t("coolsDown", { n: count(cools) }) };
  return { text: t(buyer.order || buyer.attempt?.refused ? "buyAgain" : "buy"), does: "buy" };
}

// hint is what a shopper should know when nothing has happened yet.
export function hint(item, buyer, now, mayAct) {
  const until = (at) => Date.parse(at) - now;
  if (buyer.order || buyer.sending) return "";
  if (item.status === "ended" || until(item.closes_at) <= 0) return t("hint_ended");
  if (item.reservation_opens_at && buyer.reserved === false && until(item.reservation_closes_at) <= 0) return t("hint_reservedOnly");
  if (until(item.opens_at) > 0) {
    if (buyer.armed) return t("hint_armed", { at: new Date(item.opens_at).toLocaleTimeString(language) });
    if (until(item.reservation_closes_at) > 0 && !buyer.reserved) return t("hint_reserve");
    return t(mayAct ? "hint_early" : "hint_login");
  }
  return t(["sold_out", "all_held", "preparing", "paused"].includes(item.status) ? `hint_${item.status}` : "hint_open");
}
