package code

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/watch/alarm"
)

// The alarms about the shop's SMS.
var (
	SMSCeiling = alarm.Define("sms-ceiling", alarm.Critical,
		fault.T("The shop has sent as many SMS as --sms-per-hour allows: codes are refused and notes to users wait.",
			"本小时发送的短信已达 --sms-per-hour 的上限：验证码暂停发送，通知等待。"),
		fault.T("Compare stampede_account_logins_total with stampede_account_sms_total: if few codes are used, this is a flood, so require a stronger human check. If the shoppers are real, raise --sms-per-hour and restart. Staff still get login codes.",
			"对比 stampede_account_logins_total 与 stampede_account_sms_total：验证码很少被使用说明遭到刷短信，请提高人机验证强度；若是真实顾客，请调高 --sms-per-hour 并重启。员工仍可收到登录验证码。"))
	SMSNearCeiling = alarm.Define("sms-ceiling-near", alarm.Warning,
		fault.T("Four fifths of the SMS that --sms-per-hour allows are sent.",
			"本小时的短信已用去 --sms-per-hour 的五分之四。"),
		fault.T("Compare stampede_account_logins_total with stampede_account_sms_total, as for sms-ceiling.",
			"对比 stampede_account_logins_total 与 stampede_account_sms_total，处理方式同 sms-ceiling。"))
)

const (
	// nearCeiling is the share of the ceiling at which operators are warned.
	nearCeiling = 0.8
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
var errCeiling = fault.New(fault.Unavailable, "sms-ceiling",
	fault.T("The shop sends no further codes right now", "短信发送量已达上限，请稍后再试"),
	fault.T("The shop has sent as many SMS as it may in an hour. Log in with your password or with WeChat, or try "+
		"again later. A code that reaches you nevertheless is valid.",
		"本小时的短信发送量已达上限。请用密码或微信登录，或稍后再试；已收到的验证码仍然有效。"),
	fault.T("Try again later, or log in with the password.", "请稍后再试，或使用密码登录。"))

// shopAsk is one SMS of the shop, of all instances together: a note, or a code for any
// phone.
func (s *Service) shopAsk() ratelimit.Ask {
	return ratelimit.Ask{Rule: ratelimit.Rule{Name: "sms-shop", Count: s.store.Config.SMSPerHour, Per: guard.MiddleWindow}, Key: "all"}
}

// takeSMS takes one of the shop's SMS for a code. Above the ceiling a login code for one
// of the staff is left to the notes, which takes none: the staff's phones are few, and
// the limits of each bound what a stranger can request for them.
func (s *Service) takeSMS(ctx context.Context, phone account.Phone, purpose sms.Use) error {
	err := s.guard.Take(ctx, s.shopAsk())
	if !guard.IsRefused(err) {
		return err
	}
	s.ceilingHit.Store(time.Now().UnixNano())
	if purpose == sms.ForLogin {
		err := accountdb.New(s.store.DB).PutStaffCode(ctx, accountdb.PutStaffCodeParams{ID: ids.New(), Phone: (*string)(&phone)})
		if err != nil {
			return fmt.Errorf("account: code for staff: %w", err)
		}
	}
	return errCeiling.After(ceilingRetry)
}

// Probes watch the shop's SMS ceiling, as this instance knows it.
func (s *Service) Probes() []alarm.Probe {
	if s.store.Config.SMSPerHour == 0 {
		return nil
	}
	probe := func(about *alarm.Definition, detail string, is func() bool) alarm.Probe {
		found := []alarm.Finding{{Subject: "--sms-per-hour", Detail: fmt.Sprintf(detail, s.store.Config.SMSPerHour)}}
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
		probe(SMSNearCeiling, "It is %d, and four fifths are used up; above it only staff get login codes.", func() bool {
			return s.guard.Limits.Used(s.shopAsk()) >= nearCeiling
		}),
	}
}
