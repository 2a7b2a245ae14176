// Forms that ask for a phone and the code that is sent to it.
import { device, problem, send } from "./api.js";
import { sleep } from "./clock.js";
import { el } from "./dom.js";
import { withProof } from "./door.js";
import { explain, t } from "./words.js";

const longest = 60; // s that a button counts down; a longer pause is in the refusal's words

export const field = (label, props) => el("label", {}, label, el("input", { required: true, ...props }));
export const digits = (key, name) => field(t(key), { name, autocomplete: "one-time-code", inputMode: "numeric", pattern: "[0-9]{6}", maxLength: 6 });
export const newPassword = () => field(t("newPassword"), { name: "new_password", type: "password", autocomplete: "new-password", minLength: 8, maxLength: 128 });

// tries does something with its button off. What the work returns is said, or is the
// seconds for which the button stays off; a refusal is explained and given to refused.
export async function tries(said, button, work, refused = () => {}) {
  const focused = document.activeElement === button;
  button.disabled = true;
  let pause = 0;
  try {
    const came = await work();
    if (typeof came === "number") pause = came;
    else if (came !== undefined) said.replaceChildren(...(came ? [el("p", {}, came)] : []));
  } catch (e) {
    said.replaceChildren(problem(explain(e)));
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
  const phone = field(t("phone"), { name: "phone", type: "tel", autocomplete: "tel", inputMode: "tel", maxLength: 32 }), code = digits("code", "code");
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
