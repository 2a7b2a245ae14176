package order

import (
	"slices"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/seckill/seckillevent"
)

// userOf is the key of a limit of one per user: for an item, or for one item of
// an activity.
type userOf struct {
	activity bool
	id       int64 // of the item, or of the activity
	user     int64
}

// claims lists the limits of its user that a grant uses up.
func claims(b *seckillevent.Batch, user int64) []userOf {
	of := []userOf{{id: b.ItemID, user: user}}
	if b.PerActivity {
		of = append(of, userOf{activity: true, id: b.ActivityID, user: user})
	}
	return of
}

// ration is the writer's slow path, taken when Postgres has fewer units than
// were granted: it processes the entries in stream order and accepts each that
// fits while units last. Its inputs come from the database and it decides
// without it, so that a test can compare it with a model.
//
//	known      numbers that have a row: they are neither accepted nor refused
//	taken      what live orders take already; extended by what is accepted
//	available  units per stock row; a row that is missing has no limit
//
// It returns the accepted entries and the refused ones with their reason.
func ration(entries []entry, batches []*seckillevent.Batch, known map[ids.ID]bool, taken map[userOf]bool,
	available map[inventory.Key]int32,
) (accepted, refused []entry) {
	for _, e := range entries {
		if known[e.grant.No] {
			continue
		}
		b := batches[e.from]
		of := claims(b, e.grant.User)
		key := inventory.Key{ItemID: b.ItemID, Shard: b.Shard}
		left, limited := available[key]
		switch {
		case slices.ContainsFunc(of, func(o userOf) bool { return taken[o] }):
			e.reason = orderevent.ReasonDuplicate
			refused = append(refused, e)
		case limited && e.grant.Quantity > left:
			// A later, smaller grant may still fit.
			e.reason = orderevent.ReasonShortfall
			refused = append(refused, e)
		default:
			if limited {
				available[key] = left - e.grant.Quantity
			}
			for _, o := range of {
				taken[o] = true
			}
			accepted = append(accepted, e)
		}
	}
	return accepted, refused
}
