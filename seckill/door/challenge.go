package door

import (
	"context"
	"net/http"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/humancheck"
	"stampede/seckill/reservation"
	"stampede/seckill/rush"
)

// Request requests a challenge for an item.
type Request struct {
	ID      string          `path:"id" doc:"The item" example:"42"`
	Purpose string          `query:"purpose" enum:"rush,reservation" doc:"What the solution is for. Default: the reservation if the item has one and paths are not issued yet, else the rush"`
	Kind    humancheck.Kind `query:"kind" enum:"pow,slide,verifier" doc:"The kind that human-check-required named. Default: the kind that the activity requires of every shopper"`
}

// routes registers the route that issues challenges for items.
func (h *humanCheck) routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/items/{id}/challenge", ID: "get-item-challenge", Tag: "shopper", Role: auth.Shopper,
		Summary: "Get a challenge for an item",
		Description: "If the activity requires a human check, solve this and send the solution in the header Human-Check with the reservation " +
			"or with the request for a rush path. It is valid once, for you and this item, until expires_at. " +
			"A proof of work sent with the reservation is not required again at the opening.",
		Refuses: []*fault.Error{errNoCheck, rush.ErrSaleEnded, reservation.ErrClosed, rush.ErrNotStarted, reservation.ErrNotOpen, humancheck.ErrUnavailable},
		Limits:  h.human.Limits(httpx.OfUser),
	}, func(ctx context.Context, in *Request) (*humancheck.Answer, error) {
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
		return h.human.Hand(ctx, kind, sub)
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
