package coupon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/order/coupon/internal/coupondb"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/plaintext"
	"stampede/platform/edge/httpx"
)

// States of a kind.
const (
	draft   = "draft"   // can be edited and deleted; none is issued
	active  = "active"  // issued and claimed; its terms are fixed
	stopped = "stopped" // none is issued any more; what was issued stays valid
)

// What gets a user a coupon without asking; see Terms.
const (
	onRegistration = "registration"
	onReservation  = "reservation"
)

// maxAmount is far above any price, and far below where a sum of discounts
// overflows, in minor units.
const maxAmount = 1_000_000_000_000

// Terms are what an operator says about a kind. It is exported because huma
// documents embedded fields of exported types only.
type Terms struct {
	Name        string            `json:"name" minLength:"1" maxLength:"120" example:"¥10 off from ¥100"`
	AmountOff   *orderevent.Money `json:"amount_off,omitempty" doc:"What it takes off; either this or percent_off"`
	PercentOff  int16             `json:"percent_off,omitempty" minimum:"1" maximum:"100" doc:"What it takes off, in percent of the goods, rounded down to the minor unit"`
	MaxOff      *orderevent.Money `json:"max_off,omitempty" doc:"The most that percent_off takes off"`
	Threshold   orderevent.Money  `json:"threshold" doc:"The goods of the order cost at least this much, in this currency; 0 for any order"`
	ActivityIDs []string          `json:"activity_ids,omitempty" nullable:"false" maxItems:"100" doc:"Only for orders of these activities, or of item_ids; for all where both are left out" example:"[\"12\"]"`
	ItemIDs     []string          `json:"item_ids,omitempty" nullable:"false" maxItems:"100" doc:"Only for orders of these items, or of activity_ids" example:"[\"42\"]"`
	ValidFrom   *Moment           `json:"valid_from,omitempty" doc:"Can be used from then on; with valid_until"`
	ValidUntil  *Moment           `json:"valid_until,omitempty" doc:"Expires then"`
	ValidDays   int32             `json:"valid_days,omitempty" minimum:"1" maximum:"366" doc:"Expires that many days after its issue; instead of valid_from and valid_until"`
	Total       int64             `json:"total" minimum:"1" maximum:"100000000" doc:"The most coupons that are issued"`
	PerUser     int16             `json:"per_user,omitempty" minimum:"1" maximum:"100" default:"1" doc:"The most coupons that a user is issued"`
	ClaimFrom   *Moment           `json:"claim_from,omitempty" doc:"Shoppers may claim it from then on; with claim_until. Left out, only operators issue it"`
	ClaimUntil  *Moment           `json:"claim_until,omitempty" doc:"Shoppers may claim it until then"`
	IssueOn     string            `json:"issue_on,omitempty" enum:"registration,reservation" doc:"What gets a user one without asking, while the kind is active and some are left. registration: a new account, at once; reservation: a reservation of what reserved_ names, when it has closed"`
	Reserved    []string          `json:"reserved_item_ids,omitempty" nullable:"false" maxItems:"100" doc:"With issue_on reservation: the items" example:"[\"42\"]"`
	ReservedIn  []string          `json:"reserved_activity_ids,omitempty" nullable:"false" maxItems:"100" doc:"With issue_on reservation: activities, for all of their items" example:"[\"12\"]"`
}

// row checks the terms and returns them as a row. A request is refused with all its
// flaws at once.
func (t *Terms) row() (k coupondb.OrdersCouponKind, err error) {
	var f fault.Flaws
	check := func(ok bool, field string, rule fault.Text) { f.Add(ok, "body."+field, nil, rule) }
	money := func(field string, m *orderevent.Money) int64 {
		if m == nil {
			return 0
		}
		check(m.Amount > 0 && m.Amount <= maxAmount, field,
			fault.T("An amount is 1 to {most} minor units.", "金额以最小货币单位计，须在 1 至 {most} 之间。", "most", int64(maxAmount)))
		check(m.Currency == t.Threshold.Currency, field,
			fault.T("A coupon has one currency, that of threshold.", "一张优惠券只能使用一种货币。"))
		return m.Amount
	}
	among := func(field string, texts []string) []int64 {
		list := make([]int64, 0, len(texts))
		for i, text := range texts {
			id, err := httpx.ParseID(text)
			check(err == nil, fmt.Sprintf("%s[%d]", field, i),
				fault.T("An id is a positive decimal number.", "编号为正整数。"))
			list = append(list, id)
		}
		return list
	}
	k = coupondb.OrdersCouponKind{
		Name: plaintext.Clean(t.Name), Currency: t.Threshold.Currency, AmountOff: money("amount_off", t.AmountOff), PercentOff: t.PercentOff,
		MaxOff: money("max_off", t.MaxOff), Threshold: t.Threshold.Amount,
		ActivityIds: among("activity_ids", t.ActivityIDs), ItemIds: among("item_ids", t.ItemIDs),
		ValidFrom: (*time.Time)(t.ValidFrom), ValidUntil: (*time.Time)(t.ValidUntil), ValidDays: t.ValidDays,
		Total: t.Total, PerUser: max(t.PerUser, 1), ClaimFrom: (*time.Time)(t.ClaimFrom), ClaimUntil: (*time.Time)(t.ClaimUntil),
		IssueOn: t.IssueOn, ReservedItemIds: among("reserved_item_ids", t.Reserved), ReservedActivityIds: among("reserved_activity_ids", t.ReservedIn),
	}
	check(k.Name != "" && !strings.ContainsFunc(k.Name, plaintext.Unruly), "name",
		fault.T("A name is one line and not blank.", "名称为一行文字，不能为空。"))
	check(len(k.Currency) == 3 && strings.Trim(k.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "", "threshold.currency",
		fault.T("A currency is three letters of ISO 4217.", "货币为三个大写字母，例如 CNY。"))
	check(k.Threshold >= 0 && k.Threshold <= maxAmount, "threshold.amount",
		fault.T("A threshold is 0 to {most} minor units.", "门槛以最小货币单位计，须在 0 至 {most} 之间。", "most", int64(maxAmount)))
	check((k.AmountOff > 0) != (k.PercentOff > 0), "amount_off",
		fault.T("A coupon takes off either an amount or a percentage.", "减免金额与减免百分比须填写其中一项。"))
	check(k.MaxOff == 0 || k.PercentOff > 0, "max_off",
		fault.T("Only a percentage can have a maximum.", "只有百分比减免才能设置上限。"))
	span := func(from, until *time.Time, field string) {
		check((from == nil) == (until == nil), field,
			fault.T("A validity period needs a start and an end.", "开始和结束时间须同时填写。"))
		if from != nil && until != nil {
			check(from.Before(*until) && from.Year() >= 2000 && until.Year() < 2200, field,
				fault.T("The validity period must end after it starts, in the years 2000 to 2199.",
					"结束时间须晚于开始时间，年份须为 2000 至 2199。"))
		}
	}
	span(k.ValidFrom, k.ValidUntil, "valid_until")
	span(k.ClaimFrom, k.ClaimUntil, "claim_until")
	check((k.ValidDays > 0) != (k.ValidUntil != nil), "valid_days",
		fault.T("A coupon is valid for a period or for a number of days, not both.", "有效天数与固定有效期须填写其中一项。"))
	check((k.IssueOn == onReservation) == (len(t.Reserved)+len(t.ReservedIn) > 0), "issue_on",
		fault.T("Name the items or activities to reserve in reserved_item_ids or reserved_activity_ids if issue_on "+
			"is reservation, and only then.",
			"选择“预约后”发放时，请填写活动或商品编号；其他情况请留空。"))
	return k, f.Err()
}

// termsOf is the reverse of row.
func termsOf(k *coupondb.OrdersCouponKind) Terms {
	money := func(amount int64) *orderevent.Money {
		if amount == 0 {
			return nil
		}
		return &orderevent.Money{Amount: amount, Currency: k.Currency}
	}
	texts := func(ids []int64) (list []string) {
		for _, id := range ids {
			list = append(list, httpx.FormatID(id))
		}
		return list
	}
	return Terms{
		Name: k.Name, AmountOff: money(k.AmountOff), PercentOff: k.PercentOff, MaxOff: money(k.MaxOff),
		Threshold:   orderevent.Money{Amount: k.Threshold, Currency: k.Currency},
		ActivityIDs: texts(k.ActivityIds), ItemIDs: texts(k.ItemIds),
		ValidFrom: (*Moment)(k.ValidFrom), ValidUntil: (*Moment)(k.ValidUntil), ValidDays: k.ValidDays,
		Total: k.Total, PerUser: k.PerUser, ClaimFrom: (*Moment)(k.ClaimFrom), ClaimUntil: (*Moment)(k.ClaimUntil),
		IssueOn: k.IssueOn, Reserved: texts(k.ReservedItemIds), ReservedIn: texts(k.ReservedActivityIds),
	}
}

// sameTerms reports whether coupons of both kinds are worth the same under the same
// conditions, and are issued by the same rule.
func sameTerms(a, b *coupondb.OrdersCouponKind) bool {
	same := func(x, y *time.Time) bool { return (x == nil) == (y == nil) && (x == nil || x.Equal(*y)) }
	return a.Currency == b.Currency && a.AmountOff == b.AmountOff && a.PercentOff == b.PercentOff && a.MaxOff == b.MaxOff &&
		a.Threshold == b.Threshold && slices.Equal(a.ActivityIds, b.ActivityIds) && slices.Equal(a.ItemIds, b.ItemIds) &&
		same(a.ValidFrom, b.ValidFrom) && same(a.ValidUntil, b.ValidUntil) && a.ValidDays == b.ValidDays &&
		a.IssueOn == b.IssueOn && slices.Equal(a.ReservedItemIds, b.ReservedItemIds) && slices.Equal(a.ReservedActivityIds, b.ReservedActivityIds)
}

// discount is what a coupon of the kind takes off goods of that price, in minor
// units: rounded down, never more than the goods cost.
func discount(k *coupondb.OrdersCouponKind, goods int64) int64 {
	off := k.AmountOff
	if k.PercentOff > 0 {
		// In two steps, because goods × 100 could overflow.
		percent := int64(k.PercentOff)
		off = goods/100*percent + goods%100*percent/100
		if k.MaxOff > 0 {
			off = min(off, k.MaxOff)
		}
	}
	return min(off, goods)
}

// Moment is a time as every answer has it: RFC 3339, UTC, milliseconds.
type Moment time.Time

// MarshalText writes the form described at Moment.
func (m Moment) MarshalText() ([]byte, error) { return []byte(httpx.Moment(time.Time(m))), nil }

// UnmarshalText reads any RFC 3339 time.
func (m *Moment) UnmarshalText(text []byte) error { return (*time.Time)(m).UnmarshalText(text) }

// Schema declares a Moment as a date-time.
func (Moment) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Examples: []any{"2026-11-11T12:00:00.000Z"}}
}
