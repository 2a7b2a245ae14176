package door

import (
	"context"
	"strconv"
	"time"

	"stampede/platform/base/clock"
	"stampede/platform/base/fault"
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

// againRule counts the paths that a user requests, per item; beyond it the second
// check is required.
func againRule(item *catalogue.Item) ratelimit.Rule {
	return ratelimit.Rule{Name: "path-second-check", Count: int(item.HumanCheckRate), Per: time.Minute}
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
		d, err := h.limits.Take(ctx, ratelimit.Ask{Rule: againRule(a.Item), Key: ratelimit.UserKey(a.User) + "/" + strconv.FormatInt(a.Item.ID, 10)})
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
