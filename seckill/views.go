package seckill

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/seckill/internal/seckilldb"
)

// What Redis keeps of a session for browsing: everything that does not change
// by itself. One hash per session, a field for the session and one per item;
// what is left of an item is read from its stock state when somebody looks.

// Keys. Each stands alone, so they may lie in any slot.
const (
	// viewKeyPrefix + session: hash; fields rev, s (storedSession), i:<item> (storedItem), gone.
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

// storedSession is a session in Redis.
type storedSession struct {
	ID           rowID     `json:"id"`
	ActivityID   rowID     `json:"activity_id"`
	ActivityName string    `json:"activity_name"`
	Name         string    `json:"name"`
	OpensAt      timestamp `json:"opens_at"`
	ClosesAt     timestamp `json:"closes_at"`
	Paused       bool      `json:"paused"`
	Over         bool      `json:"over"` // the activity ended or was terminated
	PerActivity  bool      `json:"per_activity"`
	ItemCount    int       `json:"item_count"`
	HumanCheck   string    `json:"human_check"`

	// Both nil when no reservation is asked for.
	ReserveFrom  *timestamp `json:"reserve_from,omitempty"`
	ReserveUntil *timestamp `json:"reserve_until,omitempty"`

	items []storedItem // in the order of their ids; fields of their own in the hash
}

// storedItem is an item in Redis.
type storedItem struct {
	ID rowID `json:"id"`
	Goods
	OnSale           int32 `json:"on_sale"` // units; how many of them are beyond the stock is no shopper's affair
	Unlimited        bool  `json:"unlimited"`
	LimitPerUser     int32 `json:"limit_per_user"`
	PayWindowSeconds int64 `json:"payment_window_seconds"`
}

// storable is what Redis is to keep of a session.
func storable(a *seckilldb.SeckillActivity, t *twig) storedSession {
	v := storedSession{
		ID: rowID(t.session.ID), ActivityID: rowID(a.ID), ActivityName: a.Name, Name: t.session.Name,
		OpensAt: timestamp(t.session.OpensAt), ClosesAt: timestamp(t.session.ClosesAt), Paused: a.Paused,
		Over: a.Status == statusEnded || a.Status == statusTerminated, PerActivity: a.OneItemPerUser,
		ItemCount: len(t.items), HumanCheck: a.HumanCheck,
		ReserveFrom: (*timestamp)(t.session.ReservationOpensAt), ReserveUntil: (*timestamp)(t.session.ReservationClosesAt),
	}
	for i := range t.items {
		item := &t.items[i]
		v.items = append(v.items, storedItem{
			ID: rowID(item.ID), Goods: goodsOf(item), OnSale: unitsOnSale(item), Unlimited: item.Unlimited, LimitPerUser: userLimit(a, item),
			PayWindowSeconds: int64(payWindow(a, &t.session) / time.Second),
		})
	}
	return v
}

// fields are the hash's fields and values in turn.
func (v *storedSession) fields() ([]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("seckill: encode session view: %w", err)
	}
	out := append(make([]any, 0, 2+2*len(v.items)), viewSessionField, raw)
	for i := range v.items {
		if raw, err = json.Marshal(&v.items[i]); err != nil {
			return nil, fmt.Errorf("seckill: encode item view: %w", err)
		}
		out = append(out, viewItemPrefix+v.items[i].ID.String(), raw)
	}
	return out, nil
}

// parseView reads a hash; ok is false for one that shows no session.
func parseView(hash map[string]string) (v storedSession, ok bool, err error) {
	header, ok := hash[viewSessionField]
	if !ok {
		return v, false, nil
	}
	if err := json.Unmarshal([]byte(header), &v); err != nil {
		return v, false, fmt.Errorf("seckill: decode session view: %w", err)
	}
	v.items = make([]storedItem, 0, len(hash))
	for field, raw := range hash {
		if !strings.HasPrefix(field, viewItemPrefix) {
			continue
		}
		var item storedItem
		if err := json.Unmarshal([]byte(raw), &item); err != nil {
			return v, false, fmt.Errorf("seckill: decode item view: %w", err)
		}
		v.items = append(v.items, item)
	}
	slices.SortFunc(v.items, func(a, b storedItem) int { return cmp.Compare(a.ID, b.ID) })
	return v, true, nil
}
