package door

import (
	"context"
	"net/http"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/humancheck"
	"stampede/seckill/rush"
)

// Request asks for a challenge to solve for an item.
type Request struct {
	ID      string          `path:"id" doc:"The item" example:"42"`
	Purpose string          `query:"purpose" enum:"rush,reservation" doc:"What the solution is for; left out: the reservation while paths are not given out yet, where the item has one, else the rush"`
	Kind    humancheck.Kind `query:"kind" enum:"pow,slide,verifier" doc:"The kind that human-check-required named; left out: the one that everybody is asked for"`
}

// routes registers where shoppers get challenges for items.
func (h *humanCheck) routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/items/{id}/challenge", ID: "get-item-challenge", Tag: "shopper", Role: auth.Shopper,
		Summary: "Get a challenge for an item",
		Description: "Where the activity asks for a human check, solve this and send the solution in the header Human-Check with the reservation " +
			"or with the request for a rush path. It is good once, for you and this item, until expires_at. " +
			"A proof of work that was sent with the reservation is not asked for again at the opening.",
		Problems: map[int]string{
			http.StatusNotFound: "not-found, no-human-check", http.StatusGone: "ended, reservation-closed", http.StatusTooEarly: "not-started, reservation-not-open",
			http.StatusUnprocessableEntity: "invalid", http.StatusServiceUnavailable: "human-check-unavailable",
		},
		Limits: h.human.Limits(httpx.OfUser),
	}, func(ctx context.Context, in *Request) (*humancheck.Answer, error) {
		id, err := httpx.ParseID(in.ID)
		if err != nil {
			return nil, err
		}
		item, ok := h.items.Item(id)
		if !ok {
			return nil, rush.ErrItemUnknown
		}
		purpose, kind, err := h.choose(item, in.Purpose, in.Kind)
		if err != nil {
			return nil, err
		}
		sub := humancheck.Subject{Purpose: purpose, User: auth.From(ctx).UserID, Item: id, Path: item.ChallengePath(), Address: httpx.ClientAddr(ctx)}
		return h.human.Hand(ctx, kind, sub)
	})
}

const (
	// picturesAhead is how long before paths are given out slide pictures are drawn:
	// the default stock takes a few seconds, the largest some minutes.
	picturesAhead = 10 * time.Minute
	// pictureRound is how often the catalogue is looked at for that.
	pictureRound = 10 * time.Second
)

// worker has slide pictures drawn before the first item needs them, so
// that the crowd at its door finds the stock full.
func (h *humanCheck) worker() app.Worker {
	return app.Worker{Name: "seckill-slide-pictures", Run: app.Loop{Every: pictureRound, Do: func(context.Context) error {
		if h.slidesSoon() {
			h.human.Prepare() // again costs nothing
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
