// Pages whose content comes from the server again and again.
import { changes, problem, unanswered } from "./api.js";
import { sleep } from "./clock.js";
import { el } from "./dom.js";
import { explain } from "./words.js";

export const every = 10_000; // ms between two polls; a crowd's pages spread over half of it more

// keepAsking does some work, which returns in how many ms it makes sense again; 0 waits
// for a login. It is given soon(), which makes the next poll come at once. cut are the
// words for a network that is gone. A hidden page does not poll; one that becomes visible,
// or whose user changed by a login, polls immediately.
export async function keepAsking(error, work, cut) {
  let wake;
  const soon = () => wake?.();
  changes.addEventListener("login", soon);
  const say = (text) => { if (error.textContent !== text) error.replaceChildren(...(text ? [problem(text)] : [])); };
  for (;;) {
    let next = every;
    try {
      next = (await work(soon)) ?? every;
      say("");
    } catch (e) {
      say((unanswered(e) && cut) || explain(e));
      if (e.status === 404 || e.status === 401) next = 0; // until another user logs in, for whom it may exist
    }
    await Promise.race([new Promise((done) => { wake = done; }), ...(next ? [sleep(next * (1 + Math.random() / 2))] : [])]);
    while (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
  }
}

// skeleton is what a page shows until its first answer.
export const skeleton = (height) => el("div", { className: "skeleton", style: `height:${height}px`, attrs: { "aria-hidden": "true" } });
