package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/external"
	"stampede/platform/identity/humancheck"
	"stampede/platform/store/pg"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/seckillevent"
)

// Limits of an activity. The database's CHECKs enforce the same; the checks
// here produce a message that an operator can read.
const (
	maxNameRunes    = 120
	maxLimitPerUser = 1000
	MinPayWindow    = 10 * time.Second
	maxPayWindow    = 7 * 24 * time.Hour
	maxActivitySpan = 366 * 24 * time.Hour // a year's campaign; longer is a typing error
	maxPointsRate   = 10_000               // a hundred points for the smallest unit of money; more is a typing error
	MaxSessions     = 200                  // one activity's sessions are read and written as a whole
	MaxItems        = 1000                 // likewise its items, in one transaction each
)

// ActivityDraft is the body that creates an activity. It may include sessions
// and items, so that one request creates a whole campaign.
type ActivityDraft struct {
	Name                 string                    `json:"name" doc:"1 to 120 characters" example:"Singles' Day"`
	StartsAt             time.Time                 `json:"starts_at" doc:"The earliest time a session may open" example:"2030-11-11T00:00:00Z"`
	EndsAt               time.Time                 `json:"ends_at" doc:"The activity ends here; no session closes later" example:"2030-11-12T00:00:00Z"`
	LimitPerUser         int32                     `json:"limit_per_user,omitempty" minimum:"1" maximum:"1000" default:"1" doc:"Units of one item that one user may hold, all in one order; an item may set less"`
	OneItemPerUser       bool                      `json:"one_item_per_user,omitempty" doc:"A user may hold one item of the activity only"`
	PaymentWindowSeconds *int32                    `json:"payment_window_seconds,omitempty" minimum:"10" maximum:"604800" doc:"How long an order may stay unpaid; 900 unless given"`
	PaymentWindowShare   *float64                  `json:"payment_window_share,omitempty" minimum:"0" maximum:"1" doc:"The same as a share of the session's length; replaces the duration"`
	RebuyAfterClose      *bool                     `json:"rebuy_after_close,omitempty" doc:"A user whose unpaid order was closed may buy that item again, after a pause that grows, and one whose order was refunded at once; false unless given. Items with unlimited stock may always be bought again"`
	HumanCheck           string                    `json:"human_check,omitempty" enum:"none,pow,slide,verifier" default:"none" doc:"How a shopper proves to be a person before a rush path; pow is earned at the reservation where the session has one"`
	HumanCheckRate       int32                     `json:"human_check_rate,omitempty" minimum:"0" maximum:"1000" doc:"A user who requests more paths a minute than this must pass a second check; 0 turns the second check off"`
	Exclusive            bool                      `json:"exclusive,omitempty" doc:"A user takes part in one exclusive activity at a time"`
	RefundWithinHours    int32                     `json:"refund_within_hours,omitempty" minimum:"0" maximum:"8760" doc:"How long after paying a shopper may return an order that is not completed; 0 is never"`
	RefundUnits          string                    `json:"refund_units,omitempty" enum:"return,write_off" default:"return" doc:"What becomes of the units of a refunded order unless an operator decides: back on sale, or never sold again"`
	PointsRate           int32                     `json:"points_rate,omitempty" minimum:"0" maximum:"10000" doc:"Points that a shopper earns for each 100 minor units paid, such as 1 for each yuan; rounded down for an order, 0 is none"`
	Checkout             seckillevent.CheckoutView `json:"checkout,omitzero" doc:"What is settled between the order and its payment: how the goods reach the shopper, freight, and what the shopper tells about themselves"`
	ExternalID           string                    `json:"external_id,omitempty" maxLength:"64" pattern:"^[!-~]*$" patternDescription:"printable ASCII without spaces" doc:"What the shop's own system calls it, unique among activities" example:"campaign-2026-11"`
	Metadata             external.Metadata         `json:"metadata,omitempty"`
	Rules                string                    `json:"rules,omitempty" maxLength:"10000" doc:"The rules in words, which shoppers read on the page of each item; GET and PUT activities/{id}/rules have them"`
	Sessions             []SessionDraft            `json:"sessions,omitempty" maxItems:"200" doc:"Sessions to create with it"`
}

// Row is the row that the draft inserts.
func (in *ActivityDraft) Row() seckilldb.SeckillActivity {
	return seckilldb.SeckillActivity{
		Name: in.Name, StartsAt: in.StartsAt, EndsAt: in.EndsAt, LimitPerUser: in.LimitPerUser, OneItemPerUser: in.OneItemPerUser,
		PaymentWindowSeconds: pg.ValueOr(in.PaymentWindowSeconds, DefaultPayWindowSeconds), PaymentWindowShare: in.PaymentWindowShare,
		RebuyAfterClose: pg.ValueOr(in.RebuyAfterClose, false),
		HumanCheck:      cmp.Or(in.HumanCheck, string(humancheck.None)), HumanCheckRate: in.HumanCheckRate, Exclusive: in.Exclusive,
		RefundWithinHours: in.RefundWithinHours, RefundUnits: cmp.Or(in.RefundUnits, RefundReturns), Checkout: in.Checkout.Checkout(),
		PointsRate: in.PointsRate,
		ExternalID: pg.Null(in.ExternalID), Metadata: in.Metadata.OrEmpty(),
	}
}

// DefaultPayWindowSeconds is long enough to find a phone and short enough that
// a unit comes back while shoppers still want it.
const DefaultPayWindowSeconds = 15 * 60

// Activity checks the operator's fields of a row as a whole, after a draft or a
// patch has been applied.
func (f *Flaws) Activity(a *seckilldb.SeckillActivity, bothWindows bool) {
	f.name("body.name", a.Name)
	f.Moment("body.starts_at", a.StartsAt)
	f.Moment("body.ends_at", a.EndsAt)
	f.Add(a.EndsAt.After(a.StartsAt), "body.ends_at", a.EndsAt,
		fault.T("An activity ends after it starts.", "活动结束须晚于开始。"))
	f.Add(a.EndsAt.Sub(a.StartsAt) <= maxActivitySpan, "body.ends_at", a.EndsAt,
		fault.T("An activity lasts 366 days at most.", "活动最长 366 天。"))
	f.Add(a.LimitPerUser >= 1 && a.LimitPerUser <= maxLimitPerUser, "body.limit_per_user", a.LimitPerUser,
		fault.T("The limit per user is 1 to {most} units.", "每人限购为 1 至 {most}。", "most", maxLimitPerUser))
	window := time.Duration(a.PaymentWindowSeconds) * time.Second
	f.Add(window >= MinPayWindow && window <= maxPayWindow, "body.payment_window_seconds", a.PaymentWindowSeconds,
		fault.T("The payment window is 10 seconds to 7 days.", "付款时限为 10 秒至 7 天。"))
	f.Add(!bothWindows, "body.payment_window_share", nil,
		fault.T("The payment window is a duration or a share of the session, not both.", "付款时限与按场次比例只能二选一。"))
	if s := a.PaymentWindowShare; s != nil {
		f.Add(*s > 0 && *s <= 1 && !math.IsNaN(*s), "body.payment_window_share", *s,
			fault.T("The share is above 0 and at most 1 of the session's length.", "比例须大于 0、不超过 1。"))
	}
	f.checkout(&a.Checkout)
	f.activityDoor(a)
	f.refunds(a)
	f.Add(a.PointsRate >= 0 && a.PointsRate <= maxPointsRate, "body.points_rate", a.PointsRate,
		fault.T("A shopper earns 1 to {most} points for each 100 minor units, or none with 0.",
			"每 100 最小货币单位（如 1 元）可得 1 至 {most} 积分，0 为不积分。", "most", maxPointsRate))
	f.external("body", a.ExternalID, a.Metadata)
}

// Moment refuses years that can only come from a wrong unit or a missing value.
func (f *Flaws) Moment(location string, t time.Time) {
	f.Add(t.Year() >= 2000 && t.Year() < 2200, location, t, fault.T("The year must be 2000 to 2199.", "年份须为 2000 至 2199。"))
}

// ActivitySubject names an activity in the audit log.
func ActivitySubject(id int64) string { return fmt.Sprintf("activity %d", id) }

// humanChecks are the kinds that an activity may require.
var humanChecks = []string{string(humancheck.None), string(humancheck.Pow), string(humancheck.Slide), string(humancheck.Verifier)}

// activityDoor checks an activity's door settings.
func (f *Flaws) activityDoor(a *seckilldb.SeckillActivity) {
	f.Add(slices.Contains(humanChecks, a.HumanCheck), "body.human_check", a.HumanCheck,
		fault.T("The human check is one of {kinds}.", "人机验证须为：{kinds}。", "kinds", strings.Join(humanChecks, ", ")))
	f.Add(a.HumanCheckRate >= 0 && a.HumanCheckRate <= maxHumanCheckRate, "body.human_check_rate", a.HumanCheckRate,
		fault.T("The rate above which a second check is required is 1 to {most} paths a minute, or 0 for none.",
			"二次验证的频率为每分钟 1 至 {most} 次，0 为不启用。", "most", maxHumanCheckRate))
}

// checkout checks what an activity settles between an order and its payment.
func (f *Flaws) checkout(c *seckillevent.Checkout) {
	const at = "body.checkout."
	ways := slices.Clone(c.Ways)
	slices.Sort(ways)
	f.Add(len(slices.Compact(ways)) == len(c.Ways), at+"ways", c.Ways,
		fault.T("Each delivery method is listed once.", "配送方式重复。"))
	f.Add(c.Freight >= 0 && c.Freight <= seckillevent.MaxFreight, at+"freight", c.Freight,
		fault.T("Freight is 0 to {most} minor units.", "运费以最小货币单位计，须在 0 至 {most} 之间。", "most", seckillevent.MaxFreight))
	delivers := c.Offers(seckillevent.Delivery)
	f.Add(c.Freight == 0 || delivers, at+"freight", c.Freight,
		fault.T("Freight is charged for delivery only: add delivery to ways.", "收取运费时，请勾选快递配送。"))
	f.Add(c.FreeFrom >= 0 && (c.FreeFrom == 0 || c.Freight > 0), at+"free_from", c.FreeFrom,
		fault.T("Free delivery from an amount needs freight to be charged.", "收取运费时才能设置满额包邮。"))
	f.Add(c.Currency != "" || c.Freight == 0, at+"free_from", c.FreeFrom,
		fault.T("Freight and free delivery from an amount are in one currency.", "运费与满额包邮须为同一货币。"))
	f.Add(c.Address == "" || delivers, at+"address", c.Address,
		fault.T("An address is asked for only with delivery: add delivery to ways.", "需要收货地址时，请勾选快递配送。"))
	f.Add(c.Freight == 0 || c.Address == seckillevent.Required, at+"address", c.Address,
		fault.T("Delivery with freight needs an address: require it.", "收取运费需要收货地址，请将收货地址设为必填。"))
}

// What becomes of the units of a refunded order, as an activity's refund_units says.
const (
	RefundReturns   = "return"
	refundWritesOff = "write_off"
)

// maxRefundHours is a year: longer is a typing error.
const maxRefundHours = 365 * 24

// refunds checks an activity's rule about refunds.
func (f *Flaws) refunds(a *seckilldb.SeckillActivity) {
	f.Add(a.RefundWithinHours >= 0 && a.RefundWithinHours <= maxRefundHours, "body.refund_within_hours", a.RefundWithinHours,
		fault.T("A shopper may refund an order for 1 to {most} hours, or never with 0.",
			"可退款时长为 1 至 {most} 小时，0 为不支持。", "most", maxRefundHours))
	f.Add(a.RefundUnits == RefundReturns || a.RefundUnits == refundWritesOff, "body.refund_units", a.RefundUnits,
		fault.T("refund_units must be {one} or {other}.",
			"退款商品只能退回库存或报损。", "one", RefundReturns, "other", refundWritesOff))
}
