import { t, translate, money } from "./words.js";

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
      row.insertCell().textContent = new Date(session.opens_at).toLocaleString();
      row.insertCell().textContent = item.title;
      row.insertCell().textContent = money(item.sale_price);
      row.insertCell().textContent = item.status;
    }
  }
  list.replaceChildren(data.length > 0 ? table : "");
}

load();
setInterval(load, 5000);
