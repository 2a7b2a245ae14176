package sms_test

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/outbound"
	"stampede/platform/edge/sms"
	"stampede/platform/edge/sms/aliyun"
	"stampede/platform/edge/sms/tencent"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/smstest"
)

// provider is a sender of each kind with its stand-in, and how it differs.
type provider struct {
	standin func(testing.TB, func() time.Time) *smstest.Server
	sender  func(*testing.T, *smstest.Server, sms.Settings, *slog.Logger) sms.Sender
	phone   string // as the stand-in gets it
	prefix  string // of template ids
	// blacklisted is the result for a number on the blacklist.
	blacklisted error
	// deduplicates is whether it sends a message once that it gets twice.
	deduplicates bool
}

// providers are the senders that the suite covers.
var providers = map[string]provider{
	"gateway": {
		standin: smstest.Gateway, phone: "+8613800138000", blacklisted: sms.ErrRefused, deduplicates: true,
		sender: func(t *testing.T, srv *smstest.Server, set sms.Settings, log *slog.Logger) sms.Sender {
			t.Helper()
			cfg := sms.DefaultGatewayConfig()
			cfg.URL, cfg.Secret, cfg.Backoff, cfg.Timeout = srv.URL, []byte(set.SMSGatewaySecret), time.Millisecond, time.Second
			g := sms.NewGateway(cfg, time.Now, log)
			t.Cleanup(g.CloseIdleConnections)
			return g
		},
	},
	sms.Tencent: {
		standin: smstest.Tencent, phone: "+8613800138000", prefix: "id-of-", blacklisted: sms.ErrRefused,
		sender: func(t *testing.T, _ *smstest.Server, set sms.Settings, log *slog.Logger) sms.Sender {
			t.Helper()
			set.SMSAppID = smstest.AppID
			cfg := within(t, set)
			s, err := tencent.New(cfg, time.Now, log)
			require.NoError(t, err)
			t.Cleanup(s.CloseIdleConnections)
			return s
		},
	},
	sms.Aliyun: {
		standin: smstest.Aliyun, phone: "13800138000", prefix: "id-of-",
		sender: func(t *testing.T, _ *smstest.Server, set sms.Settings, log *slog.Logger) sms.Sender {
			t.Helper()
			s, err := aliyun.New(within(t, set), time.Now, log)
			require.NoError(t, err)
			t.Cleanup(s.CloseIdleConnections)
			return s
		},
	},
}

// within returns what valid settings say, with a short time-out.
func within(t *testing.T, set sms.Settings) sms.ProviderConfig {
	t.Helper()
	require.NoError(t, set.Check())
	cfg := set.Provider()
	cfg.Timeout = time.Second
	return cfg
}

// settings are those of a provider; every template has an id.
func settings(name, url string) sms.Settings {
	set := sms.Settings{
		SMSProvider: name, SMSGatewayURL: url, SMSKeyID: smstest.KeyID, SMSGatewaySecret: smstest.Secret,
		SMSSignature: smstest.Signature, SMSCountries: []string{"+86"},
	}
	for _, key := range slices.Sorted(maps.Keys(sms.Templates())) {
		set.SMSTemplates = append(set.SMSTemplates, key+"=id-of-"+key)
	}
	return set
}

// conform runs a case against every sender with a stand-in of its own.
func conform(t *testing.T, change func(*sms.Settings), do func(*testing.T, provider, *smstest.Server, sms.Sender, *bytes.Buffer)) {
	t.Helper()
	for name, p := range providers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := p.standin(t, time.Now)
			for key, template := range sms.Templates() {
				srv.Approved[p.prefix+key] = template.Params
			}
			set, log := settings(name, srv.URL), &bytes.Buffer{}
			if change != nil {
				change(&set)
			}
			do(t, p, srv, p.sender(t, srv, set, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))), log)
		})
	}
}

func codeMessage() sms.Message {
	m := sms.CodeMessage(smstest.Signature, sms.ForLogin, "731902", httpx.Chinese)
	m.ID, m.Phone = "0198f2c8b5d07c3e", "+8613800138000"
	return m
}

// A message arrives with the id of its template and what it says to its reader; one in
// English has the Chinese text where there is no other.
func TestConformMessageArrives(t *testing.T) {
	t.Parallel()
	conform(t, nil, func(t *testing.T, p provider, srv *smstest.Server, s sms.Sender, _ *bytes.Buffer) {
		t.Helper()
		require.NoError(t, s.Send(t.Context(), codeMessage()))
		require.Equal(t, "sent", srv.Sent(), []smstest.Sent{{ID: "0198f2c8b5d07c3e", Phone: p.phone, Template: p.prefix + "code-login", Values: []string{"731902"}}})
		note := sms.NoteMessage(smstest.Signature, sms.NoteRole, httpx.Chinese)
		note.ID, note.Phone = "2", "+8613900139000"
		require.NoError(t, s.Send(t.Context(), note))
		odd := codeMessage()
		odd.ID, odd.Phone, odd.Params[0].Value = "3", "+8613700137000", "a b*~+&=%\"券\\"
		require.NoError(t, s.Send(t.Context(), odd))
		require.Equal(t, "messages", len(srv.Sent()), 3)
		require.Equal(t, "value", srv.Sent()[2].Values[0], odd.Params[0].Value)
	})
}

// The result of each fault, with the provider's code in the log and without the phone and the
// text; only the gateway, which recognizes a message, gets it twice.
func TestConformFaults(t *testing.T) {
	t.Parallel()
	for f, want := range map[smstest.Fault]struct {
		err     error
		unclear bool
		calls   int // of the gateway
	}{
		smstest.NumberLimit: {sms.ErrUnavailable, false, 2},
		smstest.Blacklisted: {sms.ErrRefused, false, 1},
		smstest.BadNumber:   {sms.ErrRefused, false, 1},
		smstest.Balance:     {sms.ErrUnavailable, false, 2},
		smstest.Template:    {sms.ErrUnavailable, false, 2},
		smstest.Busy:        {sms.ErrUnavailable, false, 2},
		smstest.Internal:    {sms.ErrUnavailable, true, 2},
		smstest.Breaks:      {sms.ErrUnavailable, true, 2},
		smstest.Hangs:       {sms.ErrUnavailable, true, 2},
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			conform(t, nil, func(t *testing.T, p provider, srv *smstest.Server, s sms.Sender, log *bytes.Buffer) {
				t.Helper()
				srv.Fail(f)
				expect := want.err
				if f == smstest.Blacklisted {
					expect = p.blacklisted
				}
				if p.deduplicates && (f == smstest.Breaks || f == smstest.Hangs) {
					expect = nil // the second attempt finds the message sent
				}
				err := s.Send(t.Context(), codeMessage())
				if !errors.Is(err, expect) || errors.Is(err, outbound.ErrUnclear) != (want.unclear && !p.deduplicates) {
					t.Errorf("%v, want %v; unclear %v", err, expect, errors.Is(err, outbound.ErrUnclear))
				}
				if calls := srv.Calls(); p.deduplicates && calls != want.calls || !p.deduplicates && calls != 1 {
					t.Errorf("%d calls", calls)
				}
				for _, secret := range []string{"731902", "13800138000", smstest.Secret, smstest.KeyID} {
					if strings.Contains(log.String(), secret) || err != nil && strings.Contains(err.Error(), secret) {
						t.Errorf("%s is in the log or the error: %v\n%s", secret, err, log.String())
					}
				}
				if err != nil && !strings.Contains(log.String(), "0198f2c8b5d07c3e") {
					t.Errorf("the log does not name the message:\n%s", log.String())
				}
			})
		})
	}
}

// The limit of one number, and what one message lacks, do not keep others waiting.
func TestConformOthersGoOn(t *testing.T) {
	t.Parallel()
	conform(t, nil, func(t *testing.T, p provider, _ *smstest.Server, s sms.Sender, log *bytes.Buffer) {
		t.Helper()
		for i := range 8 {
			m := codeMessage()
			m.ID += string(rune('a' + i))
			if err := s.Send(t.Context(), m); i > 0 && !errors.Is(err, sms.ErrUnavailable) || i == 0 && err != nil {
				t.Fatalf("message %d to one number: %v", i, err)
			}
			if p.deduplicates && i == 1 {
				break // an own gateway says with its status that it is busy
			}
		}
		m := codeMessage()
		m.ID, m.Phone = "other", "+8613900139000"
		require.NoError(t, s.Send(t.Context(), m))
		if !p.deduplicates {
			require.Contains(t, "log", log.String(), map[bool]string{true: "PhoneNumberThirtySecondLimit", false: "isv.BUSINESS_LIMIT_CONTROL"}[p.phone[0] == '+'])
		}
	})
}

// A wrong secret, and a signature whose time is over, send nothing.
func TestConformSignatures(t *testing.T) {
	t.Parallel()
	wrong := func(set *sms.Settings) { set.SMSGatewaySecret = strings.Repeat("x", 32) }
	conform(t, wrong, func(t *testing.T, _ provider, srv *smstest.Server, s sms.Sender, _ *bytes.Buffer) {
		t.Helper()
		if err := s.Send(t.Context(), codeMessage()); err == nil || len(srv.Sent()) != 0 {
			t.Errorf("a wrong secret: %v, sent %v", err, srv.Sent())
		}
	})
	for name, p := range providers {
		t.Run("late at "+name, func(t *testing.T) {
			t.Parallel()
			srv := p.standin(t, func() time.Time { return time.Now().Add(20 * time.Minute) })
			s := p.sender(t, srv, settings(name, srv.URL), slog.New(slog.DiscardHandler))
			if err := s.Send(t.Context(), codeMessage()); err == nil || len(srv.Sent()) != 0 {
				t.Errorf("a late signature: %v, sent %v", err, srv.Sent())
			}
		})
	}
}

// A text that has no id is refused without a call, and the log names it.
func TestTextWithoutID(t *testing.T) {
	t.Parallel()
	for _, name := range []string{sms.Tencent, sms.Aliyun} {
		p := providers[name]
		srv := p.standin(t, time.Now)
		log := &bytes.Buffer{}
		s := p.sender(t, srv, settings(name, srv.URL), slog.New(slog.NewTextHandler(log, nil)))
		m := codeMessage()
		m.Template = "reminder"
		require.ErrorIs(t, s.Send(t.Context(), m), sms.ErrRefused)
		require.Equal(t, "calls", srv.Calls(), 0)
		require.Contains(t, "log", log.String(), "--sms-templates", "reminder")
	}
}

// Which id a message gets.
func TestTemplateIDs(t *testing.T) {
	t.Parallel()
	ids := sms.TemplateIDs{"code-login": "zh", "code-login.en": "en", "code-reset": "zh"}
	for _, c := range [][3]string{
		{"code-login", "+8613800138000", "zh"},
		{"code-login.en", "+8613800138000", "en"},
		{"code-login", "+85251234567", "en"},
		{"code-reset.en", "+8613800138000", "zh"},
		{"code-bind", "+8613800138000", ""},
		{"SMS_123456", "+8613800138000", "SMS_123456"},
	} {
		require.Equal(t, c[0]+" to "+c[1], ids.Of(sms.Message{Template: c[0], Phone: c[1]}), c[2])
	}
	m := sms.CodeMessage("Stampede", sms.ForReset, "{code}", httpx.English)
	require.Equal(t, "template", m.Template, "code-reset.en")
	require.Equal(t, "text", m.Text, "[Stampede] {code} is your code for resetting your password. It is valid for 5 minutes. Do not share it with anyone, not even our staff.")
}

// A template that does not fit its text is a mistake of the program.
func TestRegister(t *testing.T) {
	t.Parallel()
	text := fault.Text{"{a} and {b}", "{a}和{b}"}
	for what, template := range map[string]sms.Template{
		"a key that is taken": {Key: "code-login", Params: []string{"a", "b"}, Text: text},
		"another order":       {Key: "test-order", Params: []string{"b", "a"}, Text: text},
		"a name that is not":  {Key: "test-name", Params: []string{"c"}, Text: text},
	} {
		require.Panics(t, what, func() { sms.Register(template) })
	}
}

// Which settings are refused; the ids that are missing are all named.
func TestProviderSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		provider string
		change   func(*sms.Settings)
		want     []string
	}{
		{sms.Aliyun, func(*sms.Settings) {}, nil},
		{sms.Tencent, func(s *sms.Settings) { s.SMSAppID, s.SMSGatewayURL = "1400", "" }, nil},
		{sms.Tencent, func(*sms.Settings) {}, []string{"--sms-app-id and --sms-provider=tencent belong together"}},
		{sms.Aliyun, func(s *sms.Settings) { s.SMSKeyID = "" }, []string{"needs its API key: --sms-key-id and --sms-gateway-secret"}},
		{sms.Aliyun, func(s *sms.Settings) { s.SandboxSMS = true }, []string{"exclude each other"}},
		{sms.Aliyun, func(s *sms.Settings) { s.SMSGatewayURL = "http://sms.example.com" }, []string{"https://"}},
		{sms.Aliyun, func(s *sms.Settings) { s.SMSTemplates = []string{"code-login=1"} }, []string{
			"code-bind, code-erase, code-register, code-reset, note-access, note-device, note-factor, note-password, note-role: register",
		}},
		{sms.Aliyun, func(s *sms.Settings) { s.SMSTemplates = append(s.SMSTemplates, "code-logn=1") }, []string{`"code-logn" is none of code-bind`}},
		{sms.Aliyun, func(s *sms.Settings) { s.SMSTemplates = append(s.SMSTemplates, "code-login=2") }, []string{"must give one id for code-login"}},
		{"gateway", func(s *sms.Settings) { s.SMSTemplates = nil }, []string{"is a provider's: give --sms-provider=tencent or aliyun"}},
	} {
		set := settings(c.provider, "https://sms.example.com")
		c.change(&set)
		err := set.Check()
		if c.want == nil {
			require.NoError(t, err)
			continue
		}
		if err == nil {
			t.Errorf("%+v is accepted", set)
			continue
		}
		require.Contains(t, "error", err.Error(), c.want...)
	}
}
