// The page's words in English and Chinese; which one shows follows the browser.
const zh = {
  tagline: "一个开源的秒杀系统：不超卖、不丢单、不骗人。本页是一场真实的抢购。",
  api: "接口文档", sale: "本场抢购", opensIn: "距开抢", onSale: "抢购中", over: "本场已结束，下一场即将开始",
  soldOut: "已售罄", waiting: "正在准备下一场……", units: "件", buy: "我要抢购", buyAgain: "再抢一次", pay: "去支付（沙箱银行）", cancel: "取消订单",
  crowd: "十万火急", send: "派出 10,000 名顾客", sendWait: "顾客们正等待开抢……", attempts: "抢购请求", inLine: "抢到资格", refused: "被拒绝",
  total: "总库存", remaining: "剩余", held: "待支付", sold: "已售", difference: "差额", books: "账本",
  prove: "核对账本", proving: "正在核对……", proof: "证明：每一件商品都有着落", check: "检查项", verdict: "结论", ok: "通过", violated: "违反",
  step_path: "领取抢购链接", step_wait: "等待开抢", step_rush: "发出抢购请求", step_line: "排队中，前面还有", step_order: "订单已生成", step_paid: "支付成功", step_closed: "订单已关闭", step_refused: "未抢到",
  via_push: "（推送）", via_poll: "（轮询）", per100ms: "每 ¼ 秒应答数", idle: "点击按钮，看一万人同时开抢。", lost: "与服务器的连接断开了，正在重连……",
  sessions: "抢购场次", empty: "还没有任何场次。用下面的命令创建第一个活动：", opens: "开抢时间", item: "商品", price: "价格", status: "状态",
};
const en = {
  tagline: "A flash-sale system that oversells nothing, loses nobody and tells the truth. This page is a real sale.",
  api: "API", sale: "This sale", opensIn: "opens in", onSale: "on sale now", over: "this sale is over, the next one is coming",
  soldOut: "sold out", waiting: "preparing the next sale …", units: "units", buy: "Buy as me", buyAgain: "Try again", pay: "Pay at the sandbox bank", cancel: "Cancel",
  crowd: "The crowd", send: "Send 10,000 shoppers", sendWait: "The shoppers are waiting for the opening …", attempts: "attempts", inLine: "in line", refused: "refused",
  total: "total", remaining: "remaining", held: "held", sold: "sold", difference: "difference", books: "The books",
  prove: "Prove the books", proving: "proving …", proof: "The proof: every unit is accounted for", check: "check", verdict: "verdict", ok: "ok", violated: "violated",
  step_path: "got a rush path", step_wait: "waiting for the opening", step_rush: "sent the attempt", step_line: "in line, ahead of you:", step_order: "order written", step_paid: "paid", step_closed: "order closed", step_refused: "no luck",
  via_push: "(pushed)", via_poll: "(polled)", per100ms: "answers per ¼ second", idle: "Press the button and watch ten thousand rush.", lost: "Connection lost, trying again …",
  sessions: "Sessions", empty: "There is no session yet. This command creates the first activity:", opens: "opens", item: "item", price: "price", status: "status",
};
export const language = navigator.language.startsWith("zh") ? "zh" : "en";
const words = language === "zh" ? zh : en;
export const t = (key) => words[key] ?? key;
export function translate(root = document) {
  document.documentElement.lang = language;
  for (const el of root.querySelectorAll("[data-t]")) el.textContent = t(el.dataset.t);
}
export const money = ({ amount, currency }) => new Intl.NumberFormat(language, { style: "currency", currency }).format(amount / 100);
