// Requests to the API, and the tokens that they carry: those of a login, which all
// tabs of the browser share, or those of a guest, who is one shopper in all tabs too,
// where the page allows guests.
import { serverNow } from "./clock.js";
import { el } from "./dom.js";
import { t } from "./words.js";

// at is where something of the server is that this module came from, for pages of other
// sites too.
export const at = (path) => new URL(path, import.meta.url);

const missed = {}; // how often a module did not load
// later returns a module that few visitors need; load() imports it. A browser may keep a failed
// import until the page is loaded again, so the next one asks by another address.
export const later = (name, load) => (missed[name] ? import(at(`./${name}?${missed[name]}`).href) : load()).catch((e) => {
  missed[name] = (missed[name] ?? 0) + 1;
  throw e;
});

// The login is kept in localStorage: the API hands tokens to the page, and the
// pages load no script but the shop's own, and that of the verifier that the operator has
// set (see Content-Security-Policy).
const loginKey = "stampede-login", guestKey = "stampede-guest", deviceKey = "stampede-device";

// changes fires "login" after a login or logout in any tab.
export const changes = new EventTarget();
const tell = () => changes.dispatchEvent(new Event("login"));
const userOf = (kept) => (kept ? JSON.parse(kept).user : undefined);
addEventListener("storage", (e) => e.key === loginKey && userOf(e.oldValue) !== userOf(e.newValue) && tell()); // not of a token that was renewed
addEventListener("pageshow", (e) => e.persisted && tell()); // a page in the browser's back cache gets no storage events

// Refusal is an error answer: title is for people and in their language,
// code for programs, doc the whole document.
export class Refusal extends Error {
  constructor(answer, doc) {
    super(doc.title ?? `HTTP ${answer.status}`);
    this.code = doc.code ?? `http-${answer.status}`;
    this.status = answer.status;
    this.doc = doc;
    this.retryAfter = Number(answer.headers.get("Retry-After") ?? 0); // seconds
  }
}

// patience is how long a request waits for its answer, in ms: a network that is gone may
// never say so, and every request that matters is repeated.
const patience = 10_000;

// unanswered tells errors of requests whose outcome is unknown: no answer came.
export const unanswered = (e) => e instanceof TypeError || e.name === "TimeoutError";

const ended = "login-ended"; // of a page that has no token now, and may have one later

// passing tells errors after which the same request makes sense again: nothing was
// decided, or nothing is known.
export const passing = (e) => unanswered(e) || e.code === ended || e.status >= 500 || e.status === 425 || (e.status === 429 && e.code !== "cooling-down");

// send makes a plain request. An answer that is not JSON comes from a proxy.
export async function send(method, path, { body, token, proof, headers = {} } = {}) {
  if (token) headers.Authorization = `Bearer ${token}`;
  if (proof) headers["Human-Check"] = proof;
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(at(/^(\/|https?:)/.test(path) ? path : `/api/v1/${path}`), { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(patience) });
  const doc = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal(answer, doc);
  return doc;
}

// call sends as the page's user and refreshes an expired token once.
export async function call(method, path, options = {}) {
  const token = await acting();
  try {
    return await send(method, path, { ...options, token });
  } catch (e) {
    if (e.code !== "bad-token" || !token) throw e;
    if (source) expire(token);
    else if (login()?.access === token) await refresh(login().refresh);
    else localStorage.removeItem(guestKey);
    const renewed = await acting();
    if (!renewed) throw e;
    return send(method, path, { ...options, token: renewed });
  }
}

// login returns the current login: {access, refresh, until, user, phone}; else null.
export const login = () => JSON.parse(localStorage.getItem(loginKey));

// keep stores the tokens of a login.
export async function keep(tokens) {
  const { phone } = await send("GET", "me", { token: tokens.access_token }).catch(() => ({}));
  store(tokens, phone);
  tell();
}

function store(tokens, phone) {
  localStorage.setItem(loginKey, JSON.stringify({
    access: tokens.access_token, refresh: tokens.refresh_token, until: Date.now() + tokens.expires_in * 1000, user: tokens.user_id, phone,
  }));
}

export async function logout() {
  const was = login();
  forget();
  if (was) await send("POST", "auth/logout", { token: was.access }).catch(() => {}); // it expires anyway
}

function forget() {
  localStorage.removeItem(loginKey);
  globalThis.caches?.delete(loginKey);
  tell();
}

let source, given; // of a page that has its own logins: where tokens come from, and {token, user, until}; one that ended is missing

// actFor makes the page act for the user of an access token, or of what a function
// returns: it is called again, with {renew: true}, when its token expires. A page that
// calls it uses no login of this server.
export async function actFor(from) {
  source = typeof from === "function" ? from : () => from;
  given = undefined;
  await askPage();
  tell();
}

// askPage asks for a token. While the page has no other one than that which ends, the
// shopper stays the same, so that what was begun goes on when it has.
async function askPage(renew = false) {
  const asked = source;
  let next;
  try {
    const token = await asked({ renew });
    if (token && token !== given?.token) next = read(token);
  } catch (e) {
    if (!renew || unanswered(e)) throw e;
  }
  if (asked !== source) return;
  const was = given;
  given = next ?? (was?.until > serverNow() ? was : was && { user: was.user, until: 0 });
  if (renew && given?.user !== was?.user) tell();
}

// askAgain asks the page for a token that it did not have, and returns whether it has one.
export async function askAgain() {
  if (source) await askPage(true).catch(() => {});
  return mayAct();
}

const expire = (token) => { if (given?.token === token) given.until = 0; };

// lost says that the page's token has ended and there is no other one yet.
export const lost = () => Boolean(source && given && !given.token);

async function acting() {
  const token = await bearer();
  if (lost()) throw Object.assign(new Error(t("loginEnded")), { code: ended });
  return token;
}

// read returns what an access token says; only the server checks it.
function read(token) {
  try {
    const { sub, exp } = JSON.parse(atob(token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/")));
    return { token, user: sub, until: exp * 1000 };
  } catch {
    throw new Error("the page gave no access token");
  }
}

let guests; // where a guest's token comes from, if the page allows guests
let welcoming; // the request for one
export const allowGuests = (address) => { guests = address; };
export const mayAct = () => Boolean(source ? given?.token : login() || guests);
const guest = () => JSON.parse(localStorage.getItem(guestKey)); // {token, user_id}; else null
// who is the id of the user that the page acts for; undefined without
// a login, and for a guest until the first request that needs a token.
export const who = () => (source ? given?.user : login()?.user ?? (guests && guest()?.user_id));

// early is how long before its expiry an access token is refreshed: longer than a
// request takes on a bad connection.
const early = 20_000;

// bearer is the token to act with; undefined without a login or guest.
export async function bearer() {
  if (source) {
    if (given?.until - serverNow() < early) await askPage(true).catch((e) => { if (given.until <= serverNow()) throw e; });
    return given?.token;
  }
  const now = login();
  if (now) return (now.until - Date.now() > early ? now : await refresh(now.refresh))?.access;
  if (!guests) return undefined;
  if (!guest()) {
    // One request for all concurrent callers: the socket and the attempt belong to one shopper.
    welcoming ??= send("POST", guests, { body: {} }).then((made) => localStorage.setItem(guestKey, JSON.stringify(made))).finally(() => { welcoming = undefined; });
    await welcoming;
  }
  return guest().token;
}

let renewing; // one at a time in this tab
// refresh exchanges a refresh token, once for all tabs: the second tab to get the lock
// finds the first one's result. A cache passes it on, because another tab's write to
// localStorage may become visible a moment late. Where the browser has neither,
// on plain http, the server gives two tabs the same successor within ten seconds.
function refresh(used) {
  const alone = (work) => (navigator.locks ? navigator.locks.request("stampede-refresh", work) : work());
  renewing ??= alone(async () => {
    const now = login();
    if (!now || now.refresh !== used) return now;
    const desk = await globalThis.caches?.open(loginKey).catch(() => {}); // a browser may refuse it
    const got = await (await desk?.match("/"))?.json();
    if (got?.used === used) {
      store(got.tokens, now.phone);
      return login();
    }
    try {
      const tokens = await send("POST", "auth/refresh", { body: { refresh_token: used, device_id: device().id } });
      store(tokens, now.phone); // first: the server has ended the one that was used
      await desk?.put("/", new Response(JSON.stringify({ used, tokens }))).catch(() => {});
    } catch (e) {
      if (e.status !== 401) throw e; // the server is down: the login may still be valid
      forget();
    }
    return login();
  }).finally(() => { renewing = undefined; });
  return renewing;
}

export const inWeChat = /MicroMessenger/.test(navigator.userAgent);

// unguessable is 128 random bits as text.
export const unguessable = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");

// device is this browser as the user knows it: the phone that confirms a login
// shows the name.
export function device() {
  let id = localStorage.getItem(deviceKey);
  if (!id) {
    id = unguessable();
    localStorage.setItem(deviceKey, id);
  }
  const agent = navigator.userAgent;
  const browser = inWeChat ? "WeChat" : /Edg\//.test(agent) ? "Edge" : /Firefox\//.test(agent) ? "Firefox" : /Chrome\//.test(agent) ? "Chrome" : "Safari";
  const system = /Android/.test(agent) ? "Android" : /iPhone|iPad/.test(agent) ? "iOS" : /Windows/.test(agent) ? "Windows" : /Mac OS/.test(agent) ? "macOS" : "Linux";
  return { kind: "web", id, name: `${browser}, ${system}` };
}

// problem shows a refusal: what happened, and what can be done.
export const problem = (text) => el("p", { className: "problem", attrs: { role: "alert" } }, text);
