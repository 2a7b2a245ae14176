// Plans a sale, sells a unit of it, and receives the news of it, with a client made from the API's document.
import { createServer } from "node:http";
import createClient from "openapi-fetch";
import { Webhook } from "standardwebhooks";
import type { components, paths } from "./stampede.js";

const { SHOP = "", KEY = "", SECRET = "", LISTEN = "" } = process.env;

// [client]
type Schemas = components["schemas"];

// client calls the shop as the holder of a token: of the API key, or of a shopper.
const client = (token: string) =>
  createClient<paths>({ baseUrl: SHOP, fetch: patient, headers: { Authorization: `Bearer ${token}` } });

// patient repeats a request whose answer says when that makes sense.
async function patient(request: Request): Promise<Response> {
  for (;;) {
    const answer = await fetch(request.clone());
    const seconds = answer.headers.get("Retry-After");
    if (seconds === null) return answer;
    await sleep(Number(seconds) * 1000);
  }
}

const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));

// wanted is an answer's document, or the refusal as an error; its member code says which.
function wanted<T>({ data, error }: { data?: T; error?: Schemas["Problem"] }): T {
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}
// [/client]

// [plan]
// plan publishes a sale of 100 phones. Sent again, the same document changes nothing.
async function plan(shop: ReturnType<typeof client>, name: string, opens: Date): Promise<string> {
  const opens_at = opens.toISOString();
  const closes_at = new Date(opens.getTime() + 3600_000).toISOString();
  const phone = {
    external_id: `${name}-phone`, sku: "phone", title: "Phone", stock: 100,
    list_price: { amount: 599_900, currency: "CNY" }, sale_price: { amount: 499_900, currency: "CNY" }, // in fen
  };
  const got = wanted(await shop.PUT("/api/v1/admin/activities/by-external-id/{external_id}", {
    params: { path: { external_id: name } },
    body: {
      name: "First sale", starts_at: opens_at, ends_at: closes_at, publish: true,
      sessions: [{ external_id: `${name}-noon`, name: "Noon", opens_at, closes_at, items: [phone] }],
    },
  }));
  return got.activity!.sessions![0]!.items![0]!.id;
}
// [/plan]

// [sell]
// sell buys a unit for a user of the shop's own system, and returns where they pay.
async function sell(shop: ReturnType<typeof client>, user: string, item: string) {
  const login = wanted(await shop.POST("/api/v1/auth/exchange-user", { body: { subject: user } }));
  const shopper = client(login.access_token);

  // One path is one attempt: it can be sent again and has its effect once.
  const path = wanted(await shopper.POST("/api/v1/items/{id}/rush-path", { params: { path: { id: item } }, body: { quantity: 1 } }));
  await sleep(Date.parse(path.usable_from) - Date.now()); // the opening
  const { order_no: no } = wanted(await shopper.POST("/api/v1/rush/{path}", { params: { path: { path: path.path } } }));

  // In line: an answer with Retry-After until the order exists.
  return wanted(await shopper.POST("/api/v1/orders/{no}/payments", { params: { path: { no } }, body: {} }));
}
// [/sell]

// [receive]
// receive verifies what is posted to the webhook's address. An event may come twice.
function receive(secret: string, paid: (order: Schemas["OrderData"]) => void) {
  const hook = new Webhook(secret);
  return createServer(async (request, response) => {
    let body = "";
    for await (const part of request.setEncoding("utf8")) body += part;
    try {
      const event = hook.verify(body, request.headers as Record<string, string>) as Schemas["Event"];
      if (event.type === "order.paid") paid(event.data); // a later release may have more types
      response.end(); // 200: it is not sent again
    } catch {
      response.writeHead(400).end();
    }
  });
}
// [/receive]

const [host, port] = LISTEN.split(":");
const news: Record<string, () => void> = {};
receive(SECRET, (order) => news[order.order_no]?.()).listen(Number(port), host).unref();

const shop = client(KEY);
const item = await plan(shop, "first-ts", new Date(Date.now() + 5000));
const { order_no: no, pay_url } = await sell(shop, "user-ts", item);
const paid = new Promise<void>((done) => (news[no] = done));
// The shopper's browser goes there; the sandbox also takes a payment from a program.
await fetch(pay_url!, { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"action":"pay"}' });
await Promise.race([paid, sleep(60_000).then(() => { throw new Error("no news of the paid order"); })]);
const { order } = wanted(await shop.GET("/api/v1/admin/orders/{no}", { params: { path: { no } } }));
console.log(order.status, no);
process.exit();
