// The pages' words in English and Chinese; which one shows follows the document. Titles
// of refusals come from the server in the same language; what to do next is here.
const zh = {
  opensIn: "距开抢", onSale: "距结束", paused: "已暂停，距结束", over: "本场已结束", days: "天",
  waiting: "正在准备下一场……", units: "共 {n} 件", unitsLeft: "剩 {n} / {total} 件", unlimited: "不限量", taken: "已抢 {n}%", reservedBy: "{n} 人已预约", offers: "限量 {n} 件",
  opensOn: "{at} 开抢", limit: "每人限购 {n} 件", window: "抢到后 {n} 分钟内付款", quantity: "数量", fewer: "减少一件", more_units: "增加一件",
  buy: "立即抢购", waitsFor: "距开抢 {left}", sendsIn: "将自动抢购 {left}", coolsDown: "{n} 秒后可再抢", queued: "排队中……", asking: "正在核实……", notQueued: "尚未进入排队……", sending: "正在提交……", buyAgain: "再抢一次", seeOrder: "查看订单", pay: "去支付", closing: "付款已截止，正在核实", 
  arm: "到点自动抢", tell: "有货时提醒我", cancel: "取消订单", cancelAsk: "确定取消订单吗？", cancelWarn: "取消后商品会马上释放给其他顾客，无法恢复。", cancelNo: "再想想", queueNumber: "排队号", orderNumber: "订单号", copy: "复制", copied: "已复制",
  reserve: "立即预约", reserveSoon: "预约即将开始", reservedOnly: "仅限已预约的顾客", reserveOpensIn: "距预约开始", reserveClosesIn: "距预约截止", payWithin: "请在此时间内付款",
  hint_login: "请先登录，开抢时才不会错过。", hint_early: "开抢后按钮会亮起；也可打开“到点自动抢”，由本页替您抢。", hint_armed: "{at} 将自动为您抢购，请勿关闭本页。", hint_reserve: "本商品需先预约，预约成功后才能参加抢购。", hint_open: "已开抢，先到先得。",
  hint_sold_out: "已售罄，每一件都已付款。", hint_all_held: "已被抢光。如有人未付款，商品会释放，按钮会重新亮起。", hint_preparing: "商品准备中，稍后自动恢复。", hint_paused: "商家已暂停抢购，恢复后按钮会亮起。", hint_reservedOnly: "预约已截止，仅限已预约的顾客参加。", hint_ended: "本场抢购已结束，感谢参与。",
  said_turn: "您排在第 {n} 位，约 {s} 秒后轮到您。位置会保留，请勿关闭本页。", said_noTurn: "您排在第 {n} 位，商家暂停放行。位置会保留，请勿关闭本页。",
  said_repeating: "网络不稳，正在自动重试，请勿关闭本页。", said_asking: "未能及时收到结果，正在核实您是否已进入排队，请勿关闭本页。", said_missed: "开抢时本页未打开，没有替您抢购。", said_notEntered: "本次未进入排队，没有占用商品，可以再抢一次。",
  crowd: "模拟人潮", send: "派出 1 万名顾客", sendWait: "顾客们正在等待开抢", attempts: "抢购请求", inLine: "进入排队", refused: "被拒绝",
  "phase_look": "查看商品", "phase_open sockets": "建立连接", "phase_fetch paths": "领取链接", "phase_rush": "抢购中", "phase_settle": "生成订单与支付", "phase_done": "完成",
  total: "总库存", available: "剩余", held: "待付款", sold: "已售", difference: "差额", books: "账本",
  kill: "强制结束 Redis",
  prove: "核对账本", proving: "正在核对……", proof: "核对证明：每一件商品都有去向", proveHint: "随时可以核对，抢购进行中也行。", check: "检查项", verdict: "结论", ok: "通过", violated: "违反",
  step_line: "排队中，您排在第 {n} 位。", step_next: "排队中，正在为您生成订单……", step_pay: "未跳转？点此打开支付页面", step_reserved: "预约成功，开抢前请回到本页。", step_returned: "有商品释放，快抢！",
  step_pending_payment: "抢到了！请尽快付款", step_paid: "支付成功", step_shipped: "商家已发货，请留意收货", step_completed: "订单已完成", step_closed: "订单已关闭", step_refused: "很遗憾，没有抢到",
  step_refunding: "退款中", step_refunded: "已退款", step_refund_failed: "退款失败，商家会处理",
  reason_duplicate: "您已有该商品的订单", reason_shortfall: "库存不足", reason_interrupted: "系统中断，未能保留资格", "reason_not-available": "暂时无法参与", reason_timeout: "超时未付款", reason_canceled: "已取消", reason_withdrawn: "商家已取消", surplus_late: "付款到达时订单已关闭，款项将原路退回", surplus_duplicate: "该订单已支付，重复支付的款项将原路退回", surplus_mismatch: "支付金额不符，款项将原路退回", reason_backup: "付款较晚，已用备用库存", "reason_taken-back": "银行退回了退款，商家会重新退款",
  details_way: "配送方式", details_store_id: "自提门店", details_name: "姓名", details_phone: "手机号", details_address: "地址", details_note: "备注", way_delivery: "快递", way_pickup: "到店自提",
  freight: "运费", noFreight: "包邮", ship: "运费 {freight}", shipFrom: "运费 {freight}，满 {from} 包邮", discount: "优惠", payWith: "支付 {amount}", checkout: "确认订单", pay_wechat: "微信支付", pay_alipay: "支付宝", pay_stripe: "银行卡（Stripe）", pay_sandbox: "沙箱银行", scanToPay: "请用手机应用扫码付款。", payCode: "付款二维码", payPractice: "演练：打开付款页",
  perQuarter: "每 ¼ 秒应答数", lost: "与服务器的连接断开了，正在重连……",
  checking: "正在验证，约需一秒……", notInLine: "您还没有进入排队，请先完成验证。", checkCanceled: "您取消了验证，没有进入排队，可再次点击抢购。", checkElsewhere: "该验证方式需要商家自己的页面，本页无法完成。", checkAway: "验证服务没有响应，请再试一次。",
  slide: "安全验证", slideHint: "拖动滑块或拼图，使其与缺口吻合", done: "确定", cancelCheck: "取消",
  agreement: "登录即表示您已阅读并同意", login: "登录", loginEnded: "登录已失效，请重新登录后继续。", totpHint: "您在此的账号已开启动态验证码，请输入后登录。", elsewhere: "请前往商城登录，登录后将回到本页。", loginForeign: "本次登录不是从本页发起的，请重新登录。", loginDeclined: "登录未完成。", registers: "未注册的手机号验证后将自动创建账号。", forgotPassword: "忘记密码？", resetPassword: "设置新密码", resetHint: "设置后其他设备需重新登录。", wechat: "微信", email: "邮箱", linked: "已绑定", notLinked: "未绑定", logout: "退出", close: "关闭", way_sms: "短信登录", way_password: "密码登录", way_qr: "扫码登录", way_wechat: "微信登录", wechatGo: "微信一键登录", wechatHint: "将使用当前微信账号登录，首次登录会自动创建账号。", wechatRefused: "您取消了微信授权。", wechatAgain: "重新授权", linkWeChat: "绑定当前微信", goBack: "返回",
  phone: "手机号", code: "验证码", totp: "动态验证码", sendCode: "获取验证码", codeSent: "验证码已发送，五分钟内有效。", sandboxSMS: "查看沙箱短信", password: "密码",
  scan: "请用已登录的手机扫描二维码", scanned: "已扫描，请在手机上输入：", qrCode: "登录二维码", newCode: "刷新二维码",
  qr_expired: "二维码已过期。", qr_denied: "手机上拒绝了本次登录。", qr_claimed: "本次登录已在别处完成。",
  confirmTitle: "确认登录", confirmAsk: "是否让这台设备登录您的账号？", confirmWarn: "若不是您本人在操作，请拒绝。", confirmNumber: "那台设备上的数字", confirmLogin: "请先在这台手机上登录，然后确认。",
  device: "设备", address: "地址", askedAt: "时间", as: "账号", allow: "确认登录", deny: "拒绝", confirmedHere: "已确认，另一台设备现已登录。", deniedHere: "已拒绝，那台设备不会登录。", toShop: "返回首页",
  sessions: "抢购场次", more: "显示更多", empty: "暂无抢购活动", emptyNext: "新场次即将上线，敬请期待。", item: "商品",
  myOrders: "我的订单", noOrders: "还没有订单。", aboutItem: "商品介绍与活动规则", rules: "活动规则", noDetail: "商家没有更多说明。", preview: "预览：与顾客看到的页面一致，此处不可购买", previewLogin: "请先登录管理后台，再查看预览", browseOn: "返回抢购会场", reload: "重新加载",
  goodsPrice: "商品金额", payOpen: "您已通过{way}发起付款。如已付款，结果通常几秒内自动更新；如未付款，请在倒计时结束前继续支付，重复支付的款项会原路退回。", paidLate: "您的付款在订单关闭后才到达，款项将原路退回，无需操作。", buyItem: "返回商品页", offlineOrder: "网络已断开。您的订单与付款不受影响，恢复后将自动更新。",
  reply: "回复商家", reply_hint: "补充说明或回复商家的处理意见。", reply_text: "回复内容", by_shop: "商家", by_shopper: "我",
  due: "实付", paidBy: "支付方式", shipment: "物流", pickup: "提货码", timeline: "订单进度",
  state_queued: "排队中", state_pending_payment: "待付款", state_paid: "已付款", state_to_ship: "待发货", state_to_pick_up: "待提货", state_shipped: "已发货", state_completed: "已完成", state_closed: "已关闭", state_refused: "未抢到", state_refunding: "退款中", state_refunded: "已退款", state_refund_failed: "退款失败",
  line_order_pending_payment: "抢购成功，订单已提交", line_order_paid: "付款成功", line_order_shipped: "商家已发货", line_order_completed: "交易完成", line_order_closed: "交易关闭", line_order_refused: "未抢到", line_order_refunding: "申请退款", line_order_refunded: "退款完成", line_order_refund_failed: "退款失败",
  line_payment_created: "发起付款", line_payment_captured: "已收到付款", line_payment_closed: "付款已关闭",
  line_refund_awaiting_approval: "退款待审核", line_refund_rejected: "退款未通过", line_refund_requested: "退款处理中", line_refund_succeeded: "退款已到账", line_refund_failed: "退款失败", line_refund_settled_by_hand: "商家已人工退款", line_refund_charged_back: "款项已由银行退回", line_refund_replaced: "已重新发起退款",
  line_dispute_open: "您提交了售后申请", line_dispute_answered: "商家已回复", line_dispute_closed: "售后已完结",
  coupon: "优惠券", noCoupon: "不使用优惠券", resend: "{n} 秒后可重试", toCalendar: "加入日历提醒",
  account: "我的账号", mine: "我的", noPhone: "未绑定", addPhone: "绑定手机号", addPhoneHint: "绑定后可用手机号登录，账号有变动时也会收到短信。", noPassword: "您还没有设置密码，目前用短信验证码登录。", since: "注册时间", changePassword: "修改密码", oldPassword: "原密码", newPassword: "新密码", changed: "已修改，其他设备需重新登录。",
  logins: "登录设备", thisDevice: "本机", endLogin: "下线", endOthers: "退出其他全部设备", lastUsed: "最近使用 {at}",
  erase: "注销账号", erase_card: "注销后手机号等个人信息将被永久删除，无法恢复。", erase_hint: "手机号、姓名、微信和设备信息将被永久删除，无法恢复。请用短信验证码确认。", erase_noPhone: "注销需用手机验证码确认，请先绑定手机号。", erase_elsewhere: "请前往商城登录以确认身份，返回后本站的账号和个人信息将被永久删除，无法恢复。商城的账号不受影响。", erased: "账号已注销，感谢您曾经的光临。",
  messages: "消息通知", reminders: "接收开抢提醒和到货通知", remindersHint: "与订单有关的消息始终会发送。", messageLanguage: "消息语言", shopsLanguage: "默认", save: "保存", saved: "已保存",
  points: "积分", receipt: "确认收货", receipt_hint: "请确认已收到商品。确认后交易完成。", refundUntil: "可自助退款至", contact: "联系商家",
  refund: "申请退款", refund_hint: "将退还剩余的全部款项，退款原路返回。", refund_text: "退款原因（选填）", refundWaits: "退款申请已提交，等待商家审核。",
  dispute: "申请售后", dispute_hint: "请说明遇到的问题，商家会尽快回复。", dispute_text: "问题描述", dispute_open: "售后申请已提交，等待商家回复。", dispute_answered: "商家已回复您的售后申请。", dispute_closed: "售后已完结。",
  status_upcoming: "即将开抢", status_on_sale: "抢购中", status_preparing: "准备中", status_all_held: "已抢光", status_sold_out: "已售罄", status_paused: "已暂停", status_ended: "已结束",
  offline: "无法连接服务器，请检查网络后重试。",
};
const en = {
  opensIn: "Starts in", onSale: "Ends in", paused: "Paused, ends in", over: "This sale has ended", days: "d",
  waiting: "Getting the next sale ready …", units: "{n} available", unitsLeft: "{n} of {total} left", unlimited: "Unlimited", taken: "{n}% claimed", reservedBy: "{n} reserved", offers: "{n} available",
  opensOn: "Starts {at}", limit: "Limit {n} per customer", window: "Pay within {n} min", quantity: "Quantity", fewer: "Decrease quantity", more_units: "Increase quantity",
  buy: "Buy now", waitsFor: "Starts in {left}", sendsIn: "Auto-buy in {left}", coolsDown: "Try again in {n} s", queued: "In line …", asking: "Checking …", notQueued: "Not in line yet …", sending: "Sending …", buyAgain: "Try again", seeOrder: "View order", pay: "Checkout", closing: "Time is up. Checking your payment …", 
  arm: "Buy for me when it starts", tell: "Notify me when it is back", cancel: "Cancel order", cancelAsk: "Cancel this order?", cancelWarn: "Your item goes back on sale right away. This cannot be undone.", cancelNo: "Keep order", queueNumber: "Line no.", orderNumber: "Order no.", copy: "Copy", copied: "Copied",
  reserve: "Reserve", reserveSoon: "Reservations open soon", reservedOnly: "Reservation required", reserveOpensIn: "Reservations open in", reserveClosesIn: "Reservations close in", payWithin: "Time left to pay",
  hint_login: "Log in before the sale starts so you do not miss it.", hint_early: "The button turns on when the sale starts. Or let this page buy for you.", hint_armed: "This page will buy for you at {at}. Keep it open.", hint_reserve: "Reserve this item before the sale starts to be able to buy it.", hint_open: "The sale is on. First come, first served.",
  hint_sold_out: "Sold out. Every unit has been paid for.", hint_all_held: "All units are in other shoppers’ orders. Unpaid ones come back, and the button turns on again.", hint_preparing: "This item will be back in a moment.", hint_paused: "The shop has paused the sale. The button turns on when it resumes.", hint_reservedOnly: "Reservations have closed. Only shoppers with a reservation can buy.", hint_ended: "This sale has ended. Thanks for coming.",
  said_turn: "You are number {n} in line; about {s} s. Your place is kept; leave this page open.", said_noTurn: "You are number {n} in line. The shop is letting no one in. Your place is kept; leave this page open.",
  said_repeating: "Your connection is unstable. We keep trying; leave this page open.", said_asking: "No answer came in time. We are checking whether you got in line; leave this page open.", said_missed: "This page was not open when the sale started, so we could not buy for you.", said_notEntered: "You did not get in line this time, and nothing is held for you. You can try again.",
  crowd: "Simulated crowd", send: "Send 10,000 shoppers", sendWait: "Waiting for the sale to start:", attempts: "attempts", inLine: "in line", refused: "refused",
  "phase_look": "browsing", "phase_open sockets": "connecting", "phase_fetch paths": "getting links", "phase_rush": "buying", "phase_settle": "ordering and paying", "phase_done": "done",
  total: "total", available: "available", held: "unpaid", sold: "sold", difference: "mismatch", books: "The books",
  kill: "Kill Redis",
  prove: "Prove now", proving: "Proving …", proof: "The proof: every unit is accounted for", proveHint: "Run it any time, even mid-sale.", check: "Check", verdict: "Result", ok: "passed", violated: "failed",
  step_line: "You are number {n} in line.", step_next: "You are next. Creating your order …", step_pay: "Not redirected? Open the payment page", step_reserved: "Reserved. Come back before the sale starts.", step_returned: "Back in stock. Be quick!",
  step_pending_payment: "You got it! Please pay in time", step_paid: "Payment received", step_shipped: "Your order has shipped", step_completed: "Order completed", step_closed: "Order canceled", step_refused: "You missed out this time",
  step_refunding: "Refund in progress", step_refunded: "Refunded", step_refund_failed: "The refund failed. The shop will sort it out.",
  reason_duplicate: "you already have an order for this item", reason_shortfall: "out of stock", reason_interrupted: "a system failure interrupted the sale and your place was lost", "reason_not-available": "not available to you", reason_timeout: "not paid in time", reason_canceled: "canceled by you", reason_withdrawn: "canceled by the shop", reason_backup: "paid late, filled from backup stock", "reason_taken-back": "the bank returned the refund; the shop will send it again", surplus_late: "Your payment arrived after the order was closed. It will be refunded.", surplus_duplicate: "This order was already paid. The second payment will be refunded.", surplus_mismatch: "The amount paid was wrong. It will be refunded.",
  details_way: "Delivery method", details_store_id: "Store", details_name: "Full name", details_phone: "Phone number", details_address: "Address", details_note: "Order note", way_delivery: "Delivery", way_pickup: "Store pickup",
  freight: "Shipping", noFreight: "Free shipping", ship: "Shipping {freight}", shipFrom: "Shipping {freight}, free from {from}", discount: "Discount", payWith: "Pay {amount}", checkout: "Checkout", pay_wechat: "WeChat Pay", pay_alipay: "Alipay", pay_stripe: "Card (Stripe)", pay_sandbox: "Sandbox bank", scanToPay: "Scan with the app on your phone to pay.", payCode: "Payment QR code", payPractice: "Practice: open the payment page",
  perQuarter: "responses per ¼ second", lost: "Connection lost. Reconnecting …",
  checking: "Verifying, about a second …", notInLine: "You are not in line yet: solve the puzzle.", checkCanceled: "You canceled the check and are not in line. Press the button to try again.", checkElsewhere: "This check only works on the shop’s own page.", checkAway: "The check does not answer. Please try again.",
  slide: "Security check", slideHint: "Drag the piece into the gap", done: "Done", cancelCheck: "Cancel",
  agreement: "By logging in you agree to our", login: "Log in", loginEnded: "Your login has ended. Log in again to go on.", totpHint: "Your account here also asks for a code of your authenticator app.", elsewhere: "You log in at the shop and come back to this page.", loginForeign: "This login was not started on this page. Please log in again.", loginDeclined: "You did not log in at the shop.", registers: "New here? We create your account when you enter the code.", forgotPassword: "Forgot password?", resetPassword: "Set a new password", resetHint: "You will be logged out on your other devices.", wechat: "WeChat", email: "E-mail", linked: "Linked", notLinked: "Not linked", logout: "Log out", close: "Close", way_sms: "SMS code", way_password: "Password", way_qr: "QR code", way_wechat: "WeChat", wechatGo: "Continue with WeChat", wechatHint: "You log in with your WeChat account. The first time, we create an account for you.", wechatRefused: "You declined in WeChat.", wechatAgain: "Try WeChat again", linkWeChat: "Link this WeChat account", goBack: "Back",
  phone: "Phone number", code: "Verification code", totp: "Authenticator code", sendCode: "Send code", codeSent: "Code sent. It is valid for five minutes.", sandboxSMS: "Open the sandbox inbox", password: "Password",
  scan: "Scan with a phone that is logged in", scanned: "Scanned. Enter this on your phone:", qrCode: "Login QR code", newCode: "New QR code",
  qr_expired: "The QR code has expired.", qr_denied: "The login was denied on the phone.", qr_claimed: "This login was completed elsewhere.",
  confirmTitle: "Confirm login", confirmAsk: "Log in to your account on this device?", confirmWarn: "If this was not you, deny it.", confirmNumber: "Number shown on that device", confirmLogin: "Log in on this phone first, then confirm.",
  device: "Device", address: "Address", askedAt: "Time", as: "Account", allow: "Confirm login", deny: "Deny", confirmedHere: "Confirmed. The other device is now logged in.", deniedHere: "Denied. That device was not logged in.", toShop: "Back to shop",
  sessions: "Flash sales", more: "Show more", empty: "No sales right now", emptyNext: "New ones are on the way. Check back soon.", item: "Item",
  myOrders: "My orders", noOrders: "You have no orders yet.", aboutItem: "Item details and sale rules", rules: "Sale rules", noDetail: "The shop has not added any details.", preview: "Preview: this is what shoppers will see. Nothing can be bought here.", previewLogin: "Sign in to the back office to see the preview", browseOn: "Back to sales", reload: "Reload",
  goodsPrice: "Subtotal", payOpen: "You started to pay with {way}. If you have paid, this page updates within seconds. If not, continue before time runs out. Duplicate payments are refunded.", paidLate: "Your payment arrived after the order was closed. It will be refunded automatically to where you paid from.", buyItem: "Back to the item", offlineOrder: "You are offline. Your order and payment are safe; this page updates when you are back online.",
  reply: "Reply", reply_hint: "Add details or reply to the shop.", reply_text: "Your message", by_shop: "Shop", by_shopper: "You",
  due: "Total", paidBy: "Payment method", shipment: "Tracking", pickup: "Pickup code", timeline: "Order history",
  state_queued: "In line", state_pending_payment: "Awaiting payment", state_paid: "Paid", state_to_ship: "To be shipped", state_to_pick_up: "Ready for pickup", state_shipped: "Shipped", state_completed: "Completed", state_closed: "Canceled", state_refused: "Missed out", state_refunding: "Refunding", state_refunded: "Refunded", state_refund_failed: "Refund failed",
  line_order_pending_payment: "Order placed", line_order_paid: "Payment received", line_order_shipped: "Shipped", line_order_completed: "Order completed", line_order_closed: "Order canceled", line_order_refused: "Missed out", line_order_refunding: "Refund started", line_order_refunded: "Refunded", line_order_refund_failed: "Refund failed",
  line_payment_created: "Payment started", line_payment_captured: "Payment confirmed", line_payment_closed: "Payment expired",
  line_refund_awaiting_approval: "Refund awaiting approval", line_refund_rejected: "Refund declined", line_refund_requested: "Refund in progress", line_refund_succeeded: "Refund sent", line_refund_failed: "Refund failed", line_refund_settled_by_hand: "Refunded by the shop directly", line_refund_charged_back: "Refunded by your bank", line_refund_replaced: "Refund sent again",
  line_dispute_open: "You contacted the shop", line_dispute_answered: "The shop replied", line_dispute_closed: "Case closed",
  coupon: "Coupon", noCoupon: "No coupon", resend: "Try again in {n} s", toCalendar: "Add to calendar",
  account: "My account", mine: "Me", noPhone: "Not added", addPhone: "Add phone number", addPhoneHint: "Use it to log in and to get security alerts by SMS.", noPassword: "You have not set a password; you log in with a code by SMS.", since: "Member since", changePassword: "Change password", oldPassword: "Current password", newPassword: "New password", changed: "Password changed. Your other devices have been logged out.",
  logins: "Logged-in devices", thisDevice: "this device", endLogin: "Log out", endOthers: "Log out of all other devices", lastUsed: "Last used {at}",
  erase: "Delete account", erase_card: "Your phone number and personal data are deleted for good.", erase_hint: "Your phone number, name, WeChat link and devices are deleted for good. Confirm with a code by SMS.", erase_noPhone: "Deleting needs a code by SMS. Add a phone number first.", erase_elsewhere: "Log in at the shop to confirm that it is you. When you come back, your account and personal data here are deleted for good. Your account at the shop stays.", erased: "Your account has been deleted.",
  messages: "Messages", reminders: "Reminders and news of returned units", remindersHint: "Messages about your orders always come.", messageLanguage: "Language of messages", shopsLanguage: "The shop's choice", save: "Save", saved: "Saved",
  points: "Points", receipt: "Confirm receipt", receipt_hint: "Confirm that the goods have arrived. This completes the order.", refundUntil: "Refundable until", contact: "Contact the shop",
  refund: "Request a refund", refund_hint: "All that is left of what you paid goes back to your original payment method.", refund_text: "Reason (optional)", refundWaits: "Refund requested. The shop will review it.",
  dispute: "Report a problem", dispute_hint: "Tell us what went wrong. The shop replies here.", dispute_text: "What went wrong?", dispute_open: "Your report was sent. The shop will reply.", dispute_answered: "The shop replied to your report.", dispute_closed: "This case is closed.",
  status_upcoming: "Upcoming", status_on_sale: "On sale", status_preparing: "Back soon", status_all_held: "All claimed", status_sold_out: "Sold out", status_paused: "Paused", status_ended: "Ended",
  offline: "We cannot reach the server. Check your connection and try again.",
};
// What can be done about a refusal on these pages, by code; the server's title says what
// happened, and for other codes its words do, which are for programs too.
const next = {
  "all-held": ["有商品释放时会在此提示。", "We will tell you here when units come back."],
  "cooling-down": ["每次超时未付款，等待时间都会延长。", "Each unpaid order makes the wait longer."],
  "sold-out": ["每一件都已付款。", "Every unit has been paid for."],
  "not-enough": ["请减少数量。", "Choose a smaller quantity."],
  "already-bought": ["请查看您的订单。", "See your order."],
  unknown: ["正在查询结果，请不要离开。", "We are checking the result. Please stay on this page."],
  "path-expired": ["请再次点击抢购。", "Press the button again."],
  "reservation-full": ["可能有人放弃预约，可稍后再试。", "Someone may give up a place. Try again later."],
  "one-activity": ["完成或取消后即可参与本活动。", "You can join this one when that is done."],
  paused: ["恢复后即可抢购。", "You can buy when it resumes."],
  "too-hot": ["本页会自动重试，请稍候。", "This page retries by itself. Please wait."],
  draining: ["本页会自动重试，请稍候。", "This page retries by itself. Please wait."],
  "bad-path": ["请再次点击抢购。", "Press the button again."],
  "not-entered": ["可以再抢一次。", "You can try again."],
  "not-found": ["请核对链接，或返回首页。", "Check the link, or go back to the shop."],
  "totp-required": ["请输入验证器应用中的六位动态验证码。", "Enter the six digits of your authenticator app."],
  "payment-unavailable": ["请稍后重试，或换一种支付方式。", "Try again in a moment, or choose another payment method."],
  invalid: ["请检查填写的内容后重试。", "Check what you entered and try again."],
  "bad-external-token": ["登录信息无效或已过期。", "What its login sent is invalid or has expired."],
  "no-token": ["登录后即可继续。", "Log in to continue."],
};
// The answers of a crowd, as short as a figure's label.
const answers = {
  "all-held": ["已抢光", "all claimed"], "sold-out": ["已售罄", "sold out"], "too-hot": ["太火爆", "too hot"], "wait-your-turn": ["排队中", "in line"], "no-answer": ["无应答", "no answer"], unknown: ["结果未知", "unknown"], "not-enough": ["库存不足", "not enough"],
};
// What the checks of the books prove, by the server's name: two of them share an id.
const checks = {
  "never oversold": "从不超卖",
  "points follow what was paid and refunded": "积分与付款、退款一致",
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
// The server chose the document's language by what the browser asked for.
export const language = /^zh\b/i.test(document.documentElement.lang) ? "zh" : "en";
const [words, column] = language === "zh" ? [zh, 0] : [en, 1];
// t is the word for a key, with the values in their places.
export const t = (key, values = {}) => (words[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name]);
// opening is when a sale opens. A shopper whose clock shows another time than China's is
// told whose time it is.
const abroad = new Date().getTimezoneOffset() !== -480;
export const opening = (at) => new Date(at).toLocaleString(language, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", ...(abroad && { timeZoneName: "short" }) });
export const count = (n) => n.toLocaleString(language);
export const answerName = (code) => answers[code]?.[column] ?? code;
export const checkName = (name) => (language === "zh" && checks[name]) || name;

// explain is what went wrong, and what can be done about it.
export function explain(e) {
  if (e instanceof TypeError || e.name === "TimeoutError") return t("offline"); // what fetch throws when no answer came
  if (e.doc?.position) return t(e.doc.estimated_seconds ? "said_turn" : "said_noTurn", { n: count(e.doc.position), s: count(e.doc.estimated_seconds ?? 0) });
  const stop = language === "zh" ? "。" : ". ", end = /[。.!！…]$/.test(e.message) ? " " : stop;
  const flaws = e.doc?.errors?.map(({ message }) => message).join(" ");
  const then = [flaws || (next[e.code]?.[column] ?? e.doc?.next), e.retryAfter > 1 ? `${e.retryAfter} ${t("retryIn")}` : ""].filter(Boolean).join(" ");
  return then ? `${e.message}${end}${then}` : e.message;
}

// add takes the words of one page in, which the others and the element need not load.
export const add = (ofZh, ofEn) => { Object.assign(zh, ofZh); Object.assign(en, ofEn); };

export function translate(root = document) {
  for (const node of root.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const node of root.querySelectorAll("[data-label]")) node.setAttribute("aria-label", t(node.dataset.label));
}

// decimals has the currencies of ISO 4217 whose minor unit is not a hundredth, as the
// server does (platform/base/currency). Browsers differ for some, and from each other.
const decimals = {
  BIF: 0, CLP: 0, DJF: 0, GNF: 0, ISK: 0, JPY: 0, KMF: 0, KRW: 0, PYG: 0, RWF: 0, UGX: 0, UYI: 0, VND: 0, VUV: 0, XAF: 0, XOF: 0, XPF: 0,
  BHD: 3, IQD: 3, JOD: 3, KWD: 3, LYD: 3, OMR: 3, TND: 3, CLF: 4, UYW: 4,
};
// money writes an amount, which is in the currency's minor units: 9900 are 99.00 of
// most, 9,900 of those that have none, as JPY.
export function money({ amount, currency }) {
  const digits = decimals[currency] ?? 2, both = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return new Intl.NumberFormat(language, { style: "currency", currency, currencyDisplay: "narrowSymbol", ...both }).format(amount / 10 ** digits);
}
