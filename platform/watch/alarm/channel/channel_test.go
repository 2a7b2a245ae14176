package channel_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stampede/platform/edge/mail"
	"stampede/platform/edge/sms"
	"stampede/platform/watch/alarm/channel"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/robottest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func message() channel.Message {
	return channel.Message{
		ID: "alarm-1", Title: "[Critical] books-broken: item 17", Text: "Units are <at user_id=\"all\">missing & counted.", Link: "https://sale.example.com/admin/alarms?code=books-broken#alarm-1",
		Short: "Critical alarm: books-broken item 17", Template: "alarm", Params: []sms.Param{{Name: "code", Value: "books-broken"}}, Urgent: true,
	}
}

func open(t *testing.T, raw string, deps channel.Deps) *channel.Channel {
	t.Helper()
	a, err := channel.Parse(raw)
	require.NoError(t, err)
	c, err := channel.Open(a, deps)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// Every robot takes a message with its mention, and refuses as the provider does: each
// refusal says what to do, and none repeats the address's secrets.
func TestRobots(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		wrong string // an address that the robot refuses
		says  string // in its answer
	}{
		"wecom":    {"wecom://" + robottest.Token + "x", "93000"},
		"dingtalk": {"dingtalk://" + robottest.Token + "?secret=SECother", "310000"},
		"feishu":   {"feishu://" + robottest.Token, "19021"},
		"slack":    {"slack://" + robottest.Slack + "x", `404 "no_service"`},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := robottest.New(t)
			robot := open(t, s.Address(kind), channel.Deps{})
			refused := func(of *channel.Channel, throttled bool, says string) {
				t.Helper()
				_, err := of.Send(t.Context(), message())
				if err == nil || !strings.Contains(err.Error(), says) || channel.Throttled(err) != throttled || channel.Next(err)[1] == "" {
					t.Errorf("got %v, throttled %v, want %s", err, channel.Throttled(err), says)
				}
				if strings.Contains(fmt.Sprint(err), robottest.Token) || strings.Contains(fmt.Sprint(err), robottest.Slack) || strings.Contains(fmt.Sprint(err), "SEC") {
					t.Errorf("a secret is in %v", err)
				}
			}
			answer, err := robot.Send(t.Context(), message())
			require.NoError(t, err)
			require.Equal(t, "answer", answer, `0 "ok"`)
			calm := message()
			calm.Urgent, calm.Text = false, strings.Repeat("元", 5000)
			_, err = robot.Send(t.Context(), calm)
			require.NoError(t, err)
			took := s.Took(kind)
			require.Equal(t, "mentions", []bool{took[0].All, took[1].All}, []bool{true, false})
			for i, m := range took {
				if !strings.Contains(m.Text, message().Title) || !strings.HasSuffix(m.Text, message().Link) || (kind == "feishu" || kind == "slack") && strings.Contains(m.Text[30:], "<at") || len(m.Text) > 2048 {
					t.Errorf("message %d is %q", i, m.Text)
				}
			}
			refused(open(t, s.Via(c.wrong), channel.Deps{}), false, c.says)
			s.Fail(kind, http.StatusBadGateway)
			refused(robot, false, "502")
			s.Fail(kind, 0)
			for range 16 {
				_, err := robot.Send(t.Context(), message())
				require.NoError(t, err)
			}
			refused(robot, true, "later")
			release := s.Hang(kind)
			defer release()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := robot.Send(ctx, message()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a robot that hangs gives %v", err)
			}
		})
	}
}

// What stands between a robot and this server may answer with the address that it was called at. It stays secret.
func TestAnswersRepeatNoSecret(t *testing.T) {
	t.Parallel()
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "Cannot POST "+r.URL.String(), http.StatusNotFound)
	}))
	t.Cleanup(echo.Close)
	for _, raw := range []string{"wecom://planted-1", "dingtalk://planted-1?secret=SECplanted", "feishu://planted-1", "slack://T01/B02/planted1"} {
		sep := map[bool]string{true: "&", false: "?"}[strings.Contains(raw, "?")]
		answer, err := open(t, raw+sep+"via="+echo.URL, channel.Deps{}).Send(t.Context(), message())
		if err == nil || !strings.Contains(answer, "Cannot POST") || strings.Contains(answer+err.Error(), "planted") {
			t.Errorf("%s: answer %s, error %v", raw, answer, err)
		}
	}
}

// mails is a mail server that takes or refuses.
type mails struct {
	got []mail.Message
	err error
}

func (m *mails) Send(_ context.Context, one mail.Message) error {
	m.got = append(m.got, one)
	return m.err
}

// texting is what sends SMS.
type texting func(m sms.Message) error

func (f texting) Send(_ context.Context, m sms.Message) error { return f(m) }

func TestMailAndSMS(t *testing.T) {
	t.Parallel()
	var box mails
	var texts []sms.Message
	deps := channel.Deps{Mail: &box, SMS: texting(func(m sms.Message) error { texts = append(texts, m); return box.err })}
	for _, raw := range []string{"mailto:ops@example.com?severity=critical", "sms:+8613800138000"} {
		c := open(t, raw, deps)
		require.Equal(t, "critical only", c.CriticalOnly, strings.Contains(raw, "critical"))
		_, err := c.Send(t.Context(), message())
		require.NoError(t, err)
		box.err = mail.ErrRefused
		_, err = c.Send(t.Context(), message())
		require.ErrorIs(t, err, mail.ErrRefused)
		require.Equal(t, "what to do", channel.Next(err), mail.ErrRefused.Next)
		box.err = nil
		a, err := channel.Parse(raw)
		require.NoError(t, err)
		_, err = channel.Open(a, channel.Deps{})
		if err == nil || !strings.Contains(err.Error(), "--sm") || strings.Contains(err.Error(), "ops@") || strings.Contains(err.Error(), "138") {
			t.Errorf("without a sender: %v", err)
		}
	}
	require.Equal(t, "mail", fmt.Sprint(box.got[0].ID, " ", box.got[0].To, " ", box.got[0].Subject), "alarm-1 ops@example.com "+message().Title)
	require.Equal(t, "mail's text", box.got[0].Text, message().Text+"\n\n"+message().Link+"\n")
	require.Equal(t, "SMS", texts[0], sms.Message{ID: "alarm-1", Phone: "+8613800138000", Text: message().Short, Template: "alarm", Params: message().Params})
}

// A wrong address is named by its kind and repeated nowhere.
func TestWrongAddresses(t *testing.T) {
	t.Parallel()
	for raw, says := range map[string]string{
		"planted": "such as", "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=planted": "such as", "wecom://": "complete", "wecom://planted/x": "complete",
		"wecom://planted?secret=x": "signs nothing", "slack://T1/planted": "complete", "slack://T1/B1/planted?via=http://10.0.0.1": "via=https",
		"dingtalk://planted?secret=a&b": "%26", "mailto:planted": "complete", "mailto:Ops <planted@example.com>": "complete", "mailto:planted@example.com?via=https://x.example": "for a robot only",
		"sms:13800138000": "complete", "feishu://planted?severity=high": "severity=critical", "wecom://u:planted@x": "such as",
	} {
		_, err := channel.Parse(raw)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	one, err := channel.Parse("lark://abc-1_2?secret=x%26y")
	require.NoError(t, err)
	two, err := channel.Parse("feishu://abc-1_2")
	require.NoError(t, err)
	if one.Name == two.Name || !strings.HasPrefix(one.Name, "lark-") || strings.Contains(one.Name, "abc") {
		t.Errorf("names %s, %s", one.Name, two.Name)
	}
}
