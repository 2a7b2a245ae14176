// The server's time, for countdowns: the offset protocol of GET /api/v1/time. The
// visitor's clock may be wrong by any amount and may be set while the page is
// open; performance.now() runs on regardless, so only it is read here.
const asks = 5; // the answer with the shortest round trip is the best of them
const every = 60_000; // ms; quartz drifts some 3 ms in that time

let ahead = Date.now() - performance.now(); // until the first answer the visitor's clock must do
let best; // round trip of the answer in force, in ms

// serverNow is the server's clock in Unix milliseconds, within half of a round trip.
export const serverNow = () => performance.now() + ahead;

async function ask() {
  const t0 = performance.now();
  const answer = await fetch(`/api/v1/time?client_send=${Math.round(t0)}`, { cache: "no-store" });
  const doc = await answer.json();
  const t3 = performance.now();
  if (!answer.ok) throw new Error(doc.title);
  const { server_receive: t1, server_send: t2 } = doc;
  const trip = t3 - t0 - (t2 - t1);
  if (best === undefined || trip <= best) {
    best = trip;
    ahead = (t1 - t0 + (t2 - t3)) / 2;
  }
}

// sync asks a few times, one after the other: answers that travel side by side
// slow each other down.
async function sync() {
  best = undefined;
  try {
    for (let i = 0; i < asks; i++) await ask();
  } catch {
    // Without an answer the last offset stays in force; the next round asks again.
  }
}

// ready settles when the first round is through.
export const ready = sync();
setInterval(sync, every);
// A device that slept may have stopped performance.now().
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && sync());
