package risk

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/seckill/risk/internal/riskdb"
	"stampede/seckill/rush"
)

// ErrNotAvailable is all that a shopper refused by the blacklist or a rule learns.
var ErrNotAvailable = fault.New(fault.Forbidden, "not-available",
	fault.T("Not available to you right now", "暂时无法参与该活动"),
	fault.T("This item is not available to you right now.", "您暂时不能购买该商品。"),
	fault.T("Choose another item, or contact the shop.", "请选择其他商品，或联系商家。"))

// Door is the check of blacklist, pauses and rules, a rush.DoorCheck. It reads only
// memory, so it belongs before the checks that cost more.
func (s *Service) Door(_ context.Context, a *rush.Applicant) error {
	if s.deps.Blacklist != nil {
		if e, listed := s.deps.Blacklist.Listed(a.User, "", a.Device, a.Address); listed {
			s.decide(a, 0, ruleNote{Blacklist: e.ID, Kind: e.Kind}, inputs{}, resultRefused)
			return ErrNotAvailable
		}
	}
	if err := s.pause(a); err != nil {
		return err
	}
	marks := s.current.Now().marks[a.User]
	if len(marks) == 0 {
		return nil
	}
	return s.apply(a, marks)
}

// apply weakens or refuses the path by every rule that applies to the
// applicant.
func (s *Service) apply(a *rush.Applicant, marks []mark) error {
	refused := false
	for _, m := range marks {
		if over(m.rule, a.Now) || !m.until.After(a.Now) {
			continue
		}
		if until := m.rule.DryRunUntil; until != nil && a.Now.Before(*until) {
			s.decide(a, m.rule.ID, noteOf(m.rule), inputs{Count: m.count, Until: m.until}, resultDryRun)
			continue
		}
		result := ""
		switch m.rule.Action {
		case ShortWindow:
			within := time.Duration(m.rule.Amount) * time.Second
			if within < a.PayWithin {
				a.PayWithin, result = within, resultShortWindow
			}
		case Later:
			from := a.Item.OpensAt.Add(time.Duration(m.rule.Amount) * time.Millisecond)
			if from.After(a.UsableFrom) {
				a.UsableFrom = from
				// Once the sale has been open for that long, the rule restricts
				// nothing.
				if from.After(a.Now) {
					result = resultLater
				}
			}
		case Chance:
			if !s.lucky(a.User, a.Item.ID, m.rule) {
				refused, result = true, resultUnlucky
			}
		case None:
			refused, result = true, resultRefused
		}
		if result != "" {
			s.decide(a, m.rule.ID, noteOf(m.rule), inputs{Count: m.count, Until: m.until}, result)
		}
	}
	if refused {
		return ErrNotAvailable
	}
	return nil
}

// lucky draws a user's lot for an item under a rule. The result is the same at
// any time on any instance, and cannot be predicted without the key.
func (s *Service) lucky(user, item int64, r *Rule) bool {
	var b [24]byte
	for i, v := range [...]int64{user, item, r.ID} {
		binary.BigEndian.PutUint64(b[8*i:], uint64(v)) //nolint:gosec // the bits, not the value
	}
	lot := binary.BigEndian.Uint64(auth.MAC(s.chanceKey, b[:]))
	return float64(lot) < r.Amount*math.MaxUint64
}

// ruleNote is the part of a decision that describes the rule or blacklist
// entry.
type ruleNote struct {
	Blacklist int64   `json:"blacklist,string,omitempty"` // the entry's id
	Kind      string  `json:"kind"`
	Threshold int32   `json:"threshold,omitempty"`
	Window    int64   `json:"window_seconds,omitempty"`
	Action    string  `json:"action,omitempty"`
	Amount    float64 `json:"amount,omitempty"`
}

func noteOf(r *Rule) ruleNote {
	return ruleNote{Kind: r.Kind, Threshold: r.Threshold, Window: r.WindowSeconds, Action: r.Action, Amount: r.Amount}
}

// inputs are a rule's data about the user.
type inputs struct {
	Count int64
	Until time.Time
}

// MarshalJSON omits the fields that the blacklist does not have.
func (in inputs) MarshalJSON() ([]byte, error) {
	doc := map[string]any{}
	if in.Count > 0 {
		doc["count"] = in.Count
	}
	if !in.Until.IsZero() && in.Until.Before(never) {
		doc["until"] = in.Until.UTC().Format(time.RFC3339)
	}
	return json.Marshal(doc)
}

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
