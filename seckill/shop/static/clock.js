// The server's time, for countdowns: the offset protocol of GET /api/v1/time. The
// visitor's clock may be wrong by any amount and may be set while the page is
// open; performance.now() runs on regardless, so only it is read here.
const asks = 3; // the answer with the shortest round trip is the best of them
const every = 60_000; // ms
const drift = 6; // ms of a round trip, half of it of the offset: quartz drifts some 3 ms between two rounds
const retry = 2000; // ms until the next round when the first one failed
const patience = 5000; // ms for an answer; a network that is gone may never say so

let ahead = Date.now() - performance.now(); // until the first answer the visitor's clock must do
let best = Infinity; // round trip of the answer in force, in ms, with the drift since
let known;

// ready settles with the first answer, so that a page far away does not wait for the others.
export const ready = new Promise((done) => { known = done; });

// serverNow is the server's clock in Unix milliseconds, within half of a round trip.
export const serverNow = () => performance.now() + ahead;

async function ask() {
  const t0 = performance.now();
  const answer = await fetch(new URL(`/api/v1/time?client_send=${Math.round(t0)}`, import.meta.url), { cache: "no-store", signal: AbortSignal.timeout(patience) });
  const doc = await answer.json();
  const t3 = performance.now();
  if (!answer.ok) throw new Error(doc.title);
  const { server_receive: t1, server_send: t2 } = doc;
  const trip = t3 - t0 - (t2 - t1), offset = (t1 - t0 + (t2 - t3)) / 2;
  // The one in force is off by half of its round trip at most, unless performance.now() has stopped.
  if (trip <= best || Math.abs(offset - ahead) > (trip + best) / 2) [best, ahead] = [trip, offset];
  known();
}

let syncing; // one round at a time
// sync asks a few times, one after the other: answers that travel side by side
// slow each other down. It returns whether the offset is the server's.
function sync() {
  syncing ??= (async () => {
    best += drift;
    try {
      for (let i = 0; i < asks; i++) await ask();
    } catch {
      // Without an answer the last offset stays in force; the next round asks again.
    }
    syncing = undefined;
    return best < Infinity;
  })();
  return syncing;
}

(async () => {
  while (!(await sync())) await new Promise((done) => setTimeout(done, retry));
})();
setInterval(sync, every);

// awake fires "wake" when the page may have missed something: it was hidden, frozen,
// restored from the browser's memory, or without a network. A device that slept may
// have stopped performance.now(), so the time is asked for first.
export const awake = new EventTarget();
const wake = () => sync().then(() => awake.dispatchEvent(new Event("wake")));
for (const name of ["online", "pageshow"]) addEventListener(name, (e) => (name === "online" || e.persisted) && wake());
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && wake());
document.addEventListener("resume", wake);

// Timers of a hidden page may be delayed by a minute, those of a worker are not.
let ticker;
const due = new Map();
function inWorker(ms, done) {
  if (!ticker) {
    const file = new URL("./ticker.js", import.meta.url).href;
    // A page of another site may start a module of its own only, which may load another's.
    const own = file.startsWith(`${location.origin}/`) ? file : URL.createObjectURL(new Blob([`import ${JSON.stringify(file)}`], { type: "text/javascript" }));
    ticker = new Worker(own, { type: "module" });
    ticker.onmessage = ({ data }) => {
      due.get(data)?.();
      due.delete(data);
    };
  }
  const id = crypto.getRandomValues(new Uint32Array(1))[0];
  due.set(id, done);
  ticker.postMessage({ id, ms });
}

// sleep resolves after some milliseconds, or earlier when the page wakes; punctual
// says that the shopper may be looking elsewhere meanwhile.
export function sleep(ms, punctual) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      awake.removeEventListener("wake", end);
      done();
    };
    const timer = setTimeout(end, ms);
    if (punctual) inWorker(ms, end);
    awake.addEventListener("wake", end);
  });
}

const longest = 86_400_000; // ms; a timer of more than 24 days would fire at once
// until resolves when the server's clock shows a time in Unix milliseconds.
export async function until(at) {
  for (let left; (left = at - serverNow()) > 0;) await sleep(Math.min(left + 1, longest), true);
}
