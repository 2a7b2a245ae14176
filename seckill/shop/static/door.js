// The human check: a request for something scarce carries the solution of a
// challenge. The page solves a proof of work by itself; a slide asks the shopper, and so
// may the widget of an outside verifier.
import { call, later } from "./api.js";
import { el, showDialog } from "./dom.js";
import { language, t } from "./words.js";

// tries bounds how often a wrong solution is tried again; each costs one of the
// few paths that a user gets in a minute.
const tries = 3;

const canceled = () => Object.assign(new Error(t("checkCanceled")), { code: "check-canceled" });

// prove solves a challenge and returns the header's text. say shows the progress; opens is
// when the shopper who has not solved it yet begins to fall behind.
async function prove(challenge, say, opens) {
  switch (challenge.kind) {
    case "none":
      return undefined;
    case "pow":
      say(t("checking"));
      return (await later("pow.js", () => import("./pow.js"))).solve(challenge);
    case "slide": {
      const { askSlide } = await later("slide.js", () => import("./slide.js"));
      const answer = await askSlide(challenge.slide, opens);
      if (answer === undefined) throw canceled();
      return `slide:${challenge.challenge}.${answer}`;
    }
    case "verifier":
      if (challenge.verifier.script) {
        const { askWidget } = await later("verifier.js", () => import("./verifier.js"));
        const token = await askWidget(challenge.verifier, { el, showDialog, t, zh: language === "zh" });
        if (token === undefined) throw canceled();
        return `verifier:${token}`;
      }
    // falls through
    default: // a widget that these pages do not know
      throw Object.assign(new Error(t("checkElsewhere")), { code: "check-elsewhere" });
  }
}

// withProof runs send(proof) until it goes through. first is where a challenge comes
// from when the check is known ahead; else the refusal says it.
export async function withProof(send, { first, say = () => {}, opens = Infinity } = {}) {
  let proof = first && (await prove(await call("GET", first), say, opens));
  for (let i = 1; ; i++) {
    try {
      return await send(proof);
    } catch (e) {
      if (!["human-check-required", "human-check-failed"].includes(e.code) || i > tries) throw e;
      if (e.code === "human-check-failed") say(e.message);
      proof = await prove(e.doc.challenge ?? (await call("GET", e.doc.challenge_url)), say, opens);
    }
  }
}

// firstChallenge is where the challenge for an item comes from. Work that was done
// for the reservation is not asked for again at the opening.
export function firstChallenge(item, purpose) {
  const kind = item.human_check ?? "none";
  const asked = purpose === "reservation" ? kind === "pow" : kind !== "none" && !(kind === "pow" && item.reservation_opens_at);
  return asked ? `items/${item.id}/challenge?purpose=${purpose}` : undefined;
}
