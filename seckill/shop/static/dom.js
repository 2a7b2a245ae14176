import { t } from "./words.js";

// el makes an element: properties, then children, which may be texts. What the
// server says gets into the page as text only.
export function el(tag, props = {}, ...children) {
  const { data, attrs, ...rest } = props;
  const made = Object.assign(document.createElement(tag), rest);
  Object.assign(made.dataset, data);
  for (const [name, value] of Object.entries(attrs ?? {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// refill replaces what is in a node. The focus stays on what has the same id or address,
// or goes to the new heading, so that a keyboard does not begin anew with every answer.
export function refill(node, ...made) {
  const at = node.contains(document.activeElement) ? document.activeElement : undefined, href = at?.getAttribute("href");
  node.replaceChildren(...made);
  const same = at?.id ? `#${at.id}` : href && `a[href="${CSS.escape(href)}"]`;
  if (at) ((same && node.querySelector(same)) || node.querySelector("h2"))?.focus({ preventScroll: true });
}

// short is a number as people read it out: its end differs most.
export const short = (no) => `${no.slice(0, 4)}…${no.slice(-8)}`;

// copyButton copies the text of a node, or what the node shortens (data-whole). It is
// selected first: that way of copying needs no https, which the clipboard of newer
// browsers does, and where both are refused the visitor has the text selected.
export function copyButton(node) {
  const bySelection = () => {
    const short = node.textContent;
    if (node.dataset.whole) node.textContent = node.dataset.whole;
    getSelection().selectAllChildren(node);
    const done = document.execCommand("copy");
    if (done) node.textContent = short;
    return done;
  };
  const button = el("button", { type: "button", className: "second small copy", attrs: { "aria-live": "polite" } }, t("copy"));
  button.onclick = async () => {
    const done = bySelection() || (await navigator.clipboard?.writeText(node.dataset.whole || node.textContent).then(() => true, () => false));
    button.textContent = t(done ? "copied" : "copy");
  };
  return button;
}

let stage;
// dialogsIn puts dialogs into a shadow tree, which has their style, instead of the page.
export const dialogsIn = (node) => { stage = node; };
// showDialog shows a dialog before the page.
export function showDialog(dialog) {
  (stage ?? document.body).append(dialog);
  dialog.showModal();
}

// ask opens a dialog and returns it, with a promise of what was chosen: the value of the
// button of a form with method=dialog; undefined when it was closed.
export function ask(title, ...content) {
  const dialog = el("dialog", { attrs: { "aria-label": title } },
    el("div", { className: "row" }, el("h2", { className: "grow" }, title), el("button", { className: "second close", onclick: () => dialog.close(), attrs: { "aria-label": t("close") } }, "✕")),
    ...content);
  showDialog(dialog);
  const answered = new Promise((answer) => { dialog.onclose = () => { dialog.remove(); answer(dialog.returnValue || undefined); }; });
  return { dialog, answered };
}

const drawn = new URL("./goods.svg", import.meta.url).href;
// picture shows goods: a drawn parcel where the shop has no picture or it does not load.
export function picture(src, props) {
  const made = el("img", { src: src || drawn, ...props });
  made.onerror = () => {
    made.onerror = null;
    made.src = drawn;
  };
  return made;
}

// written makes nodes of a text that the server wrote as HTML from CommonMark, without
// scripts, styles and attributes of the writer's.
export const written = (html) => [...new DOMParser().parseFromString(html, "text/html").body.childNodes].map((node) => document.adoptNode(node));
