package door

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/humancheck"
	"stampede/seckill/catalogue"
	"stampede/seckill/reservation"
	"stampede/seckill/rush"
)

// Proofs reports who passed the human check with a reservation.
type Proofs interface {
	// Proved reports whether the user's reservation of the item was made with a
	// proof of work. An error means that this is unknown at the moment.
	Proved(ctx context.Context, user, item int64) (bool, error)
}

// humanCheck checks that the user who requests a path is a person, as the item's
// activity requires, and that no person is many users for less than their work. It
// stores nothing.
type humanCheck struct {
	items    *catalogue.Catalogue
	human    *humancheck.Service
	limits   *ratelimit.Limiter
	clock    clock.Clock
	proofs   Proofs
	pathLead time.Duration
	crowds   *ratelimit.Crowds // the users of an item by network; nil counts none
}

// level counts a user among those of the network that the request in ctx comes from,
// and returns the network's level.
func (h *humanCheck) level(ctx context.Context, user, item int64) int {
	if h.crowds == nil {
		return 0
	}
	return h.crowds.Join(item, user, httpx.Origin(ctx))
}

// work is what a shopper of a network above its budget does, as a proof of work of
// the given kind requires. Where the activity requires none, the least is an easy one.
func work(kind humancheck.Kind, level int) (humancheck.Kind, int) {
	if level > 0 && (kind == humancheck.None || kind == "") {
		return humancheck.Pow, humancheck.Easy + level
	}
	return kind, level
}

// check is a rush.DoorCheck. It runs after the limits, which cost less, and before
// the claim, which takes something from other users. An activity without a human
// check costs the look at the network in memory.
//
// The second check, for users who request paths too often, is the verifier if there
// is one, else a slide, and replaces the first. Redis counts; while it is
// unavailable each instance counts separately, and no solutions are accepted.
//
// A proof made with the reservation replaces the activity's, and not what the network
// owes.
func (h *humanCheck) check(ctx context.Context, a *rush.Applicant) error {
	over := h.level(ctx, a.User, a.Item.ID)
	kind, level := work(a.Item.HumanCheck, over)
	if a.Item.HumanCheckRate <= 0 && (kind == humancheck.None || kind == "") {
		return nil
	}
	sub := humancheck.Subject{Purpose: humancheck.PurposeRush, User: a.User, Item: a.Item.ID, Path: a.Item.ChallengePath(), Address: a.Address, Level: level}
	if a.Item.HumanCheckRate > 0 {
		// The paths that a user requests, per item: beyond the rate the second check is required.
		rule := ratelimit.Rule{Name: "path-second-check", Count: int(a.Item.HumanCheckRate), Per: time.Minute}
		d, err := h.limits.Take(ctx, ratelimit.Ask{Rule: rule, Key: ratelimit.UserKey(a.User) + "/" + strconv.FormatInt(a.Item.ID, 10)})
		if err != nil {
			return err
		}
		if !d.Allowed {
			return h.human.Check(ctx, h.human.Stronger(), sub, a.Proof)
		}
	}
	if kind == humancheck.Pow && over == 0 {
		if proved, err := h.proofs.Proved(ctx, a.User, a.Item.ID); proved || err != nil {
			return err
		}
	}
	return h.human.Check(ctx, kind, sub, a.Proof)
}

var errNoCheck = fault.New(fault.NotFound, "no-human-check", fault.T("No human check is needed", "无需人机验证"),
	fault.T("This item requires no human check here; send the request without a solution.", "该商品此处无需人机验证，请直接提交。"),
	fault.T("Send the request without a solution.", "无需验证，请直接提交。"))

// choose decides which challenge a shopper gets for an item: purpose and kind
// are the requested ones, empty where the request left them out. level is that of the
// shopper's network.
func (h *humanCheck) choose(item *catalogue.Item, purpose string, kind humancheck.Kind, level int) (string, humancheck.Kind, error) {
	now := h.clock.Now()
	if !item.OnSale || now.After(item.ClosesAt) {
		return "", "", rush.ErrSaleEnded
	}
	paths := item.OpensAt.Add(-h.pathLead)
	if purpose == "" {
		purpose = humancheck.PurposeRush
		if now.Before(paths) && !item.ReserveFrom.IsZero() {
			purpose = humancheck.PurposeReservation
		}
	}
	first, second := item.HumanCheck, humancheck.None
	if first == "" {
		first = humancheck.None
	}
	if purpose == humancheck.PurposeRush {
		first, _ = work(first, level)
	}
	if purpose == humancheck.PurposeRush && item.HumanCheckRate > 0 {
		second = h.human.Stronger()
	}
	if purpose == humancheck.PurposeReservation && (first != humancheck.Pow || item.ReserveFrom.IsZero()) {
		first = humancheck.None // only a proof of work can be done ahead: the other checks need the person at the opening
	}
	switch {
	case first == humancheck.None && second == humancheck.None:
		return "", "", errNoCheck
	case purpose == humancheck.PurposeRush && now.Before(paths):
		return "", "", rush.TooEarly(paths, now)
	case purpose == humancheck.PurposeReservation && now.Before(item.ReserveFrom):
		return "", "", reservation.ErrNotOpen.After(item.ReserveFrom.Sub(now))
	case purpose == humancheck.PurposeReservation && now.After(item.ReserveUntil):
		return "", "", reservation.ErrClosed
	}
	switch kind {
	case "":
		if first == humancheck.None {
			return purpose, second, nil
		}
		return purpose, first, nil
	case first, second:
		if kind != humancheck.None {
			return purpose, kind, nil
		}
	default:
	}
	return "", "", errNoCheck
}

// Request requests a challenge for an item.
type Request struct {
	ID      string          `path:"id" doc:"The item" example:"42"`
	Purpose string          `query:"purpose" enum:"rush,reservation" doc:"What the solution is for. Default: the reservation if the item has one and paths are not issued yet, else the rush"`
	Kind    humancheck.Kind `query:"kind" enum:"pow,slide,verifier" doc:"The kind that human-check-required named. Default: the kind that the activity requires of every shopper"`
}

func (h *humanCheck) routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/items/{id}/challenge", ID: "get-item-challenge", Tag: "shopper", Role: auth.Shopper,
		Summary: "Get a challenge for an item",
		Description: "If the activity requires a human check, solve this and send the solution in the header Human-Check with the reservation " +
			"or with the request for a rush path. It is valid once, for you and this item, until expires_at. " +
			"A proof of work sent with the reservation is not required again at the opening.",
		Refuses: []*fault.Error{errNoCheck, rush.ErrSaleEnded, reservation.ErrClosed, rush.ErrNotStarted, reservation.ErrNotOpen, humancheck.ErrUnavailable},
		Limits:  h.human.Limits(httpx.OfUser),
	}, func(ctx context.Context, in *Request) (*httpx.Output[humancheck.Challenge], error) {
		id, err := httpx.ParseID(in.ID)
		if err != nil {
			return nil, err
		}
		item, ok := h.items.Item(id)
		if !ok {
			return nil, rush.ErrItemUnknown
		}
		user := auth.From(ctx).UserID
		level := h.level(ctx, user, id)
		purpose, kind, err := h.choose(item, in.Purpose, in.Kind, level)
		if err != nil {
			return nil, err
		}
		sub := humancheck.Subject{Purpose: purpose, User: user, Item: id, Path: item.ChallengePath(), Address: httpx.ClientAddr(ctx)}
		if purpose == humancheck.PurposeRush {
			_, sub.Level = work(item.HumanCheck, level)
		}
		return httpx.Answered(h.human.Challenge(ctx, kind, sub))
	})
}

const (
	// picturesAhead is how long before paths are issued slide pictures are drawn:
	// the default stock takes a few seconds, the largest some minutes.
	picturesAhead = 10 * time.Minute
	// pictureRound is how often the catalogue is checked for that.
	pictureRound = 10 * time.Second
)

// worker draws slide pictures before the first item needs them, so that the
// crowd at its door finds the stock full.
func (h *humanCheck) worker() app.Worker {
	return app.Worker{Name: "seckill-slide-pictures", Run: app.Loop{Every: pictureRound, Do: func(context.Context) error {
		if h.slidesSoon() {
			h.human.Prepare() // repeating it costs nothing
		}
		return nil
	}}.Run}
}

// slidesSoon reports whether an item will show slides within picturesAhead.
func (h *humanCheck) slidesSoon() bool {
	now := h.clock.Now()
	for _, item := range h.items.Items() {
		slides := item.HumanCheck == humancheck.Slide || item.HumanCheckRate > 0 && h.human.Stronger() == humancheck.Slide
		if slides && item.OnSale && now.After(item.OpensAt.Add(-h.pathLead-picturesAhead)) && now.Before(item.ClosesAt) {
			return true
		}
	}
	return false
}
