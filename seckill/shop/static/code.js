// Forms that ask for a phone and the code that is sent to it.
import { device, problem, send } from "./api.js";
import { sleep } from "./clock.js";
import { el } from "./dom.js";
import { withProof } from "./door.js";
import { explain, t } from "./words.js";

const longest = 60; // s that a button counts down; a longer pause is in the refusal's words

export const field = (label, props) => el("label", {}, label, el("input", { required: true, ...props }));
export const digits = (key, name) => field(t(key), { name, autocomplete: "one-time-code", inputMode: "numeric", pattern: "[0-9]{6}", maxLength: 6 });
export const phoneField = () => field(t("phone"), { name: "phone", type: "tel", autocomplete: "tel", inputMode: "tel", maxLength: 32 });
export const newPassword = () => field(t("newPassword"), { name: "new_password", type: "password", autocomplete: "new-password", minLength: 8, maxLength: 128 });

// about names the field of a refusal that is about one and lists no errors.
const about = {
  "wrong-code": "code", "wrong-totp": "totp", "phone-taken": "phone", "phone-unknown": "phone", "sms-refused": "phone", "sms-country-refused": "phone",
  "weak-password": "new_password", "wrong-password": "old_password",
};

let flaws = 0; // said so far, for their ids
// blame says at the fields of a form what a refusal says of them, and returns the rest of it.
function blame(form, e) {
  const found = e.doc?.errors ?? (about[e.code] ? [{ location: about[e.code], message: explain(e) }] : []), rest = [];
  for (const { location, message } of found) {
    const name = location.replace("body.", ""), input = form.elements[name];
    const text = message.startsWith(`${name} `) ? message.slice(name.length + 1) : message, says = text[0].toUpperCase() + text.slice(1);
    if (!input?.checkVisibility?.()) {
      rest.push(says);
      continue;
    }
    const id = `flaw-${++flaws}`;
    input.after(el("span", { className: "flaw", id, attrs: { "aria-hidden": "true" } }, says)); // read as the field's description
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", id);
    input.addEventListener("input", () => pardon(form), { once: true });
  }
  form.querySelector("[aria-invalid]")?.focus();
  return found.length > 0 ? rest.join(" ") : explain(e);
}

// pardon takes back what blame said.
function pardon(form) {
  for (const input of form.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
    input.nextSibling.remove();
  }
}

// tries does something with its button off. What the work returns is said, or is the
// seconds for which the button stays off; a refusal is explained, at the fields that it is
// about, and given to refused.
export async function tries(said, button, work, refused = () => {}) {
  const focused = document.activeElement === button;
  button.disabled = true;
  if (button.form) pardon(button.form);
  let pause = 0;
  try {
    const came = await work();
    if (typeof came === "number") pause = came;
    else if (came !== undefined) said.replaceChildren(...(came ? [el("p", {}, came)] : []));
  } catch (e) {
    const text = button.form ? blame(button.form, e) : explain(e);
    said.replaceChildren(...(text ? [problem(text)] : []));
    pause = e.retryAfter ?? 0;
    refused(e);
  }
  const text = button.textContent;
  for (let left = Math.min(pause, longest); left > 0; left--) {
    button.textContent = t("resend", { n: left });
    await sleep(1000);
  }
  button.textContent = text;
  button.disabled = false;
  if (focused && document.activeElement === document.body) button.focus();
}

// codeFields are the fields of a phone and of its code, with the button that sends one
// for a purpose.
export function codeFields(purpose, said, request = send) {
  const phone = phoneField(), code = digits("code", "code");
  const button = el("button", { type: "button", className: "second steady" }, t("sendCode")), input = phone.lastChild;
  button.onclick = () => input.reportValidity() && tries(said, button, async () => {
    const { retry_after } = await withProof((proof) => request("POST", "auth/sms-codes", { proof, body: { phone: input.value, purpose, device_id: device().id } }));
    const sandbox = document.body.dataset.sms;
    said.replaceChildren(el("p", { className: "dim" }, t("codeSent"), ...(sandbox ? [" ", el("a", { href: sandbox, target: "_blank" }, t("sandboxSMS"))] : [])));
    code.lastChild.focus();
    return retry_after;
  });
  return [phone, el("div", { className: "row bottom" }, code, button)];
}
