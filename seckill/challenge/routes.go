package challenge

import (
	"context"
	"net/http"
	"time"

	"stampede/platform/app"
	"stampede/platform/auth"
	"stampede/platform/clock"
	"stampede/platform/httpx"
	"stampede/platform/humancheck"
	"stampede/seckill/catalogue"
	"stampede/seckill/rush"
)

// Request asks for a challenge to solve for an item.
type Request struct {
	ID      string          `path:"id" doc:"The item" example:"42"`
	Purpose string          `query:"purpose" enum:"rush,reservation" doc:"What the solution is for; left out: the reservation while paths are not given out yet, where the item has one, else the rush"`
	Kind    humancheck.Kind `query:"kind" enum:"pow,slide,verifier" doc:"The kind that human-check-required named; left out: the one that everybody is asked for"`
}

// Service hands out challenges for items. Its fields are what it works with, all
// required; it keeps nothing besides.
type Service struct {
	Catalogue *catalogue.Catalogue
	Human     *humancheck.Service
	Clock     clock.Clock   // the Redis server's time, by estimate
	PathLead  time.Duration // how long before the opening paths are given out
}

// Routes registers where shoppers get challenges for items.
func (s *Service) Routes(rt *httpx.Router) {
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
		Limits: s.Human.Limits(httpx.OfUser),
	}, func(ctx context.Context, in *Request) (*humancheck.Answer, error) {
		id, err := httpx.ParseID(in.ID)
		if err != nil {
			return nil, err
		}
		item, ok := s.Catalogue.Item(id)
		if !ok {
			return nil, rush.ErrItemUnknown
		}
		purpose, kind, err := s.choose(item, in.Purpose, in.Kind)
		if err != nil {
			return nil, err
		}
		sub := humancheck.Subject{Purpose: purpose, User: auth.From(ctx).UserID, Item: id, Address: httpx.ClientAddr(ctx)}
		return s.Human.Hand(ctx, kind, sub)
	})
}

const (
	// picturesAhead is how long before paths are given out slide pictures are drawn:
	// the default stock takes a few seconds, the largest some minutes.
	picturesAhead = 10 * time.Minute
	// pictureRound is how often the catalogue is looked at for that.
	pictureRound = 10 * time.Second
)

// Worker has slide pictures drawn before the first item needs them, so
// that the crowd at its door finds the stock full.
func (s *Service) Worker() app.Worker {
	return app.Worker{Name: "seckill-slide-pictures", Run: func(ctx context.Context) error {
		tick := time.NewTicker(pictureRound)
		defer tick.Stop()
		for {
			if s.slidesSoon() {
				s.Human.Prepare() // from here on the pictures look after themselves
				<-ctx.Done()
				return nil
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	}}
}

// slidesSoon reports whether an item will show slides within picturesAhead.
func (s *Service) slidesSoon() bool {
	now := s.Clock.Now()
	for _, item := range s.Catalogue.Items() {
		slides := item.HumanCheck == string(humancheck.Slide) || item.HumanCheckRate > 0 && s.Human.Stronger() == humancheck.Slide
		if slides && item.OnSale && now.After(item.OpensAt.Add(-s.PathLead-picturesAhead)) && now.Before(item.ClosesAt) {
			return true
		}
	}
	return false
}
