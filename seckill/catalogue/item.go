package catalogue

import (
	"strconv"
	"time"

	"stampede/inventory"
	"stampede/platform/identity/humancheck"
)

// Item is everything known about an item on sale, read-only: every request
// shares one instance until the next refresh replaces it.
type Item struct {
	ID, SessionID, ActivityID  int64
	SKU, Title, Spec, ImageURL string
	ListPrice, SalePrice       int64 // minor units
	Currency                   string
	Total                      int32 // units put on sale so far, with what is oversold by agreement; Stock() is what inventory calls the item
	Unlimited                  bool
	UserLimit                  int32 // units per user, from 1
	PerActivity                bool  // one item of the activity per user
	OpensAt, ClosesAt          time.Time
	PayWindow                  time.Duration
	Paused                     bool
	Admission                  *int32 // attempts a second that each instance admits to the line; nil is all
	OnSale                     bool   // published, and neither ended nor terminated
	PreheatAt                  time.Time
	Rebuy                      bool // a user may buy again after the unpaid order closed

	HumanCheck                humancheck.Kind
	HumanCheckRate            int32     // paths a minute above which a second check is required; 0 never
	OnePerUser                bool      // the activity is exclusive: a user takes part in one exclusive activity at a time
	ReserveFrom, ReserveUntil time.Time // when it can be reserved; both zero when no reservation is required
	ReserveCap                float64   // the most reservations, as a multiple of the stock; 0 is no cap
}

// Stock returns the item as inventory names it.
func (i *Item) Stock() inventory.Item {
	return inventory.Item{ID: i.ID, ActivityID: i.ActivityID, PerActivity: i.PerActivity}
}

// ChallengePath is the route that issues challenges for the item's human check.
func (i *Item) ChallengePath() string {
	return "/api/v1/items/" + strconv.FormatInt(i.ID, 10) + "/challenge"
}

// DueInRedis reports whether the item has to be decidable in Redis at a moment:
// from its preheat until it closes. A closed item needs no Load: late returns
// only concern Postgres.
func (i *Item) DueInRedis(now time.Time) bool {
	return i.OnSale && !now.Before(i.PreheatAt) && now.Before(i.ClosesAt)
}
