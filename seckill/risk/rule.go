package risk

import (
	"strings"
	"time"

	"stampede/platform/base/fault"
	"stampede/seckill/risk/internal/riskdb"
)

// The kinds of rules: what a rule counts about a user.
const (
	// UnpaidHolds counts orders that were closed unpaid within the window.
	UnpaidHolds = "unpaid_holds"
	// OpenUnpaid counts orders that wait for payment now; the window is ignored.
	OpenUnpaid = "open_unpaid"
)

// The actions of rules on a path, from mild to strict, with the meaning of their amount.
const (
	ShortWindow = "short_window" // seconds to pay
	Later       = "later"        // milliseconds after the opening
	Chance      = "chance"       // probability of a path, above 0 and below 1
	None        = "none"         // no path
)

// Rule is one of the shop's rules about offenders. Without an end it never expires;
// before the end of its dry run it only records decisions.
type Rule = riskdb.RiskRule

// maxRules bounds the rules, all of which are checked for every path of an
// offender.
const maxRules = 200

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
func check(r *Rule, now time.Time) error {
	invalid := func(detail fault.Text) error { return fault.Plain(fault.Invalid, detail) }
	switch {
	case r.Threshold < 1 || r.Threshold > maxThreshold:
		return invalid(fault.T("threshold must be between 1 and 100000.", "threshold 须为 1 至 100000。"))
	case r.WindowSeconds < int64(minWindow.Seconds()) || r.WindowSeconds > int64(maxWindow.Seconds()):
		return invalid(fault.T("window_seconds must be between 60 (a minute) and 7776000 (90 days).",
			"window_seconds 须为 60（一分钟）至 7776000（90 天）。"))
	case r.ExpiresAt != nil && !r.ExpiresAt.After(now):
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
func counted(r *Rule) bool { return r.Kind == UnpaidHolds || r.Kind == OpenUnpaid }

// over reports whether the rule has ended.
func over(r *Rule, now time.Time) bool { return r.ExpiresAt != nil && !now.Before(*r.ExpiresAt) }
