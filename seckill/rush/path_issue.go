package rush

import (
	"context"
	"math"
	"net/http"
	"net/netip"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/seckill/catalogue"
)

// Reasons for refusing a path.
var (
	ErrItemUnknown = fault.Plain(fault.NotFound,
		fault.T("There is no such item; GET /api/v1/sessions lists what is on sale.",
			"没有该商品，在售商品见 GET /api/v1/sessions。"))
	ErrNotStarted  = refusals[outNotStarted]
	ErrSaleEnded   = refusals[outEnded].Saying(fault.T("The sale of this item has ended.", "该商品的抢购已结束。"))
	ErrCoolingDown = refusals[outCoolingDown].Saying(
		fault.T("An order of yours in this activity was closed unpaid, so your next attempt has to wait; the pause "+
			"grows with each such order.",
			"您在该活动中有订单未付款已关闭，需等待后才能再抢；每多一单，等待时间越长。"))
	errOverLimit = refusals[outOverLimit].Saying(
		fault.T("Request at most the number of units in limit.", "数量不能超过 limit。"))
)

// PathRequest is a request for a rush path.
type PathRequest struct {
	ID    string `path:"id" doc:"The item" example:"42"`
	Proof string `header:"Human-Check" maxLength:"4096" doc:"The solution of a challenge, if the activity requires one"`
	Body  *rushPathRequest
}

type rushPathRequest struct {
	Quantity int32 `json:"quantity,omitempty" minimum:"1" maximum:"1000" default:"1" doc:"Units, up to the item's limit per user; 1 if omitted"`
}

// PathAnswer is the answer to PathRequest.
type PathAnswer struct{ Body rushPath }

// rushPath is a rush path and what a client needs to use it.
type rushPath struct {
	Path       string `json:"path" doc:"The credential of one attempt; keep it secret"`
	OrderNo    string `json:"order_no" doc:"The number of this attempt and of the order it may become" example:"0199a1b2c3d47e8f90a1b2c3d4e5f607"`
	UsableFrom string `json:"usable_from" format:"date-time" doc:"When the path may be sent; the opening"`
	ExpiresAt  string `json:"expires_at" format:"date-time" doc:"Until when the path may be sent, in server time"`
	RushURL    string `json:"rush_url" format:"uri-reference" doc:"POST here, without a body or token: a path of this server, or an absolute address (--rush-url)" example:"/api/v1/rush/AZj"`
}

// timeFormat is RFC 3339 with milliseconds, like every time in the API.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// TooEarly refuses until paths are issued, and says when that is.
func TooEarly(from, now time.Time) error {
	return ErrNotStarted.Saying(
		fault.T("Paths are issued from {from} on, in server time; spread your requests over the time until the opening.",
			"抢购链接自服务器时间 {from} 起发放，请在开抢前的时间内分散请求。", "from", from.UTC().Format(timeFormat))).After(from.Sub(now))
}

// issue issues a path. It checks everything that can be checked ahead of the
// rush. Paths are issued during a pause too: the pause may end within the
// path's life, and Redis refuses as long as it lasts.
func (r *Service) issue(ctx context.Context, in *PathRequest) (*PathAnswer, error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	item, ok := r.catalogue.Item(id)
	if !ok {
		return nil, ErrItemUnknown
	}
	now := r.clock.Now()
	if !item.OnSale || now.After(item.ClosesAt) {
		return nil, ErrSaleEnded
	}
	if from := item.OpensAt.Add(-r.cfg.PathLead); now.Before(from) {
		return nil, TooEarly(from, now)
	}
	quantity := int32(1)
	if in.Body != nil && in.Body.Quantity != 0 {
		quantity = in.Body.Quantity
	}
	if quantity < 1 || quantity > item.UserLimit {
		return nil, errOverLimit.With("limit", item.UserLimit)
	}
	who := auth.From(ctx)
	a := Applicant{
		User: who.UserID, Device: who.Device, Address: httpx.ClientAddr(ctx), Item: item, Quantity: quantity,
		OrderNo: ids.NewTagged(who.UserID, tagOf(id), now), Proof: in.Proof, Now: now, UsableFrom: item.OpensAt, PayWithin: item.PayWindow,
	}
	if r.deps.Admit != nil {
		if err := r.deps.Admit(ctx, &a); err != nil {
			return nil, err
		}
	}
	t := token{user: a.User, item: id, quantity: quantity, no: a.OrderNo, from: a.UsableFrom.UnixMilli(), payWithin: r.payWithin(&a)}
	start := now
	if a.UsableFrom.After(now) {
		start = a.UsableFrom
	}
	t.until = start.Add(PathLifetime).UnixMilli()
	path, err := r.keys.sign(t)
	if err != nil {
		return nil, err
	}
	r.places.numbers.put(t.no, told{item: id, position: noPosition})
	return &PathAnswer{rushPath{
		Path: path, OrderNo: t.no.String(), RushURL: r.cfg.RushURL + rushPrefix + path,
		UsableFrom: time.UnixMilli(t.from).UTC().Format(timeFormat),
		ExpiresAt:  time.UnixMilli(t.until).UTC().Format(timeFormat),
	}}, nil
}

// payWithin is the payment window, in seconds, of an applicant who has less time
// than others; 0 for all others. It is never so short that a provider in use
// could not take the payment, and at most the 18 hours that a path can carry.
func (r *Service) payWithin(a *Applicant) int32 {
	if a.PayWithin >= a.Item.PayWindow {
		return 0
	}
	// Rounded up to the whole second, the path's resolution.
	window := (max(a.PayWithin, r.deps.ShortestPay) + time.Second - 1).Truncate(time.Second)
	if window >= a.Item.PayWindow {
		return 0
	}
	return int32(min(window/time.Second, math.MaxUint16)) //nolint:gosec // bounded by the minimum
}

// known returns the id of an item in the catalogue, 0 for anything else.
func (r *Service) known(id string) int64 {
	item, err := httpx.ParseID(id)
	if _, ok := r.catalogue.Item(item); err != nil || !ok {
		return 0
	}
	return item
}

func (r *Service) registerIssue(api httpx.API) {
	api.Member("limit", huma.Schema{Type: huma.TypeInteger, Description: "Units that one shopper may buy, in an over-limit problem", Examples: []any{2}})
	httpx.Register(api, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/items/{id}/rush-path", ID: "issue-rush-path", Tag: "shopper", Role: auth.Shopper,
		Summary: "Get a rush path",
		NoKey:   "each is a new attempt by design; an unused one expires and holds nothing",
		Description: "Everything that can be checked ahead is checked here, so that the rush itself is one request without a token. " +
			"Paths are issued from two minutes before the opening; spread your requests over that time. " +
			"One path is one attempt under one order number, and sending it again gives the same answer. " +
			"usable_from and expires_at are in server time; GET /api/v1/time helps with the offset.",
		Limits:  []httpx.Limit{{Rule: ratelimit.Rule{Name: "rush-path", Count: r.cfg.PathsPerMinute, Per: time.Minute, FirstHere: true}, Of: httpx.OfUser}},
		Refuses: append([]*fault.Error{ErrSaleEnded, ErrNotStarted, refusals[outOverLimit], ErrCoolingDown}, r.deps.Refuses...),
	}, func(ctx context.Context, in *PathRequest) (*PathAnswer, error) {
		out, err := r.issue(ctx, in)
		r.metrics.countPath(r.known(in.ID), err)
		return out, err
	})
}

// Applicant is a shopper who requests a rush path and has passed the checks of
// the catalogue: the item is on sale, paths for it are issued, the quantity is
// within its limit. A DoorCheck may make the path stricter, never looser.
type Applicant struct {
	User     int64
	Device   string     // the token's; empty when it was not stated at login
	Address  netip.Addr // the client's; an invalid one when it is not known
	Item     *catalogue.Item
	Quantity int32
	OrderNo  ids.ID // of this attempt
	Proof    string // the solution of a human check; empty when none was sent
	Now      time.Time

	// UsableFrom is when the path may be sent, initially the opening. A check
	// may only move it later.
	UsableFrom time.Time
	// PayWithin is the payment window, initially the item's. A check may only
	// shorten it.
	PayWithin time.Duration
}

// DoorCheck decides whether an applicant gets a path: nil, or the shopper's
// fault. It may be called concurrently, must return when ctx ends, and must be
// harmless to repeat for one user and item. A check that takes something from
// other users (a place, a claim) must itself ensure that it is released.
type DoorCheck func(ctx context.Context, a *Applicant) error
