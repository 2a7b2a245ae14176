package account_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/code"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// TestAttackSMSBudget requests codes for ever new phones at two instances until the
// shop's ceiling. Above it only staff get a login code, once, and the answer tells a
// stranger nothing about a phone.
func TestAttackSMSBudget(t *testing.T) {
	t.Parallel()
	const staff, most = "13900139000", 20
	rdb := pgtest.Redis(t)
	limits := func(rdb *redis.Client) *ratelimit.Limiter {
		return ratelimit.New(rdb, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	}
	instance := func(change ...func(*account.Config, *deps)) *bundle {
		return setup(t, append([]func(*account.Config, *deps){func(c *account.Config, d *deps) {
			c.Limits, d.Limits = account.Limits{SMSPerHour: most}, limits(rdb)
		}}, change...)...)
	}
	b := instance()
	other := instance(func(_ *account.Config, d *deps) { d.DB, d.SMS = b.pool, b.phones })
	li := b.register(phone, secret)
	b.exec(`INSERT INTO account.users (phone, role) VALUES ($1, 'operator')`, "+86"+staff)
	cookies := map[string]option{
		"li's":    on(b.post("login", map[string]any{"phone": phone, "password": secret})),
		"another": on(b.post("login", map[string]any{"phone": phoneNo(99), "password": secret})),
		"":        on(answer{}),
	}
	asks := func(at *bundle, phone, device string) answer {
		return at.post("sms-codes", map[string]any{"phone": phone, "purpose": "login"}, cookies[device])
	}
	raised := func(when string, want ...*alarm.Definition) {
		t.Helper()
		var got []*alarm.Definition
		for _, p := range b.codes.Probes() {
			found, err := p.Look(t.Context())
			require.NoError(t, err)
			if len(found) > 0 {
				got = append(got, p.Alarm)
			}
		}
		if len(got) != len(want) || len(got) > 0 && got[0] != want[0] {
			t.Errorf("%s: %d alarms, want %d", when, len(got), len(want))
		}
	}
	sends := func(when string, want int) {
		t.Helper()
		require.NoError(t, b.codes.SendDue(t.Context()))
		require.Equal(t, "SMS "+when, len(b.phones.all()), want)
	}

	raised("at first")
	for n := 1; n < most; n++ {
		asks([]*bundle{other, b}[n%2], phoneNo(n), "").must(t, fmt.Sprintf("code %d", n), 202, "")
	}
	raised("near the ceiling", code.SMSNearCeiling)
	refused := map[string]string{}
	for _, c := range []struct {
		at            *bundle
		phone, device string
	}{{b, phoneNo(90), ""}, {other, phoneNo(91), "another"}, {b, phone, "li's"}, {b, staff, ""}, {other, staff, "another"}} {
		a := asks(c.at, c.phone, c.device)
		if !a.is(503, "sms-ceiling") || a.header.Get("Retry-After") == "" {
			t.Errorf("%s from %q: %d %s", c.phone, c.device, a.status, a.raw)
		}
		refused[regexp.MustCompile(`"request_id":"[^"]*"`).ReplaceAllString(a.raw, "")] = c.phone
	}
	if len(refused) != 1 {
		t.Errorf("the answers differ: %v", refused)
	}
	raised("at the ceiling", code.SMSCeiling, code.SMSNearCeiling)

	b.admin(auth.Admin, http.MethodPost, "/"+li.str("user_id")+"/role", map[string]any{"role": "viewer"}).must(t, "role", 204, "")
	sends("with the code for staff", most+1)
	b.post("login/sms", map[string]any{"phone": staff, "code": b.phones.code(t, staff)}).want(t, "staff", 200, "")
	sends("above the ceiling", most+1)
	require.Equal(t, "notes that wait", b.count(`SELECT count(*) FROM account.notes WHERE about = 'role' AND attempts = 0`), 1)

	b.exec(`UPDATE account.notes SET next_try = now()`)
	anHourLater := instance(func(_ *account.Config, d *deps) {
		d.DB, d.SMS, d.Limits = b.pool, b.phones, limits(pgtest.Redis(t))
	})
	require.NoError(t, anHourLater.codes.SendDue(t.Context()))
	if !slices.ContainsFunc(b.phones.all(), func(m sms.Message) bool {
		return m.Text == sms.NoteMessage("Stampede", sms.NoteRole, httpx.Chinese).Text
	}) {
		t.Errorf("the note that waited is not sent: %v", b.phones.all())
	}
}
