package risk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/seckill/risk/internal/riskdb"
	"stampede/seckill/rush"
)

// ErrOneActivity refuses an account that takes part in another activity of the same rule.
var ErrOneActivity = fault.New(fault.Conflict, "one-activity",
	fault.T("You are taking part in another activity", "您正在参与其他活动"),
	fault.T("A shopper can take part in only one of these activities at a time.", "每位顾客同一时间只能参加其中一个活动。"),
	fault.T("Finish or leave the other activity first.", "请先完成或退出正在参与的其他活动。"))

// errElsewhere names the other activity in its fields and its message.
func errElsewhere(activity int64, name string) error {
	return ErrOneActivity.Saying(
		fault.T(`You are already taking part in "{activity}", and a shopper can take part in only one of these activities at a time. If you buy nothing there, you can take part here a few minutes later.`,
			"您正在参加“{activity}”，每位顾客同一时间只能参加其中一个活动。如果您没有购买，几分钟后即可参加本活动。", "activity", name)).
		With("activity_id", httpx.FormatID(activity)).With("activity", name)
}

var errClaims = fault.Plain(fault.Unavailable,
	fault.T("Your participation cannot be checked right now; try again in a moment.", "暂时无法核对您的参与情况，请稍后重试。")).After(time.Second)

// Participate is the check of the participation claim, a rush.DoorCheck. The
// user keeps the claim for longer than other checks refuse, so it belongs after
// them.
func (s *Service) Participate(ctx context.Context, a *rush.Applicant) error {
	if !a.Item.OnePerUser {
		return nil
	}
	start := a.Now
	if a.UsableFrom.After(start) {
		start = a.UsableFrom
	}
	bound := start.Sub(a.Now) + rush.PathLifetime + claimGrace
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

// claimAttempts bounds how often a claim is retried after a refusal by a claim
// that was gone when its name was looked up.
const claimAttempts = 3

// claim returns the activity that the user takes part in afterwards, with its
// name if it is not the requested one.
func (s *Service) claim(ctx context.Context, user, activity int64, no ids.ID, bound time.Duration) (has int64, name string, err error) {
	q := riskdb.New(s.deps.DB)
	for range claimAttempts {
		has, err = q.TakeClaim(ctx, riskdb.TakeClaimParams{UserID: user, ActivityID: activity, OrderNo: no, Bound: bound, Keep: s.set.ClaimKeep})
		if !errors.Is(err, pgx.ErrNoRows) {
			return has, "", wrapped("take a claim", err)
		}
		claim, err := q.ClaimOf(ctx, user)
		if !errors.Is(err, pgx.ErrNoRows) {
			return claim.ActivityID, claim.Name, wrapped("read a claim", err)
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
