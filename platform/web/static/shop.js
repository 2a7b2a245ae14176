import { t, translate, money } from "./words.js";
import { serverNow } from "./clock.js";

translate();
const list = document.getElementById("list");

const first = () => `TOKEN=$(stampede token --user 1 --role operator)
OPENS=$(date -u -d '+5 minutes' +%FT%TZ); CLOSES=$(date -u -d '+35 minutes' +%FT%TZ)
curl -s ${location.origin}/api/v1/admin/activities -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{
  "name": "First sale", "starts_at": "'$OPENS'", "ends_at": "'$CLOSES'",
  "sessions": [{"name": "first", "opens_at": "'$OPENS'", "closes_at": "'$CLOSES'", "items": [{
    "sku": "phone-15", "title": "Phone 15", "stock": 100,
    "list_price": {"amount": 599900, "currency": "CNY"}, "sale_price": {"amount": 9900, "currency": "CNY"}}]}]}'
# then publish it: POST ${location.origin}/api/v1/admin/activities/{id}/publish`;

async function load() {
  const answer = await fetch("/api/v1/sessions");
  const { data: listed } = await answer.json();
  const data = await Promise.all(listed.map(async (s) => (await fetch(`/api/v1/sessions/${s.id}`)).json()));
  document.getElementById("empty").hidden = data.length > 0;
  document.getElementById("command").textContent = first();
  const table = document.createElement("table");
  const head = table.insertRow();
  for (const key of ["opens", "item", "price", "status"]) head.append(Object.assign(document.createElement("th"), { textContent: t(key) }));
  for (const session of data) {
    for (const item of session.items ?? []) {
      const row = table.insertRow();
      const opens = Object.assign(row.insertCell(), { textContent: new Date(session.opens_at).toLocaleString() });
      opens.append(Object.assign(document.createElement("small"), { className: "countdown" }));
      opens.lastChild.dataset.opens = Date.parse(session.opens_at);
      row.insertCell().textContent = item.title;
      row.insertCell().textContent = money(item.sale_price);
      row.insertCell().textContent = item.status;
    }
  }
  list.replaceChildren(data.length > 0 ? table : "");
}

// tick counts down to the openings by the server's time.
function tick() {
  for (const el of list.querySelectorAll(".countdown")) {
    const s = Math.ceil((Number(el.dataset.opens) - serverNow()) / 1000);
    const two = (n) => String(n).padStart(2, "0");
    el.textContent = s > 0 ? ` ${t("opensIn")} ${two(Math.floor(s / 3600))}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}` : "";
  }
}

load().then(tick);
setInterval(() => load().then(tick), 5000);
setInterval(tick, 250);
