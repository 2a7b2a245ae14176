// The widget of an outside verifier of people. Its script is loaded when the first check
// needs it, and shows a window of its own if it has doubts. This module imports nothing, so
// that pages and the element share it: askWidget is given what it needs.

let el, showDialog, t, zh;
const patience = 10_000; // of a script's loading, in ms
const away = () => Object.assign(new Error(t("checkAway")), { code: "check-away" });

const scripts = {};
const load = (src) => (scripts[src] ??= new Promise((done, fail) => {
  const script = el("script", { src, onload: (loaded) => { clearTimeout(late); done(loaded); } });
  const lost = () => { delete scripts[src]; script.remove(); fail(away()); };
  script.onerror = lost;
  const late = setTimeout(lost, patience);
  document.head.append(script);
}).then((loaded) => { scripts[src] = loaded; }));

let aliyun; // its one instance: {shown, done, fail}
// widgets ask the shopper: done gets what the widget gives, nothing if the shopper closed it.
const widgets = {
  siteverify(w, done, fail) {
    const box = el("div"), dialog = el("dialog", {}, box, el("form", { method: "dialog", className: "row end" }, el("button", { className: "second" }, t("cancelCheck"))));
    dialog.onclose = () => { dialog.remove(); done(); };
    showDialog(dialog);
    turnstile.render(box, {
      sitekey: w.site_key, action: w.action, cData: w.cdata,
      callback: (token) => { done(token); dialog.close(); }, "error-callback": () => { fail(); dialog.close(); },
    });
  },
  geetest(w, done, fail) {
    initGeetest4({ captchaId: w.site_key, product: "bind", language: zh ? "zho" : "eng" }, (captcha) => {
      captcha.onReady(() => captcha.showCaptcha()).onClose(() => done()).onError(fail).onSuccess(() => {
        const { lot_number, captcha_output, pass_token, gen_time } = captcha.getValidate();
        done({ lot_number, captcha_output, pass_token, gen_time: String(gen_time) });
      });
    });
  },
  tencent(w, done) {
    new TencentCaptcha(w.site_key, ({ ret, ticket, randstr }) => done(ret === 0 ? { ticket, randstr } : undefined), { userLanguage: zh ? "zh-cn" : "en" }).show();
  },
  async aliyun(w, done, fail) {
    if (aliyun) {
      Object.assign(aliyun, { done, fail });
    } else {
      aliyun = { done, fail };
      const [element, button] = ["stampede-captcha", "stampede-captcha-open"];
      document.body.append(el("div", { id: element }), el("button", { id: button, hidden: true }));
      aliyun.shown = new Promise((ready) => {
        initAliyunCaptcha({
          SceneId: w.site_key, mode: "popup", element: `#${element}`, button: `#${button}`, language: zh ? "cn" : "en",
          success: (param) => aliyun.done({ captcha_verify_param: param }), onError: () => aliyun.fail(),
          onClose: (why) => why === "verifyComplete" || aliyun.done(),
          getInstance: (made) => setTimeout(ready, 2000, made), // it wants to see the page for so long before it judges
        });
      });
    }
    aliyun.shown.catch(() => { aliyun = undefined; }); // the next check tries anew
    const made = await aliyun.shown;
    (made.startTracelessVerification ?? made.show).call(made);
  },
};

// encode writes an object as the token carries it.
const encode = (o) => btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(o)))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

// askWidget returns the token for a challenge; undefined when the shopper gave up.
export async function askWidget(w, page) {
  ({ el, showDialog, t, zh } = page);
  if (w.provider === "aliyun") window.AliyunCaptchaConfig = { region: w.region, prefix: w.prefix };
  await load(w.script);
  // A modal dialog would make the widget's window, an element of the page, unusable. One
  // that is put in its place again is not modal any more.
  const dialog = document.querySelector("dialog:modal");
  dialog?.parentNode.insertBefore(dialog, dialog.nextSibling);
  try {
    const answer = await new Promise((done, fail) => {
      const lost = () => fail(away());
      Promise.resolve().then(() => widgets[w.provider](w, done, lost)).catch(lost);
    });
    return answer && (w.provider === "siteverify" ? answer : `${w.cdata}.${encode(answer)}`);
  } finally {
    dialog?.removeAttribute("open");
    if (dialog?.isConnected) dialog.showModal();
  }
}
