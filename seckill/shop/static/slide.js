// The slide captcha: a tile that is dragged sideways to its gap, with the finger,
// the mouse or the arrow keys.
import { until } from "./clock.js";
import { el, showDialog } from "./dom.js";
import { t } from "./words.js";

// askSlide shows a picture and returns the tile's left edge in its pixels and how it
// moved there, "<x>.<ms>,<x>;<ms>,<x>;…"; undefined when the shopper gave up. From opens on,
// in server time, it says loudly that the shopper is not in line, also to one who looks at
// another tab.
export function askSlide({ background, tile, width, height, tile_x, tile_y, tile_width }, opens) {
  const late = el("p", { className: "problem", attrs: { role: "alert" } }), title = document.title;
  const piece = el("img", { src: tile, alt: "", className: "tile", draggable: false });
  const track = el("input", { type: "range", min: 0, max: width - tile_width, value: tile_x, autofocus: true, attrs: { "aria-label": t("slideHint") } });
  const dialog = el("dialog", { className: "slide" },
    el("form", { method: "dialog" },
      el("h2", {}, t("slide")),
      el("p", { className: "dim" }, t("slideHint")), late,
      el("div", { className: "picture" }, el("img", { src: background, alt: "", draggable: false }), piece),
      track,
      el("div", { className: "row end" }, el("button", { className: "second", value: "", formNoValidate: true }, t("cancelCheck")), el("button", { value: "ok" }, t("done")))));
  // The form's first button is what Enter presses, and giving up is not meant then.
  track.onkeydown = (e) => { if (e.key === "Enter") { e.preventDefault(); dialog.close("ok"); } };
  const picture = piece.parentElement;
  picture.style.cssText = `width:${width}px;height:${height}px`;
  piece.style.top = `${tile_y}px`;
  const moves = []; // when, and where to
  const place = () => {
    piece.style.left = `${track.value}px`;
    moves.push([performance.now(), track.value]);
  };
  track.oninput = place;
  piece.style.left = `${track.value}px`;
  piece.onpointerdown = (e) => {
    e.preventDefault();
    const from = Number(track.value) - e.clientX;
    piece.setPointerCapture(e.pointerId);
    piece.onpointermove = (m) => { track.value = from + m.clientX; place(); };
  };
  piece.onpointerup = () => { piece.onpointermove = null; };
  showDialog(dialog);
  if (opens < Infinity) {
    until(opens).then(() => {
      if (!dialog.isConnected) return;
      late.textContent = document.title = t("notInLine");
      navigator.vibrate?.(200);
    });
  }
  return new Promise((done) => {
    dialog.onclose = () => {
      dialog.remove();
      document.title = title;
      done(dialog.returnValue === "ok" ? `${track.value}.${drag(moves)}` : undefined);
    };
  });
}

// mostMoves is how many moves are sent; the server accepts 128.
const mostMoves = 100;

// drag writes moves as the header carries them, evenly thinned.
function drag(moves) {
  const step = Math.ceil(moves.length / mostMoves);
  return moves.filter((_, i) => i % step === 0 || i === moves.length - 1)
    .map(([at, x]) => `${Math.round(at - moves[0][0])},${x}`).join(";");
}
