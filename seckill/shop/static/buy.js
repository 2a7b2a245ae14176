// <stampede-buy item="42"> sells one item of this server on a page of another site:
//
//   <script type="module" src="//sale.shop.example/static/buy.js"></script>
//   <stampede-buy item="42" order-href="/orders/{order_no}"></stampede-buy>
//
// Attributes: item; compact leaves out the picture and the text about the item; scheme is
// light, dark, or auto: dark where the shopper's screen is, for pages that are too;
// order-href and browse-href are where the shopper sees the order and other items.
//
// Property token: an access token, or a function that returns one, or a promise of one;
// it is called again, with {renew: true}, when the token expires. The page has one
// shopper, so one element's token is that of all. Without one the press of a button asks
// it again and then fires "login"; set the token then. What the shopper has begun waits
// for it.
//
// Events, which bubble and have a detail: granted {order_no}, refused {code, title} or
// the order, paid with the order, login. After a reload they come again.
//
// Colours: --stampede-accent, which is the shop's otherwise, --stampede-text, --stampede-dim, --stampede-line and
// --stampede-card; the font is that of the page.
import { actFor, askAgain, changes, mayAct } from "./api.js";
import { dialogsIn, el } from "./dom.js";
import { followItem } from "./poll.js";
import { SaleCard } from "./sale.js";
import css from "./buy.css"; // made of style.css

// The pages' style, within the element. What the page around it sets of the host wins.
const style = new CSSStyleSheet();
style.replaceSync(`${css.replace(/(@media ?\(prefers-color-scheme: ?dark\) ?{):root ?({[^}]*})}/, "$1:host([scheme=auto])$2}:host([scheme=dark])$2").replaceAll(":root", ":host").replace(/(^|})body{[^}]*}/, "$1")}
:host{display:block;font-size:15px;line-height:1.5;color:var(--ink)}:host([hidden]){display:none}:host(:not([scheme=auto])){color-scheme:light}:host([scheme=dark]){color-scheme:dark}
:host([compact]) sale-card>:is(.picture,.about){display:none}
:host{--hot:var(--stampede-accent,#cf2a20);--deep:color-mix(in srgb,var(--hot) 75%,#000)}
.card,dialog,.toast{--price:var(--stampede-accent,inherit);--ink:var(--stampede-text,inherit);--dim:var(--stampede-dim,inherit);--line:var(--stampede-line,inherit);--card:var(--stampede-card,inherit)}`);

class StampedeBuy extends HTMLElement {
  static observedAttributes = ["item"];
  #box; #round = 0;

  constructor() {
    super();
    this.#box = this.attachShadow({ mode: "open" });
    this.#box.adoptedStyleSheets = [style];
    if (!Object.hasOwn(this, "token")) return;
    const { token } = this; // set before this script was there
    delete this.token;
    this.token = token;
  }

  set token(from) { actFor(from).catch((e) => this.#fire("refused", { code: "no-token", title: String(e.message ?? e) })); }

  connectedCallback() { this.#show(); }
  disconnectedCallback() { this.#round++; }
  attributeChangedCallback() { if (this.isConnected) this.#show(); }

  #show() {
    const round = ++this.#round, id = this.getAttribute("item");
    if (!id) return this.#box.replaceChildren();
    const follows = (attribute) => (this.hasAttribute(attribute)
      ? (no) => location.assign(this.getAttribute(attribute).replace("{order_no}", no)) : undefined);
    const card = new SaleCard();
    card.ways = {
      login: () => this.#login(), see: follows("order-href"), browse: follows("browse-href"),
      pay: (url) => open(url, "_blank", "noopener"), target: "_blank", tells: (of, what) => this.#fire(of, what),
    };
    const error = el("div", { className: "toast" });
    this.#box.replaceChildren(card, error);
    dialogsIn(this.#box);
    return followItem(error, id, (item) => round === this.#round && card.show(item));
  }

  // #login asks the page to log the shopper in, and waits for the token.
  async #login() {
    if (await askAgain()) return true;
    const logged = new Promise((done) => { changes.addEventListener("login", () => done(mayAct()), { once: true }); });
    this.#fire("login");
    return logged;
  }

  #fire(of, detail) { this.dispatchEvent(new CustomEvent(of, { detail, bubbles: true, composed: true })); }
}
customElements.define("stampede-buy", StampedeBuy);
