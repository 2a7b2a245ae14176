package message

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/notify/message/internal/messagedb"
	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// ShopperMessageSettings is what the shop has decided about all of its messages.
type ShopperMessageSettings struct {
	Language   string `json:"language" enum:"auto,en,zh" doc:"Of shoppers who have chosen none; auto: by the country of the phone"`
	Budget     int64  `json:"budget" minimum:"0" maximum:"1000000000" doc:"Messages that may be charged in a period; an SMS of two parts counts twice. When they are used up, reminders and units back are not sent, and an alarm says so; messages about orders always are. 0: no limit"`
	BudgetPer  string `json:"budget_per" enum:"day,month" doc:"The period, by the shop's time zone"`
	QuietFrom  string `json:"quiet_from" pattern:"^([01][0-9]|2[0-3]):[0-5][0-9]$" example:"22:00" doc:"From then on no reminder and no units back is sent, in the shop's time zone"`
	QuietUntil string `json:"quiet_until" pattern:"^([01][0-9]|2[0-3]):[0-5][0-9]$" example:"08:00" doc:"The same as quiet_from: there are no quiet hours"`
}

// ShopperMessageRuleSetting is what it has decided about a kind.
type ShopperMessageRuleSetting struct {
	On           bool `json:"on"`
	AheadMinutes int  `json:"ahead_minutes,omitempty" minimum:"0" maximum:"1440" doc:"Of reminder and deadline: how long before"`
}

// ShopperMessageRule is the setting of one kind.
type ShopperMessageRule struct {
	Kind Kind `json:"kind" enum:"reminder,won,deadline,paid,shipped,refunded,units_back,dispute"`
	ShopperMessageRuleSetting
}

// Rules are both, with the shop's own texts.
type Rules struct {
	ShopperMessageSettings
	Kinds []ShopperMessageRule `json:"kinds" nullable:"false"`

	texts texts
}

const (
	// reminderAhead leaves the gateway a quarter of an hour for a hundred thousand of them.
	reminderAhead = 15
	// deadlineAhead is as long as a shopper needs to pay.
	deadlineAhead = 5
)

func defaultRules() Rules {
	r := Rules{ShopperMessageSettings: ShopperMessageSettings{
		Language: "auto", BudgetPer: "month", QuietFrom: "22:00", QuietUntil: "08:00",
	}}
	for _, k := range Kinds {
		rule := ShopperMessageRule{k, ShopperMessageRuleSetting{On: true}}
		switch k {
		case Reminder:
			rule.AheadMinutes = reminderAhead
		case Deadline:
			rule.AheadMinutes = deadlineAhead
		default:
		}
		r.Kinds = append(r.Kinds, rule)
	}
	return r
}

// of is the rule of a kind: off, if there is none.
func (r *Rules) of(k Kind) ShopperMessageRule {
	for _, rule := range r.Kinds {
		if rule.Kind == k {
			return rule
		}
	}
	return ShopperMessageRule{Kind: k}
}

func (r ShopperMessageRule) ahead() time.Duration { return time.Duration(r.AheadMinutes) * time.Minute }

// check refuses what the schema lets pass.
func (r ShopperMessageRule) check() error {
	var flaws fault.Flaws
	flaws.Add(!r.On || r.Kind != Reminder || r.AheadMinutes >= 5, "body.ahead_minutes", r.AheadMinutes,
		fault.T("Reminders begin at least 5 minutes before the opening: the last minute is the crowd's.", "开抢提醒至少提前 5 分钟，开抢前最后一分钟不再发送。"))
	flaws.Add(!r.On || r.Kind != Deadline || r.AheadMinutes >= 1, "body.ahead_minutes", r.AheadMinutes,
		fault.T("The warning comes at least a minute before the deadline.", "付款提醒至少提前 1 分钟。"))
	return flaws.Err()
}

// rulesFor is how long rules are remembered: how late a change takes effect.
const rulesFor = 2 * time.Second

// rules are the current ones, with the texts.
func (s *Service) rules(ctx context.Context) (Rules, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.readAt.IsZero() && time.Since(s.readAt) < rulesFor {
		return s.read, nil
	}
	r, err := s.readRules(ctx)
	if err == nil {
		s.read, s.readAt = r, time.Now()
	}
	return r, err
}

func (s *Service) readRules(ctx context.Context) (r Rules, err error) {
	raw, err := messagedb.New(s.deps.DB).Rules(ctx)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		r, err = defaultRules(), nil
	case err == nil:
		err = json.Unmarshal(raw, &r)
	}
	if err == nil {
		r.texts, err = s.readTexts(ctx)
	}
	return r, failed("read the shop's rules", err)
}

// forgetRules makes this instance read the rules again.
func (s *Service) forgetRules() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readAt = time.Time{}
}

// change changes the rules in a transaction, and records it.
func (s *Service) change(ctx context.Context, to func(r *Rules)) (now Rules, err error) {
	defer s.forgetRules()
	defaults, err := json.Marshal(defaultRules())
	if err != nil {
		return now, failed("encode the rules", err)
	}
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		q := messagedb.New(tx)
		raw, err := q.LockRules(ctx, defaults)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, &now); err != nil {
			return err
		}
		before := now
		before.Kinds = slices.Clone(now.Kinds)
		to(&now)
		if raw, err = json.Marshal(now); err != nil {
			return err
		}
		if err := q.PutRules(ctx, raw); err != nil {
			return err
		}
		return audit.Record(ctx, tx, "message.rules", "messages", audit.Change{Before: before, After: now})
	})
	return now, unreachable(err)
}

// quiet returns the quiet hours that a moment lies in.
func (r *Rules) quiet(at time.Time) (from, until time.Time, is bool) {
	if r.QuietFrom == r.QuietUntil {
		return from, until, false
	}
	clock := func(day int, hhmm string) time.Time {
		t, _ := time.Parse("15:04", hhmm) // the schema has checked it
		return time.Date(at.Year(), at.Month(), at.Day()+day, t.Hour(), t.Minute(), 0, 0, at.Location())
	}
	for day := -1; day <= 0; day++ {
		from, until = clock(day, r.QuietFrom), clock(day, r.QuietUntil)
		if !until.After(from) {
			until = clock(day+1, r.QuietUntil)
		}
		if !at.Before(from) && at.Before(until) {
			return from, until, true
		}
	}
	return time.Time{}, time.Time{}, false
}

// budgetFrom is the first day of the period.
func (r *Rules) budgetFrom(now time.Time) time.Time {
	day := 1
	if r.BudgetPer == "day" {
		day = now.Day()
	}
	return time.Date(now.Year(), now.Month(), day, 0, 0, 0, 0, time.UTC)
}

// languageOf is the language of a reader: what they chose, the shop's, or that of the phone's country.
func (r *Rules) languageOf(chosen, address string) httpx.Language {
	switch {
	case chosen == "en", chosen == "" && r.Language == "en":
		return httpx.English
	case chosen == "zh", r.Language == "zh", strings.HasPrefix(address, china), !strings.HasPrefix(address, "+"):
		return httpx.Chinese
	}
	return httpx.English
}

// china is where phones are whose carriers count as China's do.
const china = "+86"
