package risk

import (
	"strings"
	"time"

	"stampede/platform/base/fault"
)

// Kind is what a rule counts about a user.
type Kind string

// The kinds.
const (
	// UnpaidHolds counts orders that were closed unpaid within the window.
	UnpaidHolds Kind = "unpaid_holds"
	// OpenUnpaid counts orders that wait for payment now; the window is ignored.
	OpenUnpaid Kind = "open_unpaid"
)

// Action is what a rule does to a path, from mild to strict.
type Action string

// The actions, with the meaning of their amount.
const (
	ShortWindow Action = "short_window" // seconds to pay
	Later       Action = "later"        // milliseconds after the opening
	Chance      Action = "chance"       // probability of a path, above 0 and below 1
	None        Action = "none"         // no path
)

// Rule is one of the shop's rules about offenders.
type Rule struct {
	ID        int64
	Kind      Kind
	Threshold int32 // the rule applies to users who reach it
	Window    time.Duration
	Action    Action
	Amount    float64 // by action
	Note      string
	ExpiresAt time.Time // zero: never expires
	DryRun    time.Time // until then the rule only records decisions; zero: it restricts at once
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Bounds of a rule. The CHECKs of risk.rules repeat those of the amounts.
const (
	minWindow = time.Minute
	// defaultWindow is the window of a rule that gives none.
	defaultWindow = 30 * 24 * time.Hour
	// maxWindow is also how long unpaid closings are kept.
	maxWindow    = 90 * 24 * time.Hour
	maxThreshold = 100_000
	// minPaySeconds is the shortest window an activity may have; maxPaySeconds is
	// the longest that a path can carry.
	minPaySeconds, maxPaySeconds = 10, 65_535
	// maxLater is ten minutes: after that a flash sale is over, and refusing the
	// path would be the more honest rule.
	maxLater = 10 * time.Minute
	maxNote  = 500
)

// check returns the error in a rule, nil if there is none.
func (r *Rule) check(now time.Time) error {
	invalid := func(detail fault.Text) error { return fault.Plain(fault.Invalid, detail) }
	switch {
	case r.Threshold < 1 || r.Threshold > maxThreshold:
		return invalid(fault.T("threshold must be between 1 and 100000.", "threshold 须为 1 至 100000。"))
	case r.Window < minWindow || r.Window > maxWindow:
		return invalid(fault.T("window_seconds must be between 60 (a minute) and 7776000 (90 days).",
			"window_seconds 须为 60（一分钟）至 7776000（90 天）。"))
	case !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(now):
		return invalid(fault.T("expires_at must lie in the future; omit it for a rule without an end.",
			"expires_at 须晚于当前时间；长期有效的规则请留空。"))
	case len([]rune(r.Note)) > maxNote || strings.ContainsRune(r.Note, 0):
		return invalid(fault.T("note may have at most 500 characters.", "note 最多 500 个字符。"))
	}
	switch r.Action {
	case ShortWindow:
		if r.Amount < minPaySeconds || r.Amount > maxPaySeconds {
			return invalid(fault.T("amount of short_window is the seconds to pay, between 10 and 65535.",
				"short_window 的 amount 为付款秒数，须为 10 至 65535。"))
		}
	case Later:
		if r.Amount < 1 || r.Amount > float64(maxLater.Milliseconds()) {
			return invalid(fault.T("amount of later is milliseconds after the opening, between 1 and 600000.",
				"later 的 amount 为开抢后的毫秒数，须为 1 至 600000。"))
		}
	case Chance:
		if !(r.Amount > 0 && r.Amount < 1) {
			return invalid(fault.T("amount of chance is the probability of a path, above 0 and below 1.",
				"chance 的 amount 为获得链接的概率，须大于 0 且小于 1。"))
		}
	default:
		if r.Amount != 0 {
			return invalid(fault.T("none takes no amount.", "none 没有 amount。"))
		}
	}
	return nil
}

// counted reports whether the rule's kind is counted. Another version of the program
// may have stored one that is not.
func (r *Rule) counted() bool { return r.Kind == UnpaidHolds || r.Kind == OpenUnpaid }

// over reports whether the rule has ended.
func (r *Rule) over(now time.Time) bool { return !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt) }
