// What an item's page will show, for the staff: the same card and texts, also of a
// draft. The back office answers for the item, to those who are signed in there.
import { el } from "./dom.js";
import { send } from "./api.js";
import { reading } from "./item.js";
import { ways } from "./login.js";
import { SaleCard } from "./sale.js";
import { explain, t } from "./words.js";

export async function show(main, query) {
  const id = encodeURIComponent(query.get("preview"));
  const shown = await send("GET", `/admin/items/${id}/preview`).catch((e) => e);
  main.classList.add("item");
  const says = (...what) => main.append(el("p", { className: "problem", attrs: { role: "status" } }, ...what));
  if (shown instanceof Error) return says(explain(shown));
  // Without a session the office answers with its sign-in page, which is no JSON.
  if (!shown.item) return says(el("a", { href: `/admin/sign-in?next=${encodeURIComponent(`/admin/items/${id}`)}` }, t("previewLogin")));
  says(t("preview"));
  const card = Object.assign(new SaleCard(), { ways });
  // Nothing can be bought here; the card would ask for what shoppers may see.
  card.inert = true;
  main.append(el("div", { className: "narrow" }, card, el("details", { className: "fold", open: true }, el("summary", {}, t("aboutItem")), el("div", {}, ...reading(shown.detail)))));
  card.show(shown.item);
  document.title = `${t("preview")} · ${shown.item.title}`;
}
