package httpx

import "golang.org/x/text/language"

// Language is one that problem titles are written in.
type Language uint8

// The languages.
const (
	English Language = iota
	Chinese
)

var matcher = language.NewMatcher([]language.Tag{language.English, language.Chinese})

// LanguageOf picks the best language for an Accept-Language header; English
// when it names none of ours.
func LanguageOf(accept string) Language {
	if accept == "" {
		return English
	}
	_, i := language.MatchStrings(matcher, accept)
	return Language(i)
}

// titles are the short words a person sees, by code: English, then Chinese.
var titles = map[string][2]string{
	// The rush.
	"queued":         {"You are in line", "抢购排队中……"},
	"sold-out":       {"Sold out", "已售罄"},
	"all-held":       {"All units are held; some may come back", "已被抢光，未付款的商品可能会释放"},
	"not-enough":     {"Fewer units are left than you asked for", "剩余数量不足"},
	"too-hot":        {"Too many shoppers at once; try again in a moment", "太火爆了，请稍后再试"},
	"rate-limited":   {"You are asking too often", "操作太频繁，请稍后再试"},
	"already-bought": {"You already have, or had, an order in this sale", "您已参与过本次抢购"},
	"not-started":    {"The sale has not started", "抢购尚未开始"},
	"ended":          {"The sale has ended", "抢购已结束"},
	"not-available":  {"Not available to you right now", "暂时无法参与该活动"},
	"one-activity":   {"You are taking part in another activity", "您正在参与其他活动"},
	"bad-path":       {"This rush link is not valid", "抢购链接无效"},
	"path-expired":   {"This rush link has expired", "抢购链接已过期"},
	"paused":         {"The sale is paused", "抢购已暂停"},
	"fenced":         {"The item is being prepared", "商品准备中，请稍后再试"},
	"unknown":        {"The outcome is not known yet", "结果确认中，请查询订单"},
	"not-entered":    {"This number is not in line", "该号码未进入排队"},
	"over-limit":     {"More units than one shopper may buy", "超过每人限购数量"},
	"not-on-sale":    {"The item is not on sale", "商品未在售"},
	"busy":           {"Already under way", "正在进行中，请稍候"},
	"draining":       {"The server is restarting", "服务正在重启，请稍后再试"},
	"overloaded":     {"Too many shoppers at once; try again in a moment", "太火爆了，请稍后再试"},
	"bus-full":       {"Too much work is waiting; try again in a moment", "太火爆了，请稍后再试"},
	"bus-unhealthy":  {"The message stream is being restored", "系统正在恢复，请稍后再试"},
	"bus-refused":    {"The message was not accepted", "消息无法接收"},
	// The reservation.
	"no-reservation":       {"No reservation is needed", "该商品无需预约"},
	"no-reservation-held":  {"Only for shoppers with a reservation", "您未预约，无法参与抢购"},
	"reservation-not-open": {"Reservations are not open yet", "预约尚未开始"},
	"reservation-closed":   {"Reservations are closed", "预约已结束"},
	"reservation-full":     {"All reservations are taken", "预约名额已满"},
	// The human check.
	"human-check-required":    {"Show that you are not a program", "请先完成人机验证"},
	"human-check-failed":      {"The check was not passed", "人机验证未通过，请重试"},
	"human-check-unavailable": {"The check is not available right now", "人机验证暂不可用，请稍后再试"},
	"no-human-check":          {"Nothing to check here", "无需人机验证"},
	// Orders and payments.
	"order-not-payable":    {"This order can no longer be paid", "订单已无法支付"},
	"order-not-cancelable": {"This order can no longer be canceled", "订单已无法取消"},
	"order-queued":         {"This order is still in line", "排队中，订单生成后再操作"},
	"order-closing":        {"This order is being closed", "订单正在关闭"},
	"payment-unavailable":  {"Payment is not available right now", "支付暂不可用，请稍后再试"},
	"bad-signature":        {"The signature is not valid", "签名无效"},
	// Operating.
	"forbidden-transition":  {"Not possible in this state", "当前状态不允许此操作"},
	"not-editable":          {"This can no longer be changed", "当前状态不可修改"},
	"stale-version":         {"Somebody else has changed this meanwhile", "内容已被他人修改，请刷新后重试"},
	"load-busy":             {"The item is being loaded already", "商品正在预热，请稍后再试"},
	"idempotency-mismatch":  {"This Idempotency-Key was used for another request", "该幂等键已用于其他请求"},
	"idempotency-in-flight": {"The first request with this key is under way", "相同请求正在处理中"},
	"list-full":             {"The list is full", "名单已满"},
	"frozen":                {"Too close to the opening to change this", "临近开抢，不可修改"},
	// Accounts.
	"wrong-login":         {"Phone or password is wrong", "手机号或密码错误"},
	"wrong-code":          {"The code is not valid", "验证码错误或已失效"},
	"wrong-password":      {"The password is wrong", "密码错误"},
	"weak-password":       {"Choose a stronger password", "密码强度不足"},
	"no-password":         {"No password is set yet", "尚未设置密码"},
	"account-disabled":    {"This account is disabled", "账号已被停用"},
	"no-account":          {"There is no account for this login", "账号不存在"},
	"no-login":            {"This token belongs to no login", "该令牌不属于任何登录"},
	"phone-taken":         {"This phone has an account already", "该手机号已注册"},
	"phone-linked":        {"Your account has another phone", "您的账号已绑定其他手机号"},
	"login-refused":       {"You cannot log in right now", "暂时无法登录，请联系客服"},
	"phone-unknown":       {"This phone has no account", "该手机号未注册"},
	"bad-refresh-token":   {"Please log in again", "登录已失效，请重新登录"},
	"refresh-reused":      {"Please log in again", "登录存在风险已退出，请重新登录"},
	"too-busy":            {"Too many people are logging in", "登录人数过多，请稍后再试"},
	"sms-unavailable":     {"SMS cannot be sent right now", "短信暂时无法发送，请稍后再试"},
	"sms-refused":         {"SMS cannot be sent to this number", "无法向该号码发送短信"},
	"sms-country-refused": {"SMS are not sent to this country", "暂不支持向该国家或地区的号码发送短信"},
	"wechat-unavailable":  {"WeChat login is not available right now", "微信登录暂不可用"},
	"wechat-bad-code":     {"Please log in with WeChat again", "微信授权已失效，请重新授权"},
	"wechat-taken":        {"This WeChat account is in use", "该微信已绑定其他账号"},
	"wechat-linked":       {"Your account has another WeChat account", "您的账号已绑定其他微信"},
	"proof-required":      {"Show that it is you", "请先验证身份"},
	"last-admin":          {"This is the last admin", "不能移除最后一位管理员"},
	// Logging in by QR code.
	"qr-expired":     {"This QR code has expired", "二维码已过期，请刷新"},
	"qr-taken":       {"This QR code has been scanned already", "二维码已被扫描，请刷新"},
	"qr-not-scanned": {"Scan the QR code first", "请先扫描二维码"},
	"qr-decided":     {"This login has been decided already", "该登录请求已处理"},
	// Everything else.
	"no-token":               {"Please log in", "请先登录"},
	"bad-token":              {"Please log in again", "登录已失效，请重新登录"},
	"forbidden":              {"Not allowed", "没有权限"},
	"not-found":              {"Not found", "未找到"},
	"method-not-allowed":     {"This method is not available here", "不支持的请求方法"},
	"upgrade-required":       {"This address speaks WebSocket only", "此地址仅支持 WebSocket 连接"},
	"invalid":                {"The request is not valid", "请求内容有误"},
	"bad-request":            {"The request could not be read", "请求无法解析"},
	"too-large":              {"The request is too large", "请求内容过大"},
	"too-slow":               {"The request took too long", "请求超时"},
	"unsupported-media-type": {"This content type is not supported", "不支持的内容类型"},
	"not-acceptable":         {"No acceptable content type", "无法提供所需的内容类型"},
	"unavailable":            {"Not available right now", "服务暂不可用，请稍后再试"},
	"internal":               {"Something failed on our side", "服务出错了，请稍后再试"},
}

// Title is the short words for a code in a language; the code itself when it
// has none, which a test forbids for every code in use.
func Title(code string, lang Language) string {
	if t, ok := titles[code]; ok {
		return t[lang]
	}
	return code
}
