// Requests the code of an SMS sign-in, with the proof of work that the API asks for.
const form = document.querySelector("#by-code"), button = document.querySelector("#send-code"), said = document.querySelector("#code-said");

async function ask(proof) {
  const headers = { "Content-Type": "application/json", "Accept-Language": document.documentElement.lang };
  if (proof) headers["Human-Check"] = proof;
  const answer = await fetch("/api/v1/auth/sms-codes", { method: "POST", headers, body: JSON.stringify({ phone: form.elements.phone.value, purpose: "login" }) });
  return [answer, await answer.json().catch(() => ({}))];
}

button.addEventListener("click", async () => {
  if (!form.elements.phone.reportValidity()) return;
  button.disabled = true;
  let pause = 0;
  try {
    let [answer, doc] = await ask();
    if (doc.code === "human-check-required" && doc.challenge?.kind === "pow") {
      const { solve } = await import("/static/pow.js");
      [answer, doc] = await ask(await solve(doc.challenge));
    }
    said.textContent = answer.ok ? said.dataset.sent : [doc.title, doc.next].filter(Boolean).join(" · ") || `HTTP ${answer.status}`;
    if (answer.ok) form.elements.code.focus();
    pause = doc.retry_after ?? Number(answer.headers.get("Retry-After") ?? 0);
  } catch (e) {
    said.textContent = String(e);
  }
  setTimeout(() => { button.disabled = false; }, Math.min(pause, 60) * 1000);
});
