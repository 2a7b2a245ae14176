package message

import (
	"slices"
	"time"

	"stampede/platform/base/fault"
)

// Kind is what a message is about.
type Kind string

// The kinds, in the order in which a shopper meets them.
const (
	Reminder  Kind = "reminder"   // a session opens that the shopper has reserved in
	Won       Kind = "won"        // units are held, until the payment is due
	Deadline  Kind = "deadline"   // the payment is nearly due
	Paid      Kind = "paid"       // the order is paid
	Shipped   Kind = "shipped"    // the parcel is on its way
	Refunded  Kind = "refunded"   // money went back
	UnitsBack Kind = "units_back" // an item can be bought again, for which the shopper had asked
	Dispute   Kind = "dispute"    // the shop answered a dispute, or closed it
)

// Kinds are all of them.
var Kinds = []Kind{Reminder, Won, Deadline, Paid, Shipped, Refunded, UnitsBack, Dispute}

// Offer reports whether a message is about no order: it waits behind the others, counts against the budget, keeps the
// quiet hours, and shoppers can unsubscribe from it.
func (k Kind) Offer() bool { return k == Reminder || k == UnitsBack }

// life is how long after its event a message is worth sending; those that are not listed name the moment themselves.
var life = map[Kind]time.Duration{
	Paid:    12 * time.Hour, // by then the page has said so
	Shipped: 24 * time.Hour, Refunded: 24 * time.Hour, Dispute: 48 * time.Hour,
	UnitsBack: 10 * time.Minute, // by then they are gone
}

// The names of what a text may be filled with.
const (
	fillShop        = "shop"
	fillItem        = "item"
	fillQuantity    = "quantity"
	fillAmount      = "amount"
	fillTime        = "time"    // of the opening or of the deadline, in the shop's zone
	fillMinutes     = "minutes" // until then, when the message is sent
	fillOrder       = "order"   // the last six digits of the order's number
	fillCarrier     = "carrier"
	fillTracking    = "tracking"
	fillLink        = "link" // to the shop, or to the order there
	fillUnsubscribe = "unsubscribe"
)

// fills are what the texts of a kind may be filled with.
func (k Kind) fills() []string {
	own := map[Kind][]string{
		Reminder: {fillItem, fillTime, fillMinutes, fillUnsubscribe}, UnitsBack: {fillItem, fillUnsubscribe},
		Won: {fillItem, fillQuantity, fillAmount, fillTime, fillMinutes, fillOrder}, Deadline: {fillItem, fillQuantity, fillAmount, fillTime, fillMinutes, fillOrder},
		Paid: {fillItem, fillQuantity, fillAmount, fillOrder}, Shipped: {fillItem, fillQuantity, fillOrder, fillCarrier, fillTracking},
		Refunded: {fillAmount, fillOrder}, Dispute: {fillOrder},
	}
	return slices.Concat([]string{fillShop, fillLink}, own[k])
}

// bodies are the built-in texts. Together with a signature and a short name each is one SMS, or two.
var bodies = map[Kind]fault.Text{
	Reminder: {"{item} opens at {time}. You have reserved: log in a few minutes early.", "您预约的{item}将于{time}开抢，请提前几分钟登录。"},
	Won: {
		"You got {item}, quantity {quantity}. Pay {amount} by {time}, or the order is cancelled.",
		"恭喜您抢到{item}，共{quantity}件。请在{time}前支付{amount}，逾期订单将自动取消。",
	},
	Deadline: {
		"{minutes} minutes left to pay {amount} for {item}. After {time} the order is cancelled.",
		"您抢到的{item}还有{minutes}分钟付款时间，请在{time}前支付{amount}，逾期订单将自动取消。",
	},
	Paid:      {"We have received {amount} for {item}, quantity {quantity}. Thank you!", "您购买的{item}（{quantity}件）已付款成功，实付{amount}，感谢您的支持。"},
	Shipped:   {"{item} is on its way with {carrier}, tracking number {tracking}.", "您购买的{item}已发货，{carrier}，运单号{tracking}，请注意查收。"},
	Refunded:  {"We have refunded {amount} for the order ending in {order}. Your bank may take a few days.", "您尾号{order}的订单已退款{amount}，款项将原路退回，到账时间以支付渠道为准。"},
	UnitsBack: {"{item} is available again. Units are few: first come, first served.", "您关注的{item}又有货了，数量有限，先到先得。"},
	Dispute:   {"We have replied to your dispute about the order ending in {order}. Log in to read it.", "您尾号{order}的订单售后有新回复，请登录查看。"},
}

// subjects are the first lines of the built-in e-mails, above the same texts and a link.
var subjects = map[Kind]fault.Text{
	Reminder: {"{item} opens at {time}", "{item}将于{time}开抢"}, Won: {"You got {item}: pay by {time}", "抢购成功：请在{time}前支付{item}"},
	Deadline: {"{minutes} minutes left to pay for {item}", "{item}还有{minutes}分钟付款时间"}, Paid: {"Paid: {item}", "付款成功：{item}"},
	Shipped: {"On its way: {item}", "已发货：{item}"}, Refunded: {"Refunded: {amount}", "已退款：{amount}"},
	UnitsBack: {"{item} is available again", "{item}又有货了"}, Dispute: {"We have replied to your dispute", "您的售后有新回复"},
}

// mailOptOut comes before the link that ends offers.
var mailOptOut = fault.Text{"No more of these e-mails: ", "不再接收此类邮件："}

// optOut ends an SMS that is an offer: carriers and gateways take the reply, and the law asks for a way out.
var optOut = fault.Text{" Reply STOP to opt out", " 拒收请回复R"}
