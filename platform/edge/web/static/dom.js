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

// copyButton copies the text of a node. It is selected first: that way of copying needs
// no https, which the clipboard of newer browsers does, and where both are refused the
// visitor has the text selected.
export function copyButton(node) {
  const bySelection = () => {
    getSelection().selectAllChildren(node);
    return document.execCommand("copy");
  };
  const button = el("button", { type: "button", className: "second small copy", attrs: { "aria-live": "polite" } }, t("copy"));
  button.onclick = async () => {
    const done = bySelection() || (await navigator.clipboard?.writeText(node.textContent).then(() => true, () => false));
    button.textContent = t(done ? "copied" : "copy");
  };
  return button;
}
