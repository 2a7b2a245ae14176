package humancheck

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/fault"
)

// What a caller gets.
var (
	// ErrRequired requires a solution. It carries kind and challenge_url, and the
	// challenge itself if that costs nothing to make.
	ErrRequired = fault.New(fault.Forbidden, "human-check-required", fault.T("Complete the human check", "请先完成人机验证"),
		fault.T("Solve a challenge of the given kind, from challenge_url or in challenge, and send the request again "+
			"with the solution in the header Human-Check.",
			"请完成 challenge_url 或 challenge 中指定类型的验证，并在 Human-Check 请求头中携带结果重新提交。"),
		fault.T("Fetch a challenge, solve it, and send the request with the solution.", "请先获取并完成人机验证，再携带结果重新提交。"))
	// ErrFailed refuses a solution. It carries the fields of ErrRequired, and
	// reason.
	ErrFailed = fault.New(fault.Forbidden, "human-check-failed", fault.T("The human check failed", "人机验证未通过，请重试"),
		fault.T("The solution in the header Human-Check was not accepted (see reason); solve a new challenge.",
			"Human-Check 请求头中的结果未通过（原因见 reason），请重新验证。"),
		fault.T("Fetch a new challenge and solve it.", "请重新获取并完成人机验证。"))
	// ErrUnavailable means that the check cannot be made now; every request that
	// needs it is refused.
	ErrUnavailable = fault.New(fault.Unavailable, "human-check-unavailable",
		fault.T("The check is not available right now", "人机验证暂不可用，请稍后再试"),
		fault.T("The human check is not available right now; try again in a moment.", "人机验证暂不可用，请稍后重试。"),
		fault.T("Try again in a moment.", "请稍后重试。"))
)

// Why a solution is refused; these words are the values of the field reason and of
// the metric's label result.
var (
	errMalformed = errors.New("malformed") // not one of the three forms
	errForged    = errors.New("forged")    // the signature does not match
	errForeign   = errors.New("foreign")   // made for another user, item, purpose or address
	errLate      = errors.New("late")      // expired
	errWeak      = errors.New("weak")      // fewer zero bits than required, by the challenge or since it was made
	errUsed      = errors.New("used")      // was sent before
	errDrag      = errors.New("drag")      // a slide whose tile no person can have moved that way
	errWrong     = errors.New("wrong")     // wrong tile position, or the verifier said no
)

// results are all values of the label result: a reason of a refusal, or one of
// passed, required (no solution was sent), unavailable and stood-in (a proof of work
// was required because the verifier is down).
var results = []string{
	"passed", "required", "unavailable", "stood-in",
	errMalformed.Error(), errForged.Error(), errForeign.Error(), errLate.Error(), errWeak.Error(), errUsed.Error(), errDrag.Error(), errWrong.Error(),
}

type metrics struct {
	challenges, checks *prometheus.CounterVec
}

// newMetrics registers the metrics. Every series exists from the start, so that its
// rate is right from the first increment.
func newMetrics(reg prometheus.Registerer) *metrics {
	auto := promauto.With(reg)
	m := &metrics{
		challenges: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_human_challenges_total", Help: "Challenges issued, by kind. A proof of work that replaces the verifier is of kind pow.",
		}, []string{"kind"}),
		checks: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_human_checks_total", Help: "Human checks, by kind and result: passed, required, or the reason of the refusal.",
		}, []string{"kind", "result"}),
	}
	for _, k := range []Kind{Pow, Slide, Verifier} {
		m.challenges.WithLabelValues(string(k))
		for _, r := range results {
			m.checks.WithLabelValues(string(k), r)
		}
	}
	return m
}

func (m *metrics) issued(kind Kind) { m.challenges.WithLabelValues(string(kind)).Inc() }

func (m *metrics) result(kind Kind, result string) {
	m.checks.WithLabelValues(string(kind), result).Inc()
}
