package alarm

import (
	"errors"
	"fmt"
	"time"

	"stampede/platform/watch/alarm/channel"
)

// Settings are where alarms go.
type Settings struct {
	Webhook    `embed:""`
	AlarmTo    []string      `name:"alarm-to" env:"STAMPEDE_ALARM_TO" help:"Where alarms are sent, comma-separated: wecom://KEY, dingtalk://TOKEN?secret=SEC…, feishu://TOKEN?secret=…, slack://T…/B…/…, mailto:ops@example.com, sms:+8613800138000; with ?severity=critical without warnings. Test it: stampede alarm test." secret:""`
	AlarmThen  []string      `name:"alarm-then" env:"STAMPEDE_ALARM_THEN" help:"Where a critical alarm is sent too when no operator has acknowledged it in time, in the same form." secret:"" rare:""`
	ThenAfter  time.Duration `name:"alarm-then-after" default:"10m" env:"STAMPEDE_ALARM_THEN_AFTER" help:"How long --alarm-then waits for an acknowledgement, as a duration." min:"1m" max:"12h" rare:""`
	Hours      string        `name:"alarm-hours" default:"09:00-22:00" env:"STAMPEDE_ALARM_HOURS" help:"When warnings are sent, in the shop's time zone; at other times they wait. Critical alarms are sent at any time." rare:""`
	InLanguage string        `name:"alarm-language" default:"zh" enum:"zh,en" env:"STAMPEDE_ALARM_LANGUAGE" help:"Language of these messages, zh or en." rare:""`
}

// Check returns an error for each wrong setting that the webhook's own check does not see.
func (s Settings) Check() error {
	_, _, wrong := s.addresses()
	if _, err := parseHours(s.Hours); err != nil {
		wrong = errors.Join(wrong, err)
	}
	if len(s.AlarmThen) > 0 && len(s.AlarmTo) == 0 {
		wrong = errors.Join(wrong, errors.New("--alarm-then is set without --alarm-to: name first where alarms go at once"))
	}
	return wrong
}

// Anywhere reports whether alarms go anywhere.
func (s Settings) Anywhere() bool { return s.URL != "" || len(s.AlarmTo) > 0 }

// addresses parses where alarms go first, and then.
func (s Settings) addresses() (first, then []channel.Address, wrong error) {
	names := map[string]bool{}
	parse := func(flag string, list []string) (all []channel.Address) {
		for i, raw := range list {
			a, err := channel.Parse(raw)
			switch {
			case err != nil: // without the address, which is a secret
				wrong = errors.Join(wrong, fmt.Errorf("--%s %w (address %d of %d)", flag, err, i+1, len(list)))
			case names[a.Name]:
				wrong = errors.Join(wrong, fmt.Errorf("--%s must have no address that is there already, in --alarm-to or --alarm-then (address %d of %d)", flag, i+1, len(list)))
			default:
				names[a.Name] = true
				all = append(all, a)
			}
		}
		return all
	}
	return parse("alarm-to", s.AlarmTo), parse("alarm-then", s.AlarmThen), wrong
}

// hours are a part of the day, in minutes; it may span midnight.
type hours struct{ from, until int }

func parseHours(s string) (hours, error) {
	var h [4]int
	if n, err := fmt.Sscanf(s+"\n", "%2d:%2d-%2d:%2d\n", &h[0], &h[1], &h[2], &h[3]); n != 4 || err != nil || len(s) != len("09:00-22:00") {
		return hours{}, fmt.Errorf("--alarm-hours must be like 09:00-22:00, not %q", s)
	}
	of := hours{h[0]*60 + h[1], h[2]*60 + h[3]}
	if max(h[1], h[3]) > 59 || max(of.from, of.until) > 24*60 || min(h[0], h[1], h[2], h[3]) < 0 || of.from == of.until {
		return hours{}, fmt.Errorf("--alarm-hours must be two different times of a day such as 09:00-22:00, or 00:00-24:00 for all of it, not %q", s)
	}
	return of, nil
}

func (h hours) contain(t time.Time) bool {
	minute := t.Hour()*60 + t.Minute()
	if h.from < h.until {
		return h.from <= minute && minute < h.until
	}
	return minute >= h.from || minute < h.until
}
