package identity

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/base/clock"
	"stampede/platform/base/config"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/humancheck"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// door is a served instance in which everything is real except the phones.
type door struct {
	*Service
	t   *testing.T
	db  *pgxpool.Pool
	url string
}

func open(t *testing.T, change ...func(*Settings)) *door {
	t.Helper()
	set := config.Defaults[Settings]()
	server := httptest.NewUnstartedServer(nil)
	set.SMS.SandboxSMS, set.Requests.TrustedProxies = true, []string{"127.0.0.1"}
	set.Accounts.Limits, set.Human.AuthHumanCheck = account.Limits{}, humancheck.None
	for _, c := range change {
		c(&set)
	}
	d := &door{t: t, db: pgtest.DB(t), url: server.URL}
	var err error
	d.Service, err = New(set, Deps{
		Addresses: httpx.Addresses{Listen: server.Listener.Addr().String()}, Keep: 90 * 24 * time.Hour,
		DB: d.db, Redis: pgtest.Redis(t), Bus: bustest.Open(t), Clock: clock.System{}, Key: bytes.Repeat([]byte("k"), 32),
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	require.NoError(t, d.Load(t.Context()))
	d.Routes()
	server.Config.Handler = d.Router
	server.Start()
	d.url = server.URL
	for _, w := range d.Workers() {
		pgtest.Work(t, w.Run)
	}
	t.Cleanup(func() {
		if err := d.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return d
}

// told is the answer to a call.
type told struct {
	status int
	raw    string
	Code   string
	ID     string
	Access string `json:"access_token"`
	Fresh  string `json:"refresh_token"`
	User   string `json:"user_id"`
	QR     string `json:"qr_id"`
	Secret string `json:"poll_secret"`
	Scan   string `json:"scan_token"`
	Number int
	Key    string
}

// must ends the test unless the answer has a status.
func (a told) must(t *testing.T, what string, status int) told {
	t.Helper()
	if a.status != status {
		t.Fatalf("%s: %d %s, want %d", what, a.status, a.raw, status)
	}
	return a
}

// call makes a request; header lists names and values alternately.
func (d *door) call(method, path, body string, header ...string) told {
	d.t.Helper()
	a := httpxtest.Send(d.t, http.DefaultClient, method, d.url+"/api/v1/"+path, "", body, header...)
	got := told{status: a.Status, raw: string(a.Raw)}
	if got.raw != "" {
		require.NoError(d.t, json.Unmarshal(a.Raw, &got))
	}
	return got
}

func (d *door) post(path, body string, header ...string) told {
	d.t.Helper()
	return d.call(http.MethodPost, path, body, header...)
}

var digits = regexp.MustCompile(`\b\d{6}\b`)

// code requests a code and reads it from the sandbox's page.
func (d *door) code(phone, purpose string) string {
	d.t.Helper()
	d.post("auth/sms-codes", `{"phone":"`+phone+`","purpose":"`+purpose+`"}`).must(d.t, "code", http.StatusAccepted)
	return digits.FindString(d.sandbox.Messages("+86" + phone)[0].Text)
}

const secret = `"password":"correct horse battery"`

// register creates an account and logs it in on a device.
func (d *door) register(phone, device string) told {
	d.t.Helper()
	return d.post("auth/register", `{"phone":"`+phone+`","code":"`+d.code(phone, "register")+`",`+secret+`,"device":{"id":"`+device+`"}}`).
		must(d.t, "register", http.StatusCreated)
}

// operator calls a route of the blacklist.
func (d *door) operator(method, path, body string) told {
	d.t.Helper()
	token := httpxtest.Token(d.t, d.Tokens, auth.Principal{UserID: 7, Role: auth.Operator})
	got := d.call(method, "admin/blacklist"+path, body, "Authorization", "Bearer "+token)
	if got.status/100 != 2 {
		d.t.Fatalf("%s blacklist%s: %d %s", method, path, got.status, got.raw)
	}
	return got
}

// A listed user who deletes the account does not come back with the same phone, until the
// listing would have ended; others may have the phone of a user who was not listed.
func TestListedUserDoesNotComeBackWithTheSamePhone(t *testing.T) {
	t.Parallel()
	d := open(t)
	for phone, want := range map[string]int{"13800138000": http.StatusForbidden, "13900139000": http.StatusAccepted} {
		user := d.register(phone, "phone-1")
		if want == http.StatusForbidden {
			d.operator(http.MethodPost, "", `{"kind":"user","value":"`+user.User+`","reason":"resells"}`)
		}
		d.call(http.MethodDelete, "me", `{`+secret+`}`, "Authorization", "Bearer "+user.Access).must(t, "delete the account", http.StatusNoContent)
		require.NoError(t, d.Blacklist.Refresh(t.Context()))
		d.post("auth/sms-codes", `{"phone":"`+phone+`","purpose":"register"}`).must(t, "come back as "+phone, want)
	}
}

// A listed user, phone, device or address is refused at every login route, with one
// answer that does not name the entry, and admitted again when the entry is removed.
func TestBlacklistAppliesAtEveryLogin(t *testing.T) {
	t.Parallel()
	d := open(t)
	const phone, device, address = "13800138000", "phone-1", "203.0.113.7"
	in := func(path, more string, header ...string) func() told {
		return func() told { return d.post("auth/"+path, `{"phone":"`+phone+`",`+more+`}`, header...) }
	}
	li := d.register(phone, device)
	bearer := []string{"Authorization", "Bearer " + li.Access}
	asked, claimable := d.post("auth/qr", `{"device":{"kind":"web"}}`), d.post("auth/qr", `{"device":{"kind":"web"}}`)
	scan := d.post("auth/qr/"+claimable.QR+"/scan", "", bearer...)
	number := d.call(http.MethodGet, "auth/qr/"+claimable.QR, "", "QR-Secret", claimable.Secret).Number
	d.post("auth/qr/"+claimable.QR+"/confirm", fmt.Sprintf(`{"scan_token":%q,"number":%d,"refresh_token":%q}`, scan.Scan, number, li.Fresh), bearer...).
		must(t, "confirm", http.StatusNoContent)
	login, register := d.code(phone, "login"), d.code(phone, "register")
	ways := map[string]func() told{
		"code":             in("sms-codes", `"purpose":"login"`),
		"code, from there": in("sms-codes", `"purpose":"login"`, "X-Forwarded-For", address),
		"password":         in("login", secret),
		"password, device": in("login", secret+`,"device":{"id":"`+device+`"}`),
		"password, there":  in("login", secret, "X-Forwarded-For", address),
		"wrong password":   in("login", `"password":"wrong horse battery"`),
		"sms":              in("login/sms", `"code":"`+login+`"`),
		"register":         in("register", `"code":"`+register+`",`+secret),
		"refresh": func() told {
			return d.post("auth/refresh", `{"refresh_token":"`+li.Fresh+`","device_id":"`+device+`"}`)
		},
		"qr ask":              func() told { return d.post("auth/qr", `{"device":{"kind":"web","id":"`+device+`"}}`) },
		"qr ask, from there":  func() told { return d.post("auth/qr", `{"device":{"kind":"web"}}`, "X-Forwarded-For", address) },
		"qr scan":             func() told { return d.post("auth/qr/"+asked.QR+"/scan", "", bearer...) },
		"qr claim":            func() told { return d.call(http.MethodGet, "auth/qr/"+claimable.QR, "", "QR-Secret", claimable.Secret) },
		"code for erasing":    in("sms-codes", `"purpose":"erase"`),
		"another one's phone": func() told { return d.post("auth/sms-codes", `{"phone":"13900139000","purpose":"login"}`) },
	}
	var entries []string
	for _, c := range []struct {
		kind, value string
		refused     []string
	}{
		{"phone", phone, []string{"code", "password", "wrong password", "sms", "register", "refresh", "qr scan", "qr claim"}},
		{"user", li.User, []string{"password", "sms", "refresh", "qr scan", "qr claim"}},
		{"device", device, []string{"password, device", "refresh", "qr ask", "qr scan"}},
		{"address", address, []string{"code, from there", "password, there", "qr ask, from there"}},
	} {
		entry := d.operator(http.MethodPost, "", `{"kind":"`+c.kind+`","value":"`+c.value+`","reason":"resells"}`).ID
		entries = append(entries, entry)
		for _, way := range c.refused {
			if got := ways[way](); got.status != http.StatusForbidden || got.Code != "login-refused" || strings.Contains(got.raw, c.kind) {
				t.Errorf("listed %s, %s: %d %s, want 403 login-refused", c.kind, way, got.status, got.raw)
			}
		}
		for _, way := range []string{"code for erasing", "another one's phone"} {
			ways[way]().must(t, "listed "+c.kind+", "+way, http.StatusAccepted)
		}
		if c.kind == "user" { // only the phone's holder may learn that it is listed
			require.Equal(t, "listed user, wrong password", ways["wrong password"]().Code, "wrong-login")
		}
		d.operator(http.MethodDelete, "/"+entry, "")
	}
	for _, way := range []string{"password", "refresh", "qr scan", "qr claim"} {
		ways[way]().must(t, way+", no longer listed", http.StatusOK)
	}
	for _, entry := range entries {
		var kept []audit.Entry
		pgtest.Eventually(t, 30*time.Second, func() bool {
			var err error
			if kept, err = audit.List(t.Context(), d.db, audit.Filter{Subject: "blacklist " + entry, Action: "blacklist.refuse"}); err != nil {
				t.Fatal(err)
			}
			return len(kept) > 0
		}, "the audit log records a refusal")
		if detail := string(kept[0].Detail); len(kept) != 1 || !strings.Contains(detail, `"way"`) || strings.Contains(detail, phone) {
			t.Errorf("the audit log has %d records, of %s", len(kept), detail)
		}
	}
}

// A key acts as its user, and stops with that.
func TestKeyOfDisabledUserIsRefused(t *testing.T) {
	t.Parallel()
	d := open(t)
	admin := httpxtest.Token(t, d.Tokens, auth.Principal{UserID: 7, Role: auth.Admin})
	made := d.call(http.MethodPost, "admin/api-keys", `{"name":"shop","scopes":["users:exchange"]}`, "Authorization", "Bearer "+admin).must(t, "make a key", http.StatusCreated)
	exchange := func(subject string) told {
		return d.post("auth/exchange-user", `{"subject":"`+subject+`"}`, "Authorization", "Bearer "+made.Key)
	}
	exchange("u-1").must(t, "exchange", http.StatusOK)
	d.post("admin/users/"+made.User+"/disable", `{"reason":"left the shop"}`, "Authorization", "Bearer "+admin).must(t, "disable", http.StatusNoContent)
	exchange("u-2").must(t, "by a disabled user's key", http.StatusForbidden)
}

// A repeated Idempotency-Key adds the entry once and gets the same answer.
func TestAnEntryIsAddedOnceForAKey(t *testing.T) {
	t.Parallel()
	d := open(t)
	token := httpxtest.Token(t, d.Tokens, auth.Principal{UserID: 7, Role: auth.Operator})
	add := func(value string) told {
		return d.post("admin/blacklist", `{"kind":"user","value":"`+value+`","reason":"resells"}`, "Authorization", "Bearer "+token, "Idempotency-Key", "k1")
	}
	first, again, other := add("5"), add("5"), add("6")
	if first.status != http.StatusCreated || again.status != http.StatusCreated || again.raw != first.raw {
		t.Errorf("%d %s, then %d %s", first.status, first.raw, again.status, again.raw)
	}
	require.Equal(t, "another request with the key", other.Code, "idempotency-mismatch")
	kept, err := audit.List(t.Context(), d.db, audit.Filter{Action: "blacklist.add"})
	if err != nil || len(kept) != 1 {
		t.Errorf("%d records, %v", len(kept), err)
	}
}

// A gateway that fails messages to many holds up no login: the codes' breaker is another.
func TestBulkSMSHasABreakerOfItsOwn(t *testing.T) {
	d := open(t, func(set *Settings) {
		set.SMS.SandboxSMS, set.SMS.SMSGatewayURL, set.SMS.SMSGatewaySecret = false, "http://127.0.0.1:1", strings.Repeat("s", sms.MinSecretBytes)
	})
	ended, stop := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer stop()
	for range sms.DefaultGatewayConfig().BreakerFailures {
		require.ErrorIs(t, d.BulkSMS.Send(ended, sms.Message{ID: "1", Phone: "+8613800138000", Text: "…"}), sms.ErrUnavailable)
	}
	require.Equal(t, "available", []bool{d.BulkSMS.(*sms.Gateway).Available(), d.SMS.(*sms.Gateway).Available()}, []bool{false, true})
}
