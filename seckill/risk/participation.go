package risk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/fault"
	"stampede/platform/httpx"
	"stampede/platform/ids"
	"stampede/seckill/rush"
)

// takeClaim takes or prolongs a user's claim in one statement, whose row lock
// decides between parallel ones. It changes a claim on another activity only when
// that binds no longer: it ended, or no path of it can become an order any more
// and none has become a live one.
const takeClaim = `
INSERT INTO risk.claims AS c (user_id, activity_id, order_no, until, ends_at)
SELECT $1, a.id, $3, clock_timestamp() + $4::interval, a.ends_at + $5::interval FROM seckill.activities a WHERE a.id = $2
ON CONFLICT (user_id) DO UPDATE SET
    activity_id = excluded.activity_id, order_no = excluded.order_no, ends_at = excluded.ends_at,
    paths      = CASE WHEN c.activity_id = excluded.activity_id THEN c.paths + 1 ELSE 1 END,
    until      = CASE WHEN c.activity_id = excluded.activity_id THEN GREATEST(c.until, excluded.until) ELSE excluded.until END,
    claimed_at = CASE WHEN c.activity_id = excluded.activity_id THEN c.claimed_at ELSE excluded.claimed_at END
WHERE c.activity_id = excluded.activity_id
   OR c.ends_at <= clock_timestamp()
   OR EXISTS (SELECT FROM seckill.activities a WHERE a.id = c.activity_id AND a.status = 'terminated')
   OR c.until <= clock_timestamp()
      AND NOT EXISTS (SELECT FROM risk.claim_orders o WHERE o.user_id = c.user_id AND o.activity_id = c.activity_id AND o.live)
RETURNING c.activity_id`

// errElsewhere names the activity in its fields and its sentence.
func errElsewhere(activity int64, name string) error {
	return fault.Newf(fault.Conflict, "one-activity",
		"You are taking part in %q already, and one shopper takes part in one of these activities at a time. "+
			"If you buy nothing there you are free again a few minutes later.", name).
		With("activity_id", httpx.FormatID(activity)).With("activity", name)
}

var errClaims = fault.New(fault.Unavailable, "unavailable", "Whether you take part in another activity cannot be looked up now; try again in a moment.").After(time.Second)

// Participate is the check of the participation claim, a rush.DoorCheck. It
// takes something that comes back by itself, but later than other checks refuse,
// so it belongs behind them.
func (s *Service) Participate(ctx context.Context, a *rush.Applicant) error {
	if !a.Item.OnePerUser {
		return nil
	}
	start := a.Now
	if a.UsableFrom.After(start) {
		start = a.UsableFrom
	}
	bound := start.Sub(a.Now) + s.cfg.PathLifetime + s.cfg.ClaimGrace
	activity, name, err := s.claim(ctx, a.User, a.Item.ActivityID, a.OrderNo, bound)
	switch {
	case err != nil:
		return errClaims.Because(err)
	case activity != a.Item.ActivityID:
		s.metrics.elsewhere.Inc()
		return errElsewhere(activity, name)
	default:
		return nil
	}
}

// claimAttempts bounds how often a claim is tried that was refused by one which
// was gone when its name was looked up.
const claimAttempts = 3

// claim returns the activity that the user takes part in afterwards, with its
// name when it is not the wanted one.
func (s *Service) claim(ctx context.Context, user, activity int64, no ids.ID, bound time.Duration) (has int64, name string, err error) {
	for range claimAttempts {
		err = s.deps.DB.QueryRow(ctx, takeClaim, user, activity, no, bound, s.cfg.ClaimKeep).Scan(&has)
		if !errors.Is(err, pgx.ErrNoRows) {
			return has, "", wrapped("take a claim", err)
		}
		err = s.deps.DB.QueryRow(ctx, `
			SELECT c.activity_id, a.name FROM risk.claims c JOIN seckill.activities a ON a.id = c.activity_id WHERE c.user_id = $1`, user).Scan(&has, &name)
		if !errors.Is(err, pgx.ErrNoRows) {
			return has, name, wrapped("read a claim", err)
		}
	}
	return 0, "", fmt.Errorf("claim of activity %d: neither taken nor refused", activity)
}

func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
