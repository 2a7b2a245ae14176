// The office works without this file. It puts the search field under "/", keeps a form
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

// On a phone the menu scrolls sideways.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

addEventListener("submit", (e) => {
  if (e.target.method !== "post") return;
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
