// The office works without this file. It puts the search field under "/", ticks all rows of a list, keeps a form
// from being sent twice by a double click, and solves the human check that a sign-in
// was refused for.

addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.("input, textarea, select")) return;
  const field = document.querySelector("form.search input, form.search select");
  if (!field) return;
  e.preventDefault();
  field.focus();
  field.select?.();
});

// A form may repeat a row: another one is a copy of the last, with empty fields but for
// times, which sessions of a day nearly share.
addEventListener("click", (e) => {
  const button = e.target.closest("button[data-add], button[data-remove]");
  if (!button) return;
  const rows = [...button.parentElement.children].filter((row) => row.matches("fieldset"));
  if (button.dataset.remove !== undefined) {
    const row = button.parentElement, before = row.previousElementSibling ?? row.parentElement;
    row.remove();
    before.querySelector("input, button")?.focus();
    return;
  }
  const last = rows.at(-1), row = last.cloneNode(true), next = Math.max(...rows.map((r) => Number(r.dataset.row))) + 1;
  const [was, is] = [`${button.dataset.add}[${last.dataset.row}]`, `${button.dataset.add}[${next}]`];
  row.dataset.row = next;
  for (const inner of [...row.querySelectorAll("fieldset")].slice(1)) inner.remove(); // a new session begins with one item
  for (const flaw of row.querySelectorAll(".flaw")) flaw.remove();
  for (const node of row.querySelectorAll("*")) {
    for (const name of ["id", "name", "for", "data-add", "aria-describedby"]) {
      if (node.hasAttribute(name)) node.setAttribute(name, node.getAttribute(name).replace(was, is));
    }
    node.removeAttribute("aria-invalid");
    if (node.matches("input, textarea") && node.type !== "datetime-local") { node.value = node.type === "checkbox" ? "true" : ""; node.checked = false; }
  }
  for (const gone of row.querySelectorAll(":scope > [data-remove]")) gone.hidden = false;
  last.after(row);
  row.querySelector("input")?.focus();
});

// One box ticks all of a name in its form.
for (const all of document.querySelectorAll("[data-all]")) {
  all.closest("[hidden]")?.removeAttribute("hidden");
  all.addEventListener("change", () => { for (const box of all.form.querySelectorAll(`[name="${all.dataset.all}"]`)) box.checked = all.checked; });
}

// On a phone the menu scrolls sideways.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

addEventListener("submit", (e) => {
  if (e.target.method !== "post") return;
  if (e.submitter?.formMethod === "get") { // such as to print: its address names the chosen rows, not what is typed beside them
    const typed = [...e.target.elements].filter((field) => field.type !== "checkbox" && !field.disabled);
    for (const field of typed) field.disabled = true;
    setTimeout(() => { for (const field of typed) field.disabled = false; });
    return;
  }
  if (e.target.dataset.sent) e.preventDefault();
  e.target.dataset.sent = "yes";
});
// A page that the browser kept and shows again may send its forms again.
addEventListener("pageshow", (e) => {
  if (e.persisted) for (const form of document.forms) delete form.dataset.sent;
});

// A sign-in that needs a proof of work is held back for the second that it takes.
const checks = [...document.querySelectorAll("input[data-challenge][data-kind=pow]")];
if (checks.length) {
  const buttons = checks.flatMap((field) => [...field.form.querySelectorAll("button")]);
  for (const button of buttons) button.disabled = true;
  const { challenge, difficulty } = checks[0].dataset;
  import("/static/pow.js")
    .then(({ solve }) => solve({ challenge, difficulty: Number(difficulty) }))
    .then((solution) => { for (const field of checks) field.value = solution; })
    .finally(() => { for (const button of buttons) button.disabled = false; });
}
