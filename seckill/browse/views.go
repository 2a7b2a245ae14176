package browse

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/platform/identity/humancheck"
	"stampede/seckill/internal/wire"
)

// What Redis keeps of a session for browsing: everything that changes only with
// the plan. One hash per session, a field for the session and one per item; the
// remaining units are read from an item's stock state on each read.

// Keys. Each is used on its own, so they may be in any slot.
const (
	// viewKeyPrefix + session: hash; fields rev, s (Session), i:<item> (Item), gone.
	viewKeyPrefix = "sv:"
	// viewIndexKey: sorted set, session → closes_at in ms, and viewIndexWhole.
	viewIndexKey = "sv-index"
	// viewOfActivityPrefix + activity: set of the sessions written for it.
	viewOfActivityPrefix = "sv-of:"
	// viewTakeovers is the prefix of the keys that record for which server the views
	// were rewritten.
	viewTakeovers = "sv-takeovers:"
)

// RedisKeys are the prefixes of the package's keys.
var RedisKeys = []string{viewKeyPrefix, viewIndexKey, viewOfActivityPrefix, viewTakeovers, detailKeyPrefix}

const (
	viewGoneField    = "gone" // tombstone: the session was deleted, older views are refused
	viewSessionField = "s"
	viewItemPrefix   = "i:"

	// viewIndexWhole is a member of the index. It records that every published session
	// was written since Redis was last empty, by a program whose views have this layout:
	// give it another number when views get a field, and an upgrade rewrites them. It
	// sorts after every time.
	viewIndexWhole = "whole-2"
	// viewGoneKept is how long the tombstone of a deleted session refuses older
	// views: longer than any write that is still on its way can take.
	viewGoneKept = 10 * time.Minute
)

func viewKey(sessionID int64) string { return viewKeyPrefix + strconv.FormatInt(sessionID, 10) }
func viewOfActivityKey(activityID int64) string {
	return viewOfActivityPrefix + strconv.FormatInt(activityID, 10)
}

// Activity is the shoppers' view of an activity.
type Activity struct {
	ID       int64
	Revision int64     // rises with every change; a view is never replaced by one of a lower revision
	ForgetAt time.Time // when Redis may drop its views
	Sessions []Session
}

// Session is a session in Redis.
type Session struct {
	ID           wire.ID         `json:"id"`
	ActivityID   wire.ID         `json:"activity_id"`
	ActivityName string          `json:"activity_name" example:"Singles' Day"`
	Name         string          `json:"name"`
	OpensAt      wire.Time       `json:"opens_at"`
	ClosesAt     wire.Time       `json:"closes_at"`
	Paused       bool            `json:"paused"`
	Over         bool            `json:"over"` // the activity ended or was terminated
	PerActivity  bool            `json:"per_activity"`
	ItemCount    int             `json:"item_count"`
	HumanCheck   humancheck.Kind `json:"human_check"`

	Delivery *Delivery `json:"delivery,omitempty"` // nil where nothing is handed over

	// Both nil when no reservation is required.
	ReserveFrom  *wire.Time `json:"reserve_from,omitempty"`
	ReserveUntil *wire.Time `json:"reserve_until,omitempty"`

	Items []Item `json:"-"` // in the order of their ids; separate fields in the hash
}

// Item is an item in Redis.
type Item struct {
	ID wire.ID `json:"id"`
	wire.Goods
	OnSale           int32 `json:"on_sale"` // units, including oversold ones; shoppers do not see how many those are
	Unlimited        bool  `json:"unlimited"`
	LimitPerUser     int32 `json:"limit_per_user"`
	PayWindowSeconds int64 `json:"payment_window_seconds"`
	Paused           bool  `json:"paused,omitempty"` // by itself; see Session.Paused
}

// fields are the hash's fields and values, alternating.
func (v *Session) fields() ([]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("seckill: encode session view: %w", err)
	}
	out := append(make([]any, 0, 2+2*len(v.Items)), viewSessionField, raw)
	for i := range v.Items {
		if raw, err = json.Marshal(&v.Items[i]); err != nil {
			return nil, fmt.Errorf("seckill: encode item view: %w", err)
		}
		out = append(out, viewItemPrefix+v.Items[i].ID.String(), raw)
	}
	return out, nil
}

// parseView reads a hash; ok is false for one without a session.
func parseView(hash map[string]string) (v Session, ok bool, err error) {
	header, ok := hash[viewSessionField]
	if !ok {
		return v, false, nil
	}
	if err := json.Unmarshal([]byte(header), &v); err != nil {
		return v, false, fmt.Errorf("seckill: decode session view: %w", err)
	}
	v.Items = make([]Item, 0, len(hash))
	for field, raw := range hash {
		if !strings.HasPrefix(field, viewItemPrefix) {
			continue
		}
		var item Item
		if err := json.Unmarshal([]byte(raw), &item); err != nil {
			return v, false, fmt.Errorf("seckill: decode item view: %w", err)
		}
		v.Items = append(v.Items, item)
	}
	slices.SortFunc(v.Items, func(a, b Item) int { return cmp.Compare(a.ID, b.ID) })
	return v, true, nil
}
