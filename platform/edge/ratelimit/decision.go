package ratelimit

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"stampede/platform/base/fault"
)

// Decision is the answer to a Take, for the rule that is closest to refusing or that
// refuses for the longest.
type Decision struct {
	Allowed   bool
	Rule      Rule          // the zero Rule when none of the rules was on
	Remaining int           // how many more would be allowed immediately
	Reset     time.Duration // until the full quota of Count is available again
	Retry     time.Duration // until the next request is allowed; 0 when allowed

	rules []Rule // all evaluated rules
}

// decide evaluates one ask: ahead is how far the subject's TAT lies ahead of now,
// after the take if it was allowed.
func decide(r Rule, allowed bool, ahead time.Duration) Decision {
	ahead = max(ahead, 0)
	left := r.full() - ahead
	d := Decision{Allowed: allowed, Rule: r, Remaining: int(max(left, 0) / r.interval()), Reset: ahead}
	if wait := r.interval() - left; wait > 0 && !allowed {
		d.Retry = wait
	}
	return d
}

// tighter returns the more restrictive of two decisions: the longer wait, else the
// one closer to its limit.
func (d Decision) tighter(o Decision) Decision {
	switch {
	case d.Rule == Rule{}:
		return o
	case d.Retry != o.Retry:
		if o.Retry > d.Retry {
			return o
		}
	case o.Remaining < d.Remaining, o.Remaining == d.Remaining && o.Reset > d.Reset:
		return o
	}
	return d
}

// ErrLimited refuses a request above its rate.
var ErrLimited = fault.New(fault.TooMany, "rate-limited", fault.T("You are asking too often", "操作太频繁，请稍后再试"),
	fault.T("Retry-After says when to retry.", "请按 Retry-After 给出的秒数等待后重试。"),
	fault.T("Wait for the seconds in Retry-After, then repeat the request.", "请按 Retry-After 给出的秒数等待后重试。"))

// Err is nil when allowed, else a fault "rate-limited" with the time of the next
// attempt. platform/edge/httpx makes it a 429 with Retry-After and the RateLimit
// fields.
func (d Decision) Err() error {
	if d.Allowed {
		return nil
	}
	return ErrLimited.Saying(
		fault.T("This is allowed {rate}; Retry-After says when to retry.",
			"允许频率为{rate}，请按 Retry-After 给出的秒数等待后重试。", "rate", d.Rule.words())).
		After(d.Retry).With("rule", d.Rule.Name).Because(&Refused{d})
}

// words describes a rule for people: "5 times in 1m".
func (r Rule) words() fault.Text {
	per := strings.TrimSuffix(strings.TrimSuffix(r.Per.String(), "0s"), "0m") // 1h0m0s is hard to read
	if per == "" || !strings.ContainsAny(per[len(per)-1:], "hmsµn") {
		per = r.Per.String()
	}
	if r.Count == 1 {
		return fault.T("1 time in {per}", " {per} 内 1 次", "per", per)
	}
	return fault.T("{count} times in {per}", " {per} 内 {count} 次", "count", r.Count, "per", per)
}

// Refused is the cause of a refusal, from which the answer's header is written.
type Refused struct{ Decision Decision } //nolint:errname // what happened, not what went wrong

func (r *Refused) Error() string { return "rule " + r.Decision.Rule.Name + " refused" }

// Header sets RateLimit-Policy and RateLimit, as in
// draft-ietf-httpapi-ratelimit-headers-11: each rule with its quota and window, and
// for the deciding rule the remaining quota and the seconds until it is full again.
func (d Decision) Header(h http.Header) {
	if d.Rule.Name == "" {
		return
	}
	var b strings.Builder
	for i, r := range d.rules {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(`"` + r.Name + `";q=` + strconv.Itoa(r.Count) + ";w=" + seconds(r.Per))
	}
	h.Set("RateLimit-Policy", b.String())
	h.Set("RateLimit", `"`+d.Rule.Name+`";r=`+strconv.Itoa(d.Remaining)+";t="+seconds(d.Reset))
}

// seconds rounds up, because a retry that is too early would be refused again.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
