// Pages whose content comes from the server again and again.
import { changes, problem, send, unanswered } from "./api.js";
import { serverNow, sleep } from "./clock.js";
import { el } from "./dom.js";
import { explain } from "./words.js";

export const every = 10_000; // ms between two polls; a crowd's pages spread over half of it more

// keepAsking does some work, which returns in how many ms it makes sense again; 0 waits
// for a login, and false ends it. It is given soon(), which makes the next poll come at
// once. cut are the words for a network that is gone. A hidden page does not poll; one
// that becomes visible, or whose user changed by a login, polls immediately.
export async function keepAsking(error, work, cut) {
  let wake;
  const soon = () => wake?.();
  changes.addEventListener("login", soon);
  const say = (text) => { if (error.textContent !== text) error.replaceChildren(...(text ? [problem(text)] : [])); };
  for (;;) {
    let next = every;
    try {
      next = (await work(soon)) ?? every;
      if (next === false) return changes.removeEventListener("login", soon);
      say("");
    } catch (e) {
      say((unanswered(e) && cut) || explain(e));
      if (e.status === 404 || e.status === 401) next = 0; // until another user logs in, for whom it may exist
    }
    await Promise.race([new Promise((done) => { wake = done; }), ...(next ? [sleep(next * (1 + Math.random() / 2))] : [])]);
    while (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
  }
}

const everyOnSale = 2000; // ms; an item that may be bought, or soon: the server keeps an answer for a second or two
const nearly = 60_000; // ms before the opening

// followItem gives an item to shown() as the server has it, again and again.
export const followItem = (error, id, shown) => keepAsking(error, async () => {
  const item = await send("GET", `items/${encodeURIComponent(id)}`);
  if (shown(item) === false) return false;
  return item.status === "ended" || Date.parse(item.opens_at) - serverNow() > nearly ? every : everyOnSale;
});

// skeleton is what a page shows until its first answer.
export const skeleton = (height) => el("div", { className: "skeleton", style: `height:${height}px`, attrs: { "aria-hidden": "true" } });
