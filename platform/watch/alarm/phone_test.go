package alarm_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/edge/httpx"
	"stampede/platform/edge/mail"
	"stampede/platform/edge/sms"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/robottest"
)

// phones are stand-ins of every kind of address.
type phones struct {
	*robottest.Server

	mu    sync.Mutex
	mails []mail.Message
	sms   []sms.Message
}

func (p *phones) Send(_ context.Context, m mail.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mails = append(p.mails, m)
	return nil
}

// texts is how phones take SMS.
type texts struct{ *phones }

func (p texts) Send(_ context.Context, m sms.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sms = append(p.sms, m)
	return nil
}

// to is a notifier whose first addresses are to.
func (p *phones) to(t *testing.T, pool *pgxpool.Pool, to []string, change func(*alarm.Settings)) *alarm.Notifier {
	t.Helper()
	n := notifier(t, pool, func(s *alarm.Settings, d *alarm.Deps) {
		s.AlarmTo, s.InLanguage = to, "en"
		d.Mail, d.SMS = p, texts{p}
		if change != nil {
			change(s)
		}
	})
	alarm.Hurry(n, 20*time.Millisecond, 10*time.Millisecond)
	return n
}

func (p *phones) robots() []string {
	return []string{p.Address("wecom"), p.Address("dingtalk"), p.Address("feishu"), p.Address("slack")}
}

// round makes one attempt for each address.
func round(t *testing.T, n *alarm.Notifier, want int) {
	t.Helper()
	told, err := alarm.Round(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, "addresses that were told", told, want)
}

// An alarm is seen by each kind of address once although two instances run, and,
// unacknowledged, by the second address; acknowledged in time, it is not.
func TestAlarmReachesEachPhoneAndThenTheSecond(t *testing.T) {
	t.Parallel()
	pool, p := pgtest.DB(t), &phones{Server: robottest.New(t)}
	to := append(p.robots(), "mailto:ops@example.com", "sms:+8613800138000")
	instance := func() {
		pgtest.Work(t, p.to(t, pool, to, func(s *alarm.Settings) {
			s.AlarmThen, s.ThenAfter = []string{"mailto:boss@example.com", "sms:+8613900139000"}, time.Hour
		}).Run)
	}
	instance()
	instance()
	count := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.mails) + len(p.sms) + len(p.Took("wecom")) + len(p.Took("dingtalk")) + len(p.Took("feishu")) + len(p.Took("slack"))
	}
	told := func(n int) func() bool {
		return func() bool {
			return pgtest.Read[int](t, pool, `SELECT count(*) FROM platform.alarm_messages WHERE said = 'open'`) == n
		}
	}
	raise(t, pool, tooFew, "item 1", "3 are missing")
	pgtest.Eventually(t, 30*time.Second, told(6), "each address is told")
	raise(t, pool, slow, "refund 1", "")
	pgtest.Eventually(t, 30*time.Second, told(12), "of the warning too")
	require.Equal(t, "messages", count(), 12)
	all := list(t, pool, alarm.Filter{Code: tooFew.Code})
	_, _, err := alarm.Acknowledge(t.Context(), pool, all[0].ID, "Li")
	require.NoError(t, err)
	raise(t, pool, fenced, "item 2", "")
	pgtest.Eventually(t, 30*time.Second, told(18), "each address is told of the second")
	pgtest.Exec(t, pool, `UPDATE platform.alarm_messages SET created_at = created_at - interval '2 hours'`)
	pgtest.Eventually(t, 30*time.Second, told(20), "the second addresses are told")
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Equal(t, "mail to the second", p.mails[3].To+" "+p.mails[3].Subject, "boss@example.com [Critical] test-fenced: item 2")
	require.Equal(t, "SMS to the second", p.sms[3].Phone+" "+p.sms[3].Text, "+8613900139000 [Stampede] Critical alarm: test-fenced item 2, 1 in all. https://sale.example.com/admin/alarms")
	require.Equal(t, "first mail", p.mails[0].Text, "Units are missing.\n3 are missing\nNext: Count them.\n\n"+fmt.Sprintf("https://sale.example.com/admin/alarms?code=test-too-few#alarm-%d\n", all[0].ID))
	for _, kind := range []string{"wecom", "dingtalk", "feishu", "slack"} {
		took := p.Took(kind)
		require.Equal(t, kind+" mentions everybody for what is critical", []bool{took[0].All, took[1].All, took[2].All}, []bool{true, false, true})
		require.Equal(t, kind+" has the action", strings.Contains(took[0].Text, "Next: Count them."), true)
	}
}

// A storm is one message for each address, and what follows waits; a problem that is over
// says so once to who was told of it, and when it returns that is said, too.
func TestStormIsOneMessageAndItsEndIsTold(t *testing.T) {
	t.Parallel()
	pool, p := pgtest.DB(t), &phones{Server: robottest.New(t)}
	n := p.to(t, pool, []string{p.Address("wecom"), p.Address("dingtalk") + "&severity=critical"}, nil)
	raise(t, pool, slow, "refund 1", "")
	for i := range 100 {
		raise(t, pool, tooFew, fmt.Sprintf("item %d", i), "")
	}
	round(t, n, 2)
	first := p.Took("wecom")[0].Text
	require.Equal(t, "the storm", strings.HasPrefix(first, "101 alarms, first: [Critical] test-too-few: item 0\n") && strings.Contains(first, "\n[Critical] test-too-few: item 9\nand 91 more\n"), true)
	require.Equal(t, "without warnings", strings.HasPrefix(p.Took("dingtalk")[0].Text, "100 alarms"), true)
	alarm.Unhurried(n, time.Hour, 0)
	raise(t, pool, letter, "x", "")
	round(t, n, 0)
	alarm.Unhurried(n, 0, 0)
	round(t, n, 2)

	pgtest.Exec(t, pool, `UPDATE platform.alarm_messages SET due_at = clock_timestamp()`) // the claims' time is over
	var lasts atomic.Bool
	lasts.Store(true)
	looked := make(chan struct{}, 1)
	stop := watch(t, pool, alarm.Probe{Alarm: fenced, Every: 20 * time.Millisecond, Look: func(context.Context) ([]alarm.Finding, error) {
		select {
		case looked <- struct{}{}:
		default:
		}
		if lasts.Load() {
			return []alarm.Finding{{Subject: "item 7", Detail: "not loaded."}}, nil
		}
		return nil, nil
	}})
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(raised(t, pool, fenced)) == 1 }, "the alarm")
	round(t, n, 2)
	<-looked
	<-looked // so that it has lasted for more than one check
	lasts.Store(false)
	over := func(is bool) func() bool {
		return func() bool {
			return pgtest.Read[bool](t, pool, `SELECT over_at IS NOT NULL FROM platform.alarms WHERE code = 'test-fenced'`) == is
		}
	}
	pgtest.Eventually(t, 30*time.Second, over(true), "the end")
	due := func() { pgtest.Exec(t, pool, `UPDATE platform.alarm_messages SET due_at = clock_timestamp()`) }
	due()
	alarm.Unhurried(n, 0, time.Hour) // it may return
	round(t, n, 0)
	alarm.Unhurried(n, 0, 0)
	round(t, n, 2)
	due()
	round(t, n, 0)
	lasts.Store(true)
	pgtest.Eventually(t, 30*time.Second, over(false), "it returns")
	stop()
	round(t, n, 2)
	took := p.Took("wecom")
	last := took[len(took)-2:]
	if !strings.HasPrefix(last[0].Text, "[Over after ") || last[0].All || !strings.HasPrefix(last[1].Text, "[Back: Critical] test-fenced: item 7") || !last[1].All {
		t.Errorf("said %+v", last)
	}
}

// An address that hangs delays no other, and is an alarm that goes out by the others.
func TestFrozenChannelDelaysNoOther(t *testing.T) {
	t.Parallel()
	pool, p := pgtest.DB(t), &phones{Server: robottest.New(t)}
	release := p.Hang("wecom")
	defer release()
	p.Fail("slack", 502)
	raise(t, pool, tooFew, "item 1", "")
	pgtest.Work(t, p.to(t, pool, p.robots(), nil).Run)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		took := p.Took("dingtalk")
		return len(took) > 1 && strings.Contains(took[len(took)-1].Text, "alarm-webhook-failing: slack-")
	}, "DingTalk says that Slack fails")
	require.Equal(t, "of the one that hangs", len(p.Took("wecom")), 0)
	release()
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(p.Took("wecom")) > 0 }, "and is told when it answers")
}

// A robot that is throttled gets nothing for a minute.
func TestThrottledRobotIsLeftAlone(t *testing.T) {
	t.Parallel()
	pool, p := pgtest.DB(t), &phones{Server: robottest.New(t)}
	n := p.to(t, pool, []string{p.Address("wecom")}, nil)
	for range 20 {
		require.Equal(t, "test", n.Test(t.Context(), httpx.English)[0].OK, true)
	}
	raise(t, pool, tooFew, "item 1", "")
	round(t, n, 1)
	wait := pgtest.Read[float64](t, pool, `SELECT extract(epoch FROM due_at - tried_at) FROM platform.alarm_messages WHERE said = ''`)
	require.Equal(t, "pause of a minute", wait > 59 && wait < 62, true)
}

// A notice goes to people with the warnings. It is no open alarm, and programs that page somebody do not get it.
func TestNoticeIsForPeople(t *testing.T) {
	t.Parallel()
	pool, p, r := pgtest.DB(t), &phones{Server: robottest.New(t)}, newReceiver(t, 0)
	to := []string{p.Address("wecom"), p.Address("dingtalk") + "&severity=critical"}
	n := p.to(t, pool, to, func(s *alarm.Settings) { s.Webhook = alarm.Webhook{URL: r.URL, Secret: secret} })
	raise(t, pool, news, "session 1", "7 sold")
	round(t, n, 1)
	require.Contains(t, "the message", p.Took("wecom")[0].Text, "[Info] test-news: session 1", "7 sold")
	require.Equal(t, "mentions everybody", p.Took("wecom")[0].All, false)
	require.Equal(t, "open alarms", len(list(t, pool, alarm.Filter{Open: true})), 0)
	require.Equal(t, "alarms", len(list(t, pool, alarm.Filter{})), 1)
	pgtest.Exec(t, pool, `UPDATE platform.alarms SET last_seen = last_seen - interval '1 minute'`)
	require.NoError(t, alarm.Publish(t.Context(), pool))
	require.Equal(t, "events", len(published(t, pool)), 0)
}

// Warnings wait for the on-call hours, critical alarms do not.
func TestHours(t *testing.T) {
	t.Parallel()
	pool, p := pgtest.DB(t), &phones{Server: robottest.New(t)}
	now := time.Now().UTC()
	n := p.to(t, pool, []string{p.Address("wecom")}, func(s *alarm.Settings) {
		s.Hours = now.Add(2*time.Hour).Format("15:04") + "-" + now.Add(3*time.Hour).Format("15:04")
	})
	raise(t, pool, slow, "refund 1", "")
	round(t, n, 0)
	raise(t, pool, tooFew, "item 1", "")
	round(t, n, 1)
	require.Equal(t, "told", strings.HasPrefix(p.Took("wecom")[0].Text, "[Critical] test-too-few"), true)

	for _, c := range []struct {
		hours, at string
		in        bool
	}{
		{"09:00-22:00", "09:00", true},
		{"09:00-22:00", "22:00", false},
		{"09:00-22:00", "08:59", false},
		{"22:00-06:00", "23:30", true},
		{"22:00-06:00", "05:59", true},
		{"22:00-06:00", "06:00", false},
		{"00:00-24:00", "23:59", true},
	} {
		at, err := time.Parse("15:04", c.at)
		require.NoError(t, err)
		in, err := alarm.Contain(c.hours, at)
		require.NoError(t, err)
		require.Equal(t, c.at+" in "+c.hours, in, c.in)
	}
	for _, wrong := range []string{"", "9-22", "09:00-24:01", "09:60-22:00", "-9:00-22:00", "09:00-09:00", "09:00-22:00x", "09:00–22:00"} {
		if _, err := alarm.Contain(wrong, now); err == nil || !strings.Contains(err.Error(), "--alarm-hours must be") {
			t.Errorf("hours %q: %v", wrong, err)
		}
	}
}

// Each wrong address is named by its setting and place; a kind that nothing sends is an
// error at the start.
func TestAddressSettings(t *testing.T) {
	t.Parallel()
	set := alarm.Settings{AlarmTo: []string{"wecom://planted", "wecom:/planted", "sms:+8613800138000"}, AlarmThen: []string{"wecom://planted"}, Hours: "09:00-22:00"}
	err := set.Check()
	for _, says := range []string{"--alarm-to must be complete", "(address 2 of 3)", "--alarm-then must have no address that is there already"} {
		require.Equal(t, says, err != nil && strings.Contains(err.Error(), says), true)
	}
	require.Equal(t, "a secret", strings.Contains(fmt.Sprint(err), "planted"), false)
	require.Equal(t, "then alone", strings.Contains(fmt.Sprint(alarm.Settings{AlarmThen: []string{"wecom://k"}, Hours: "09:00-22:00"}.Check()), "without --alarm-to"), true)
	set.AlarmTo, set.AlarmThen = set.AlarmTo[2:], []string{"mailto:boss@example.com"}
	_, err = alarm.NewNotifier(nil, set, alarm.Deps{Log: slog.New(slog.DiscardHandler)})
	for _, says := range []string{"--alarm-to: sms-", "--sms-gateway-url", "--alarm-then: mail-", "--smtp-url"} {
		require.Equal(t, says, err != nil && strings.Contains(err.Error(), says), true)
	}
}

// The test tells each address the same, and says what to do about one that refuses.
func TestTestingAddresses(t *testing.T) {
	t.Parallel()
	p := &phones{Server: robottest.New(t)}
	r := newReceiver(t, 0)
	n := p.to(t, nil, append(p.robots(), p.Via("wecom://gone"), "sms:+8613800138000"), func(s *alarm.Settings) { s.Webhook = alarm.Webhook{URL: r.URL, Secret: secret} })
	var said []string
	for _, one := range n.Test(t.Context(), httpx.Chinese) {
		kind, _, _ := strings.Cut(one.Address, "-")
		said = append(said, fmt.Sprint(kind, " ", one.OK, " ", one.Answer))
		require.Equal(t, one.Address+" says what to do", strings.HasPrefix(one.Next, "机器人已被移出群聊"), !one.OK)
	}
	require.Equal(t, "answers", strings.Join(said, ", "), `webhook true 204, wecom true 0 "ok", dingtalk true 0 "ok", feishu true 0 "ok", slack true 0 "ok", wecom false 93000 "invalid webhook url", sms true accepted`)
	require.Equal(t, "text", strings.HasPrefix(p.Took("slack")[0].Text, "[Warning] alarm-test: test\nAn operator tests"), true)

	one, err := alarm.TestAddress(t.Context(), p.Address("feishu"), "http://127.0.0.1:1", "zh")
	require.NoError(t, err)
	require.Equal(t, "alone", one.OK && strings.HasPrefix(p.Took("feishu")[1].Text, "【注意】alarm-test：test\n有操作员在测试告警渠道"), true)
	_, err = alarm.TestAddress(t.Context(), "sms:+8613800138000", "", "zh")
	require.Equal(t, "a kind that the server sends", strings.Contains(fmt.Sprint(err), "without --to"), true)
}

// A critical alarm is told first, also where more warnings wait than one message is about.
func TestCriticalAlarmDoesNotWaitBehindWarnings(t *testing.T) {
	t.Parallel()
	pool, p := pgtest.DB(t), &phones{Server: robottest.New(t)}
	for i := range 201 {
		raise(t, pool, slow, fmt.Sprintf("refund %d", i), "")
	}
	raise(t, pool, tooFew, "item 1", "")
	round(t, p.to(t, pool, []string{p.Address("wecom")}, nil), 1)
	if said := p.Took("wecom")[0].Text; !strings.HasPrefix(said, "200 alarms, first: [Critical] test-too-few: item 1\n") {
		t.Errorf("told first: %q", said)
	}
}
