// The pages' words in English and Chinese; which one shows follows the browser. Titles
// of refusals come from the server in the same language; what to do next is here.
const zh = {
  tagline: "一个开源的秒杀系统：不超卖、不丢单、不骗人。本页是一场真实的抢购。",
  api: "接口文档", opensIn: "距开抢", onSale: "抢购中，距结束", paused: "抢购已暂停，距结束", over: "本场已结束", days: "天",
  waiting: "正在准备下一场……", units: "共 {n} 件", unitsLeft: "剩余 {n} 件，共 {total} 件", unlimited: "不限量", buy: "我要抢购", ready: "等待开抢", queued: "排队中", buyAgain: "再抢一次", bought: "已购买", pay: "去支付", cancel: "取消订单", orderNumber: "订单号", copy: "复制", copied: "已复制",
  reserve: "立即预约", reserved: "已预约", reserveOpensIn: "距预约开始", reserveClosesIn: "预约进行中，距截止",
  note_sold_out: "已售罄：每一件都已付款。", note_all_held: "已被抢光；若有人未付款，商品会释放。", note_preparing: "商品准备中。",
  note_reservedOnly: "预约已截止，仅限已预约的顾客参与。", note_reserved: "您已预约成功，请在开抢前回到本页。", payWithin: "支付剩余时间",
  crowd: "抢购人潮", send: "派出 10,000 名顾客", sendWait: "顾客们正待开抢", attempts: "抢购请求", inLine: "进入排队", refused: "被拒绝",
  "phase_look": "查看商品", "phase_open sockets": "建立连接", "phase_fetch paths": "领取链接", "phase_rush": "抢购中", "phase_settle": "生成订单与支付", "phase_done": "完成",
  total: "总库存", remaining: "剩余", held: "待支付", sold: "已售", difference: "差额", books: "账本",
  prove: "核对账本", proving: "正在核对……", proof: "证明：每一件商品都有着落", proveHint: "随时可核对，抢购进行中也可以。", check: "检查项", verdict: "结论", ok: "通过", violated: "违反",
  figures: "每秒应答 {per_second} · p99：拒绝 {refusal} 毫秒、订单可见 {visible} 毫秒、推送 {push} 毫秒",
  step_early: "开抢前两分钟领取抢购链接，请勿关闭本页", step_path: "领取抢购链接", step_wait: "等待开抢", step_rush: "发出抢购请求", step_line: "排队中，第 {n} 位", step_next: "排队中，正在生成订单", step_pay: "打开支付页面", step_reserved: "预约成功", step_returned: "有商品释放，可再次抢购",
  step_pending_payment: "订单已生成，请尽快支付", step_paid: "支付成功", step_completed: "订单已完成", step_closed: "订单已关闭", step_refused: "未抢到",
  step_refunding: "退款中", step_refunded: "已退款", step_refund_failed: "退款失败，商家会处理",
  reason_duplicate: "您已有该商品的订单", reason_shortfall: "库存不足", reason_interrupted: "系统中断，未能保留资格", "reason_not-available": "暂时无法参与", reason_timeout: "超时未支付", reason_canceled: "已取消", reason_withdrawn: "商家已取消", surplus_late: "付款到达时订单已关闭，款项将原路退回", surplus_duplicate: "该订单已支付，重复支付的款项将原路退回", surplus_mismatch: "支付金额不符，款项将原路退回", reason_backup: "付款较晚，已用备用库存", "reason_taken-back": "银行退回了退款，商家会重新退款",
  details: "收货信息", details_way: "配送方式", details_store_id: "自提门店", details_name: "姓名", details_phone: "手机号", details_address: "地址", details_note: "备注", details_go: "继续支付", way_delivery: "快递", way_pickup: "到店自提",
  freight: "运费", discount: "优惠", payWith: "支付 {amount}", pay_wechat: "微信支付", pay_alipay: "支付宝", pay_stripe: "银行卡（Stripe）", pay_sandbox: "沙箱银行", scanToPay: "请用手机应用扫码付款。", payCode: "付款二维码", payPractice: "演练：打开付款页",
  via_push: "（即时通知）", via_poll: "（查询）", perQuarter: "每 ¼ 秒应答数", idle: "点击按钮，看一万人同时开抢。", lost: "与服务器的连接断开了，正在重连……",
  checking: "正在验证，约需一秒……", checkCanceled: "验证已取消，可以重新点击。", checkElsewhere: "该验证方式需要商家自己的页面，本页无法完成。",
  slide: "安全验证", slideHint: "拖动滑块或拼图，使其与缺口吻合", done: "确定", cancelCheck: "取消",
  login: "登录", logout: "退出", close: "关闭", way_sms: "短信登录", way_password: "密码登录", way_qr: "扫码登录",
  phone: "手机号", code: "验证码", totp: "动态验证码", sendCode: "获取验证码", codeSent: "验证码已发送，五分钟内有效。", sandboxSMS: "查看沙箱短信", password: "密码",
  scan: "请用已登录的手机扫描二维码", scanned: "已扫描，请在手机上输入：", qrCode: "登录二维码", newCode: "刷新二维码",
  qr_expired: "二维码已过期。", qr_denied: "手机上拒绝了本次登录。", qr_claimed: "本次登录已在别处完成。",
  confirmTitle: "确认登录", confirmAsk: "是否让这台设备登录您的账号？", confirmWarn: "若不是您本人在操作，请拒绝。", confirmNumber: "那台设备上的数字", confirmLogin: "请先在这台手机上登录，然后确认。",
  device: "设备", address: "地址", askedAt: "时间", as: "账号", allow: "确认登录", deny: "拒绝", confirmedHere: "已确认，另一台设备现已登录。", deniedHere: "已拒绝，那台设备不会登录。", toShop: "返回首页",
  sessions: "抢购场次", nav: "场次", more: "显示更多", empty: "还没有任何场次。在设有服务器同一 STAMPEDE_SIGNING_KEY 的终端里，用下面的命令创建第一个活动（价格为 0，无需支付渠道）：", opens: "开抢时间", item: "商品", price: "价格", left: "剩余", status: "状态",
  status_upcoming: "即将开抢", status_on_sale: "抢购中", status_preparing: "准备中", status_all_held: "已抢光", status_sold_out: "已售罄", status_paused: "已暂停", status_ended: "已结束",
  offline: "无法连接服务器，请检查网络后重试。", retryIn: "秒后可重试。",
};
const en = {
  tagline: "A flash-sale system that never oversells, loses no order and tells the truth. This page is a real sale.",
  api: "API", opensIn: "opens in", onSale: "on sale, closes in", paused: "paused, closes in", over: "this sale is over", days: "d",
  waiting: "Preparing the next sale …", units: "{n} units", unitsLeft: "{n} of {total} units left", unlimited: "unlimited", buy: "Buy as me", ready: "Waiting for the opening", queued: "In line", buyAgain: "Try again", bought: "Bought", pay: "Pay", cancel: "Cancel", orderNumber: "Order number", copy: "Copy", copied: "Copied",
  reserve: "Reserve", reserved: "Reserved", reserveOpensIn: "reservation opens in", reserveClosesIn: "reservation is open, closes in",
  note_sold_out: "Sold out: every unit is paid for.", note_all_held: "All units are held; those that stay unpaid come back.", note_preparing: "The item is being prepared.",
  note_reservedOnly: "Reservations are closed; only shoppers with a reservation can take part.", note_reserved: "You have a reservation; come back to this page before the opening.", payWithin: "time left to pay:",
  crowd: "The crowd", send: "Send 10,000 shoppers", sendWait: "The shoppers wait for the opening:", attempts: "attempts", inLine: "in line", refused: "refused",
  "phase_look": "looking", "phase_open sockets": "opening sockets", "phase_fetch paths": "fetching paths", "phase_rush": "rushing", "phase_settle": "ordering and paying", "phase_done": "done",
  total: "total", remaining: "remaining", held: "held", sold: "sold", difference: "difference", books: "The books",
  prove: "Prove the books", proving: "Proving …", proof: "The proof: every unit is accounted for", proveHint: "At any moment, also in the middle of a rush.", check: "check", verdict: "verdict", ok: "ok", violated: "violated",
  figures: "{per_second} answers/s · p99: refusal {refusal} ms, order visible {visible} ms, push {push} ms",
  step_early: "rush links are issued two minutes before the opening; please stay on this page", step_path: "got a rush link", step_wait: "waiting for the opening", step_rush: "sent the attempt", step_line: "number {n} in line", step_next: "in line, your order is being written", step_pay: "open the page to pay", step_reserved: "reserved", step_returned: "units are back, try again",
  step_pending_payment: "order written, please pay", step_paid: "paid", step_completed: "order completed", step_closed: "order closed", step_refused: "no luck",
  step_refunding: "being refunded", step_refunded: "refunded", step_refund_failed: "the refund failed; the shop will handle it",
  reason_duplicate: "you have an order for this item", reason_shortfall: "nothing was left", reason_interrupted: "a system failure interrupted the sale and your place was lost", "reason_not-available": "not available to you", reason_timeout: "not paid in time", reason_canceled: "canceled", reason_withdrawn: "canceled by the shop", reason_backup: "paid late, from the backup stock", "reason_taken-back": "the bank returned the refund; the shop will pay it back again", surplus_late: "your payment arrived after the order was closed; the money goes back", surplus_duplicate: "this order was paid already; the second payment goes back", surplus_mismatch: "another amount was charged; it goes back",
  details: "Before you pay", details_way: "How to receive it", details_store_id: "Store", details_name: "Name", details_phone: "Phone", details_address: "Address", details_note: "Note", details_go: "Continue", way_delivery: "Delivery", way_pickup: "Pick up at a store",
  freight: "freight", discount: "discount", payWith: "Pay {amount}", pay_wechat: "WeChat Pay", pay_alipay: "Alipay", pay_stripe: "Card (Stripe)", pay_sandbox: "Sandbox bank", scanToPay: "Scan it with the app on your phone.", payCode: "Code to pay", payPractice: "Practice: open the page",
  via_push: " (pushed)", via_poll: " (polled)", perQuarter: "answers per ¼ second", idle: "Press the button and watch ten thousand rush.", lost: "Connection lost, trying again …",
  checking: "checking, about a second …", checkCanceled: "The check was canceled; press the button to try again.", checkElsewhere: "This check works only on the shop's own page.",
  slide: "Security check", slideHint: "Slide the piece into its gap", done: "Done", cancelCheck: "Cancel",
  login: "Log in", logout: "Log out", close: "Close", way_sms: "SMS code", way_password: "Password", way_qr: "QR code",
  phone: "Phone", code: "Code", totp: "Authenticator code", sendCode: "Send code", codeSent: "The code is on its way and good for five minutes.", sandboxSMS: "See the sandbox's messages", password: "Password",
  scan: "Scan this with a phone that is logged in.", scanned: "Scanned. Confirm on the phone with", qrCode: "QR code to log in", newCode: "New code",
  qr_expired: "The code has expired.", qr_denied: "The login was refused on the phone.", qr_claimed: "This login was completed elsewhere.",
  confirmTitle: "Confirm a login", confirmAsk: "Log in on this device with your account?", confirmWarn: "If that is not you, refuse.", confirmNumber: "Number on the other device", confirmLogin: "Log in on this phone first, then confirm.",
  device: "Device", address: "Address", askedAt: "Time", as: "Account", allow: "Log it in", deny: "Refuse", confirmedHere: "Confirmed: the other device is logged in.", deniedHere: "Refused: that device is not logged in.", toShop: "To the shop",
  sessions: "Sessions", nav: "Sessions", more: "Show more", empty: "There are no sessions yet. In a shell that has the server's STAMPEDE_SIGNING_KEY, these commands create the first activity; it costs 0, so no payment provider is needed:", opens: "opens", item: "item", price: "price", left: "left", status: "status",
  status_upcoming: "Upcoming", status_on_sale: "On sale", status_preparing: "Preparing", status_all_held: "All held", status_sold_out: "Sold out", status_paused: "Paused", status_ended: "Ended",
  offline: "The server cannot be reached; check the network and try again.", retryIn: "s until you can try again.",
};
// What can be done about a refusal, by code; the server's title says what happened.
const next = {
  "all-held": ["有商品释放时会在此提示。", "This page says when units come back."],
  "cooling-down": ["请先支付已有订单，或稍后再来。", "The pause grows with each unpaid order."],
  "sold-out": ["每一件都已付款。", "Every unit is paid for."],
  "not-enough": ["请减少数量。", "Ask for fewer."],
  "already-bought": ["请查看您的订单。", "Your order:"],
  unknown: ["正在查询结果，请不要离开。", "Checking the result; please stay on this page."],
  "path-expired": ["请再次点击抢购。", "Press the button again."],
  "reservation-full": ["可能有人放弃预约，可稍后再试。", "A place may be given back; try again later."],
  "one-activity": ["完成或取消后即可参与本活动。", "When that is over you can take part in this one."],
  paused: ["恢复后即可抢购。", "The sale continues when the shop resumes it."],
  "no-token": ["登录后即可继续。", "After that you can continue."],
};
// The answers of a crowd, as short as a figure's label.
const answers = {
  "all-held": ["已抢光", "all held"], "sold-out": ["已售罄", "sold out"], "too-hot": ["太火爆", "too hot"], "no-answer": ["无应答", "no answer"], unknown: ["结果未知", "unknown"], "not-enough": ["数量不足", "not enough"],
};
// What the checks of the books prove, by the server's name: two of them share an id.
const checks = {
  "never oversold": "从不超卖",
  "nothing stuck": "没有滞留的库存",
  "every item on sale decides": "在售商品均可下单",
  "settled items have left Redis": "已结算商品在 Redis 中无残留",
  "stock follows the plan": "库存与活动计划一致",
  "one exclusive activity per user at a time": "每人同一时间只参加一个专享活动",
  "one live order per user and item, within the limit": "每人每件商品至多一张有效订单，且不超过限购数量",
  "captures less refunds are what paid orders say, one ledger row per transaction": "收款减退款与已付订单一致，每笔交易只记一次账",
  "past days are compared with the providers' statements": "往日账目已与支付机构对账单核对",
  "every discount has its coupon, every coupon one order": "每笔优惠对应一张优惠券，每张券只用于一张订单",
  "money on an order that is not paid goes back in time": "未成交订单收到的款项按时退回",
  "every queued number reaches an end": "每个排队号都有结果",
  "no grants are given up": "没有被放弃的抢购资格消息",
  "every committed event is sent": "已提交的事件全部发出",
  "grants are being written": "抢购资格持续写成订单",
  "no orphan in Redis": "Redis 中没有无主的预扣",
  "no shopper is shown an order that is not committed": "不向任何人展示未落库的订单",
};
export const language = navigator.language.startsWith("zh") ? "zh" : "en";
const [words, column] = language === "zh" ? [zh, 0] : [en, 1];
// t is the word for a key, with the values in their places.
export const t = (key, values = {}) => (words[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name]);
export const count = (n) => n.toLocaleString(language);
export const answerName = (code) => answers[code]?.[column] ?? code;
export const checkName = (name) => (language === "zh" && checks[name]) || name;

// explain is what went wrong, and what can be done about it.
export function explain(e) {
  if (e instanceof TypeError) return t("offline"); // what fetch throws when no answer came
  const stop = language === "zh" ? "。" : ". ", end = /[。.!！…]$/.test(e.message) ? " " : stop;
  const then = [next[e.code]?.[column], e.retryAfter > 1 ? `${e.retryAfter} ${t("retryIn")}` : ""].filter(Boolean).join(" ");
  return then ? `${e.message}${end}${then}` : e.message;
}

export function translate(root = document) {
  document.documentElement.lang = language;
  for (const node of root.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const node of root.querySelectorAll("[data-label]")) node.setAttribute("aria-label", t(node.dataset.label));
}

// money writes an amount, which is in the currency's minor units: 9900 are 99.00 of
// most, 9,900 of those that have none, as JPY.
export function money({ amount, currency }) {
  const format = new Intl.NumberFormat(language, { style: "currency", currency, currencyDisplay: "narrowSymbol" });
  return format.format(amount / 10 ** format.resolvedOptions().maximumFractionDigits);
}
