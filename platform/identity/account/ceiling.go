package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/watch/alarm"
)

// The alarms about the shop's SMS.
var (
	SMSCeiling = alarm.Define("sms-ceiling", alarm.Critical,
		"The shop has sent as many SMS as --sms-per-hour allows: codes are refused and notes to users wait.",
		"Compare stampede_account_logins_total with stampede_account_sms_total: if few codes are used, this is a flood, so require a stronger human check. If the shoppers are real, raise --sms-per-hour and restart. Staff and known devices still get codes.")
	SMSNearCeiling = alarm.Define("sms-ceiling-near", alarm.Warning,
		"Four fifths of the SMS that --sms-per-hour allows are sent.",
		"Compare stampede_account_logins_total with stampede_account_sms_total, as for sms-ceiling.")
)

const (
	// nearCeiling is the share of the ceiling at which operators are warned.
	nearCeiling = 0.8
	// reservePart of the ceiling is kept for staff and known devices, half of it for
	// staff alone.
	reservePart = 10
	// ceilingRetry is when a refused caller may try again: the budget refills
	// evenly, and a flood takes what a closer retry would get.
	ceilingRetry = time.Minute
	// ceilingStands is how long after the last refusal the alarm stays.
	ceilingStands = 5 * time.Minute
	// ceilingEvery is how often the ceiling's probes look; they read memory.
	ceilingEvery = 10 * time.Second
)

// errCeiling is the same for every phone, also for one of the staff, whose code is
// sent nevertheless: the answer must not reveal whose phone it is.
var errCeiling = fault.New(fault.Unavailable, "sms-ceiling", fault.Titles{"The shop sends no further codes right now", "短信发送量已达上限，请稍后再试"},
	"The shop has sent as many SMS as it may in an hour. Log in with your password or with WeChat, use a device that you have logged in on before, or try again later. A code that reaches you nevertheless is valid.")

// sender is who causes an SMS; a later one may use up more of the ceiling.
type sender int

const (
	forAnyone sender = iota // notes too
	forKnown                // a device that the phone's user has logged in on
	forStaff                // half of the reserve: accounts to be known by cost little
)

// shopAsk is one SMS of the shop, of all instances together. All senders advance the
// same bucket, and some are refused earlier.
func (s *Service) shopAsk(by sender) ratelimit.Ask {
	n := s.cfg.SMSPerHour
	rule := ratelimit.Rule{Name: "sms-shop", Count: n, Per: middleWindow}
	reserve := n / reservePart
	if n > 0 && by != forStaff {
		rule.Count -= [...]int{forAnyone: reserve, forKnown: (reserve + 1) / 2}[by]
		rule.Per = middleWindow / time.Duration(n) * time.Duration(rule.Count)
	}
	return ratelimit.Ask{Rule: rule, Key: "all"}
}

// takeSMS takes one of the shop's SMS for a code. Above the ceiling a device that the
// phone's user has logged in on takes from the reserve, and a login code for one of
// the staff is left to sendNotes.
func (s *Service) takeSMS(ctx context.Context, phone Phone, purpose Purpose, from caller) error {
	err := s.take(ctx, s.shopAsk(forAnyone))
	if !isRefused(err) {
		return err
	}
	isKnown, failed := s.knows(ctx, phone, from)
	if failed != nil {
		return failed
	}
	if isKnown {
		if err = s.take(ctx, s.shopAsk(forKnown)); !isRefused(err) {
			return err
		}
	}
	s.ceilingHit.Store(time.Now().UnixNano())
	if purpose == ForLogin {
		text := string(phone)
		if err := accountdb.New(s.deps.DB).PutStaffCode(ctx, accountdb.PutStaffCodeParams{ID: ids.New(), Phone: &text}); err != nil {
			return fmt.Errorf("account: code for staff: %w", err)
		}
	}
	return errCeiling.After(ceilingRetry)
}

func isRefused(err error) bool {
	_, refused := errors.AsType[*ratelimit.Refused](err)
	return refused
}

// Probes watch the shop's SMS ceiling, as this instance knows it.
func (s *Service) Probes() []alarm.Probe {
	if s.cfg.SMSPerHour == 0 {
		return nil
	}
	probe := func(about *alarm.Definition, detail string, is func() bool) alarm.Probe {
		found := []alarm.Finding{{Subject: "--sms-per-hour", Detail: fmt.Sprintf(detail, s.cfg.SMSPerHour)}}
		return alarm.Probe{Alarm: about, Every: ceilingEvery, Look: func(context.Context) ([]alarm.Finding, error) {
			if is() {
				return found, nil
			}
			return nil, nil
		}}
	}
	return []alarm.Probe{
		probe(SMSCeiling, "It is %d, and codes were refused within five minutes. Raise it if the shoppers are real.", func() bool {
			hit := s.ceilingHit.Load()
			return hit != 0 && time.Since(time.Unix(0, hit)) < ceilingStands
		}),
		probe(SMSNearCeiling, "It is %d, and four fifths are used up; the last tenth is for staff and known devices.", func() bool {
			return s.deps.Limits.Used(s.shopAsk(forStaff)) >= nearCeiling
		}),
	}
}
