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

// What Redis keeps of a session for browsing: everything that does not change
// by itself. One hash per session, a field for the session and one per item;
// what is left of an item is read from its stock state when somebody looks.

// Keys. Each stands alone, so they may lie in any slot.
const (
	// viewKeyPrefix + session: hash; fields rev, s (Session), i:<item> (Item), gone.
	viewKeyPrefix = "sv:"
	// viewIndexKey: sorted set, session → closes_at in ms, and viewIndexWhole.
	viewIndexKey = "sv-index"
	// viewOfActivityPrefix + activity: set of the sessions written for it.
	viewOfActivityPrefix = "sv-of:"
	// viewTakeovers begins the keys that say for which server the views were renewed.
	viewTakeovers = "sv-takeovers:"
)

const (
	viewRevField     = "rev"
	viewGoneField    = "gone" // the session was deleted; its older views are not to come back
	viewSessionField = "s"
	viewItemPrefix   = "i:"

	// viewIndexWhole is a member of the index that says that every published
	// session was written since Redis was last empty. It sorts after every time.
	viewIndexWhole = "whole"
	// viewGoneKept is how long a deleted session refuses an older view: longer
	// than any write that was on its way can take.
	viewGoneKept = 10 * time.Minute
)

func viewKey(sessionID int64) string { return viewKeyPrefix + strconv.FormatInt(sessionID, 10) }
func viewOfActivityKey(activityID int64) string {
	return viewOfActivityPrefix + strconv.FormatInt(activityID, 10)
}

// Activity is what shoppers may see of an activity.
type Activity struct {
	ID       int64
	Revision int64     // rises with every change; a view never gives way to one of a lower revision
	ForgetAt time.Time // when Redis may drop its views
	Sessions []Session
}

// Session is a session in Redis.
type Session struct {
	ID           wire.ID         `json:"id"`
	ActivityID   wire.ID         `json:"activity_id"`
	ActivityName string          `json:"activity_name"`
	Name         string          `json:"name"`
	OpensAt      wire.Time       `json:"opens_at"`
	ClosesAt     wire.Time       `json:"closes_at"`
	Paused       bool            `json:"paused"`
	Over         bool            `json:"over"` // the activity ended or was terminated
	PerActivity  bool            `json:"per_activity"`
	ItemCount    int             `json:"item_count"`
	HumanCheck   humancheck.Kind `json:"human_check"`

	// Both nil when no reservation is asked for.
	ReserveFrom  *wire.Time `json:"reserve_from,omitempty"`
	ReserveUntil *wire.Time `json:"reserve_until,omitempty"`

	Items []Item `json:"-"` // in the order of their ids; fields of their own in the hash
}

// Item is an item in Redis.
type Item struct {
	ID wire.ID `json:"id"`
	wire.Goods
	OnSale           int32 `json:"on_sale"` // units; how many of them are beyond the stock is no shopper's affair
	Unlimited        bool  `json:"unlimited"`
	LimitPerUser     int32 `json:"limit_per_user"`
	PayWindowSeconds int64 `json:"payment_window_seconds"`
}

// fields are the hash's fields and values in turn.
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

// parseView reads a hash; ok is false for one that shows no session.
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
