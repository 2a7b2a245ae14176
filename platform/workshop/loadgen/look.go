package loadgen

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"stampede/platform/identity/humancheck"
)

// look reads the item and tries the key before requests are sent by the
// thousand: an unplayable item is reported now, and not once per shopper.
func (r *run) look(ctx context.Context) error {
	sent := time.Now()
	if err := r.client.call(ctx, http.MethodGet, itemTarget(r.cfg.ItemID, ""), "", nil, &r.item); err != nil {
		if codeOf(err) == "not-found" {
			return fmt.Errorf("there is no item %d at %s; GET /api/v1/sessions lists the items on sale", r.cfg.ItemID, r.cfg.BaseURL)
		}
		return fmt.Errorf("could not read item %d at %s; is the server running there? %w", r.cfg.ItemID, r.cfg.BaseURL, err)
	}
	trip := time.Since(sent)
	if !r.item.ServerTime.IsZero() {
		r.offset = r.item.ServerTime.Sub(sent.Add(trip / 2))
	}
	if err := r.item.playable(r.cfg, time.Now().Add(r.offset)); err != nil {
		return err
	}
	has, err := r.tryKey(ctx)
	if err != nil {
		return err
	}
	work, reserve := r.item.HumanCheck == string(humancheck.Pow), r.item.ReserveUntil != nil
	if reserve && !has && r.until(*r.item.ReserveUntil) < 0 {
		return fmt.Errorf("item %d is for shoppers who reserved it, and its reservation closed at %s; "+
			"play shoppers who reserved with --first-user, or practice on an item whose reservation is still open", r.cfg.ItemID, clockTime(*r.item.ReserveUntil))
	}
	r.door = newDoor(work, reserve)
	return nil
}

// playable returns an error if simulated shoppers cannot buy this item.
func (v *itemView) playable(cfg Config, now time.Time) error {
	switch {
	case v.Status == "ended" || !v.ClosesAt.IsZero() && now.After(v.ClosesAt):
		return fmt.Errorf("the sale of item %d ended at %s", cfg.ItemID, clockTime(v.ClosesAt))
	case v.HumanCheck == string(humancheck.Slide) || v.HumanCheck == string(humancheck.Verifier):
		return fmt.Errorf("item %d requires a check of kind %s, which a program cannot pass; for practice plan a copy of its activity with human_check none or pow: "+
			"POST /api/v1/admin/activities/%s/clone, then PATCH the copy", cfg.ItemID, v.HumanCheck, v.ActivityID)
	}
	return nil
}

// tryKey checks whether the first shopper has a reservation, which also shows
// whether the server accepts the tokens.
func (r *run) tryKey(ctx context.Context) (reserved bool, err error) {
	token, err := r.token(0)
	if err != nil {
		return false, err
	}
	a, err := r.client.do(ctx, http.MethodGet, itemTarget(r.cfg.ItemID, "/reservation"), token, "", nil)
	switch {
	case err != nil:
		return false, fmt.Errorf("could not reach %s: %w", r.cfg.BaseURL, err)
	case a.status == http.StatusUnauthorized:
		return false, fmt.Errorf("the server at %s does not accept the shoppers' tokens (%s): is this its signing key?", r.cfg.BaseURL, a.code())
	}
	return a.ok(), nil
}

// until returns the time until a moment of the server's clock.
func (r *run) until(at time.Time) time.Duration { return at.Sub(time.Now().Add(r.offset)) }

// clockTime formats a moment so that it can be compared with a schedule.
func clockTime(at time.Time) string { return at.Local().Format("2006-01-02 15:04:05 MST") }
