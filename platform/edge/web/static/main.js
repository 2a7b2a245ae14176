// Which page this is: the address says, else the document.
import { translate } from "./words.js";
import "./login.js";

const query = new URLSearchParams(location.search);
const name = query.has("qr") ? "confirm" : ["item", "order", "sessions"].some((key) => query.has(key)) ? "shop" : document.body.dataset.page;
const main = document.querySelector("main");
translate();
const { show } = await import(`./${name}.js`);
show(main, query);
