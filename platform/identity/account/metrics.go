package account

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/fault"
	"stampede/platform/identity/sms"
)

type metrics struct {
	hashes prometheus.Counter
	reused prometheus.Counter
	logins *prometheus.CounterVec
	codes  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	auto := promauto.With(reg)
	m := metrics{
		hashes: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_account_password_hashes_total", Help: "Password hashes computed, each at its full cost.",
		}),
		reused: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_account_refresh_reused_total", Help: "Logins ended because a refresh token was used twice.",
		}),
		logins: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_account_logins_total", Help: "Login attempts, by method and by result: ok, or the code of the refusal.",
		}, []string{"how", "result"}),
		codes: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_account_sms_total", Help: "Codes given to the SMS gateway, by result: taken, refused, failed.",
		}, []string{"result"}),
	}
	// Each series starts at 0, so that a dashboard can draw it.
	for _, how := range []string{byPassword, bySMS, byWeChat, byRegister, byRefresh} {
		m.logins.WithLabelValues(how, "ok")
	}
	for _, result := range []string{codeTaken, codeRefused, codeFailed} {
		m.codes.WithLabelValues(result)
	}
	return m
}

// Results of sending a code.
const (
	codeTaken   = "taken"
	codeRefused = "refused"
	codeFailed  = "failed"
)

// sent counts a code by the sender's answer.
func (m metrics) sent(err error) {
	result := codeTaken
	switch {
	case errors.Is(err, sms.ErrRefused):
		result = codeRefused
	case err != nil:
		result = codeFailed
	}
	m.codes.WithLabelValues(result).Inc()
}

// attempt counts a login by its result. Fault codes are a small fixed set; an error
// without one counts as internal.
func (m metrics) attempt(how string, err error) {
	result := "ok"
	if err != nil {
		result = "internal"
		if f, coded := errors.AsType[*fault.Error](err); coded {
			result = f.Code
		}
	}
	m.logins.WithLabelValues(how, result).Inc()
}
