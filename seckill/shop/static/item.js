// The page of one item.
import { el, written } from "./dom.js";
import { send } from "./api.js";
import { serverNow } from "./clock.js";
import { back, ways } from "./login.js";
import { followItem, skeleton } from "./poll.js";
import { SaleCard } from "./sale.js";
import { language, t } from "./words.js";

export function show(main, query) {
  const id = encodeURIComponent(query.get("item"));
  const served = main.querySelector(".sale"); // the item as it looks, without its state
  let read;
  // detail is read once, by the first who needs it; after a failure the next one asks again.
  const detail = () => (read ??= send("GET", `items/${id}/detail`).catch((e) => { read = undefined; throw e; }));
  const card = Object.assign(new SaleCard(), { ways }), error = el("div", { className: "toast" }), waits = served ?? skeleton(560);
  main.classList.add("item");
  main.replaceChildren(el("p", {}, el("a", { href: "/?sessions" }, `‹ ${t("sessions")}`)), error, el("div", { className: "narrow" }, waits));
  followItem(error, query.get("item"), (item) => {
    card.show(item);
    if (!card.isConnected) {
      waits.replaceWith(card);
      card.append(fold(detail, item));
      back.then((came) => came?.pressed && card.goOn(came.pressed));
      if (!served) document.title = item.title;
      if (item.reservation_opens_at && Date.parse(item.opens_at) > serverNow()) detail().then(({ reserved }) => card.reservedBy(reserved), () => {});
    }
  });
}

// fold is what there is to read about an item; it is loaded when it is opened.
function fold(detail, item) {
  const body = el("div", { attrs: { "aria-live": "polite" } });
  const details = el("details", { className: "fold" }, el("summary", {}, t("aboutItem")), calendar(item), body); // what comes later moves nothing
  details.ontoggle = async () => {
    if (!details.open || body.firstChild) return;
    const asked = await detail().catch((e) => e);
    if (asked instanceof Error) return body.replaceChildren(); // the next opening asks again
    body.replaceChildren(...reading(asked));
    body.lang = language;
  };
  return details;
}

// reading is what an item's page tells about it.
export const reading = (detail) => [
  ...written(detail.description_html), ...detail.images.map((src) => el("img", { src, alt: "", loading: "lazy" })),
  ...(detail.rules_html ? [el("h3", {}, t("rules")), ...written(detail.rules_html)] : []),
  ...(detail.description_html || detail.rules_html || detail.images.length > 0 ? [] : [el("p", { className: "dim" }, t("noDetail"))]),
];

// calendar is a link to an entry for the shopper's calendar, with a reminder ten minutes
// before the opening.
function calendar({ id, title, opens_at, closes_at }) {
  const stamp = (time) => new Date(time).toISOString().replace(/[-:]|\.\d+/g, "");
  const text = title.replace(/[\\;,]/g, "\\$&").replace(/\s+/g, " "), url = `${location.origin}/?item=${id}`;
  const lines = [
    "BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Stampede//shop//EN", "BEGIN:VEVENT", `UID:item-${id}@${location.hostname}`, `DTSTAMP:${stamp(serverNow())}`,
    `DTSTART:${stamp(opens_at)}`, `DTEND:${stamp(closes_at)}`, `SUMMARY:${text}`, `URL:${url}`, "BEGIN:VALARM", "ACTION:DISPLAY", `DESCRIPTION:${text}`, "TRIGGER:-PT10M", "END:VALARM", "END:VEVENT", "END:VCALENDAR", "",
  ];
  return el("p", {}, el("a", { href: `data:text/calendar;charset=utf-8,${encodeURIComponent(lines.join("\r\n"))}`, download: `${id}.ics` }, t("toCalendar")));
}
