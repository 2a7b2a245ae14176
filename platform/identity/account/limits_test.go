package account_test

import (
	"fmt"
	"strings"
	"testing"

	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/humancheck"
	"stampede/platform/workshop/require"
)

// Each limit admits its number of requests, counts its own subject only, and says
// when to retry.
func TestLimits(t *testing.T) {
	t.Parallel()
	login := func(b *bundle, i int, opts ...option) answer {
		return b.post("login", map[string]any{"phone": phoneNo(i), "password": "a wrong password"}, opts...)
	}
	code := func(b *bundle, i int, opts ...option) answer {
		return b.post("sms-codes", map[string]any{"phone": phoneNo(i), "purpose": "login"}, opts...)
	}
	for _, c := range []struct {
		name   string
		limits account.Limits
		call   func(b *bundle, n int) answer // the n-th call of the limited caller
		other  func(b *bundle) answer        // another caller's
		most   int
		rule   string
	}{
		{
			"logins of a phone",
			account.Limits{LoginPerPhone: 1},
			func(b *bundle, n int) answer { return login(b, 1, from(fmt.Sprintf("203.0.113.%d", n))) },
			func(b *bundle) answer { return login(b, 2) }, 4, "login-phone",
		},
		{
			"logins of a phone from an address",
			account.Limits{LoginPerPhone: 5},
			func(b *bundle, _ int) answer { return login(b, 1) },
			func(b *bundle) answer { return login(b, 1, from("203.0.113.10")) }, 5, "login-phone-address",
		},
		{
			"logins of an address",
			account.Limits{LoginPerAddress: 4},
			func(b *bundle, n int) answer { return login(b, n, from("203.0.113.9")) },
			func(b *bundle) answer { return login(b, 1, from("203.0.113.10")) }, 4, "login-address",
		},
		{
			"logins of a /64",
			account.Limits{LoginPerAddress: 4},
			func(b *bundle, n int) answer { return login(b, n, from(fmt.Sprintf("[2001:db8::%d]", n+1))) },
			func(b *bundle) answer { return login(b, 1, from("[2001:db8:0:1::1]")) }, 4, "login-address",
		},
		{
			"codes in a minute",
			account.Limits{SMSPerPhoneHour: 5, SMSPerPhoneDay: 10},
			func(b *bundle, _ int) answer { return code(b, 1) },
			func(b *bundle) answer { return code(b, 2) }, 1, "sms-phone-minute",
		},
		{
			"codes of a phone in a day",
			account.Limits{SMSPerPhoneDay: 3},
			func(b *bundle, _ int) answer { return code(b, 1) },
			func(b *bundle) answer { return code(b, 2) }, 3, "sms-phone-day",
		},
		{
			"codes of an address",
			account.Limits{SMSPerAddress: 6},
			func(b *bundle, n int) answer { return code(b, n, from("203.0.113.9")) },
			func(b *bundle) answer { return code(b, 1, from("203.0.113.10")) }, 6, "sms-address",
		},
		{
			"registrations of an address",
			account.Limits{RegisterPerAddress: 2},
			func(b *bundle, n int) answer {
				return b.post("register", map[string]any{"phone": phoneNo(n), "code": "000000", "password": secret}, from("203.0.113.9"))
			},
			func(b *bundle) answer {
				return b.post("register", map[string]any{"phone": phoneNo(1), "code": "000000", "password": secret}, from("203.0.113.10"))
			}, 2, "register-address",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(cfg *account.Config, _ *deps) { cfg.Limits = c.limits })
			for n := range c.most {
				if a := c.call(b, n); a.status == 429 {
					t.Fatalf("call %d: %s", n+1, a.raw)
				}
			}
			a := c.call(b, c.most)
			if !a.is(429, "rate-limited") || a.header.Get("Retry-After") == "" || a.doc["rule"] != c.rule {
				t.Errorf("call %d: %d %s", c.most+1, a.status, a.raw)
			}
			if a := c.other(b); a.status == 429 {
				t.Errorf("another caller: %s", a.raw)
			}
		})
	}
}

// A first login by code creates an account, and counts as a registration: otherwise
// one person could have as many accounts as codes. Users who have an account are not
// affected, also behind the same address.
func TestAttackAccountsByFirstLogins(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *account.Config, _ *deps) { c.Limits = account.Limits{RegisterPerAddress: 2} })
	login := func(n int, opts ...option) answer {
		return b.post("login/sms", map[string]any{"phone": phoneNo(n), "code": b.code(phoneNo(n), "login")}, opts...)
	}
	for n := range 5 {
		a := login(n, from("203.0.113.9"))
		switch {
		case n < 2 && a.status != 200:
			t.Errorf("account %d: %d %s", n+1, a.status, a.raw)
		case n >= 2 && (!a.is(429, "rate-limited") || a.doc["rule"] != "register-address"):
			t.Errorf("account %d: %d %s", n+1, a.status, a.raw)
		}
	}
	login(1, from("203.0.113.9")).want(t, "a user with an account", 200, "")
	login(3, from("203.0.113.10")).want(t, "another address", 200, "")
}

// A number that SMS are not sent to is refused for every purpose, with or without an
// account, and costs nothing: no message, no code, no limit, no human check.
func TestCodesStayWithinReach(t *testing.T) {
	t.Parallel()
	const known, unknown, near = "+12025550123", "+12025550124", "13800138000"
	limited := func(c *account.Config, d *deps) {
		d.Human.(*human).kind = humancheck.Pow
		c.Limits = account.Limits{SMSPerPhoneHour: 1, SMSPerPhoneDay: 1, SMSPerAddress: 1}
	}
	b := setup(t, limited)
	b.exec(`INSERT INTO account.users (phone) VALUES ($1)`, known)
	for _, purpose := range []string{"login", "register", "reset", "erase", "bind"} {
		var told []string
		for _, p := range []string{known, unknown, "001 202 555 0123"} {
			a := b.post("sms-codes", map[string]any{"phone": p, "purpose": purpose}, header("X-Request-Id", "same"))
			if !a.is(422, "sms-country-refused") || !strings.Contains(a.str("detail"), "+86") {
				t.Errorf("%s, %s: %d %s", p, purpose, a.status, a.raw)
			}
			told = append(told, a.raw)
		}
		require.Equal(t, "the answers for "+purpose, told[0], told[1])
	}
	if n := b.count(`SELECT count(*) FROM account.sms_codes`); n != 0 || len(b.phones.sent) != 0 || len(b.human.asked) != 0 {
		t.Errorf("%d codes stored, %d sent, %d checks required", n, len(b.phones.sent), len(b.human.asked))
	}
	solved := header("Human-Check", "solved")
	b.code(near, "login", solved) // the only code that the limits allow this address

	everywhere := setup(t, limited, func(c *account.Config, _ *deps) { c.SMSReach = sms.Reach{sms.Everywhere} })
	everywhere.code(known, "login", solved)
}

func phoneNo(i int) string { return fmt.Sprintf("138%08d", i) }

// A caller with only the access token can guess the password no faster than one with
// only the phone.
func TestOldPasswordIsLimited(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *account.Config, _ *deps) { c.LoginPerPhone = 3 })
	token := b.register(phone, secret).str("access_token")
	body := map[string]any{"old_password": "a wrong password", "new_password": "battery staple, correct"}
	for n := range 3 {
		b.me("POST", "/password", token, body).want(t, fmt.Sprintf("try %d", n+1), 403, "wrong-password")
	}
	b.me("POST", "/password", token, body).want(t, "the fourth", 429, "rate-limited")
}

// Beyond its budgets a record requires a human check before a limit is used up, a
// harder one with each doubling, and a success clears a phone.
func TestRecordRequiresHumanChecks(t *testing.T) {
	t.Parallel()
	const easiest = humancheck.Easy
	solved := header("Human-Check", "solved")
	b := setup(t, func(c *account.Config, d *deps) {
		d.Human.(*human).kind = humancheck.Pow
		c.Limits = account.Limits{LoginPerPhone: 5}
	})
	b.exec(`INSERT INTO account.users (phone) VALUES ($1)`, "+86"+phone)
	b.post("password/reset", map[string]any{"phone": phone, "code": b.code(phone, "reset", solved), "password": secret})
	level := func() int { return b.human.asked[len(b.human.asked)-1].Level }

	wrong := map[string]any{"phone": phone, "password": "a wrong password"}
	for n := range 3 {
		b.post("login", wrong).want(t, fmt.Sprintf("failure %d", n+1), 401, "wrong-login")
	}
	right := map[string]any{"phone": phone, "password": secret}
	for range 3 { // a required check uses up no limit; the limit is 5
		if a := b.post("login", right); !a.is(403, "human-check-required") || level() != easiest+1 {
			t.Errorf("after three failures: %d %s, level %d", a.status, a.raw, level())
		}
	}
	if sub := b.human.asked[len(b.human.asked)-1]; sub.Purpose != humancheck.PurposeLogin || !sub.Address.IsValid() || sub.User != 0 {
		t.Errorf("human check for %+v", sub)
	}
	b.post("login", right, solved).want(t, "with a solution", 200, "")
	before := len(b.human.asked)
	b.post("login", right)
	require.Equal(t, "checks after a success", len(b.human.asked), before)

	// Failures of an address count across phones, and so do those of a network.
	fails := func(phones int, from option) {
		for n := range phones {
			b.post("login", map[string]any{"phone": phoneNo(n), "password": "a wrong password"}, from, solved)
		}
	}
	const one, of56, of48 = "[2001:db8:0:100::1]", "[2001:db8:0:1ff::1]", "[2001:db8:0:200::1]"
	fails(19, from(one))
	for _, c := range []struct {
		addr  string
		level int // 0: none is required
	}{{one, 1}, {"[2001:db8:0:100::2]", 1}, {of56, 0}, {of48, 0}} {
		a, asked := b.post("login", right, from(c.addr)), b.human.asked
		if c.level == 0 && a.status != 200 || c.level > 0 && (!a.is(403, "human-check-required") || asked[len(asked)-1].Level != easiest+c.level) {
			t.Errorf("%s: %d %s %+v", c.addr, a.status, a.raw, asked[len(asked)-1])
		}
	}
	fails(1, from(of56)) // the twentieth of the /56
	if a := b.post("login", right, from(of56)); !a.is(403, "human-check-required") || level() != easiest+1 {
		t.Errorf("another /64 of the /56: %d %s", a.status, a.raw)
	}
	b.post("login", right, from(of48)).want(t, "another /56 of the /48", 200, "")
	b.post("login", right, from("203.0.113.10")).want(t, "another address", 200, "")
}

// TestAttackCodesOfOneAddress requests codes for ever new phones from one address:
// every code costs work, the work doubles with the record until it is sixteen times as
// much, and other addresses are not affected. Loopback has no record.
func TestAttackCodesOfOneAddress(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *account.Config, d *deps) {
		d.Human.(*human).kind, c.Limits = humancheck.Pow, account.Limits{}
	})
	phones := 0
	level := func(addr string) int {
		t.Helper()
		phones++
		ask := map[string]any{"phone": phoneNo(phones), "purpose": "login"}
		b.post("sms-codes", ask, from(addr)).must(t, "a code without work", 403, "human-check-required")
		b.post("sms-codes", ask, from(addr), header("Human-Check", "solved")).must(t, "a code with work", 202, "")
		return b.human.asked[len(b.human.asked)-1].Level - humancheck.Easy
	}
	want := map[int]int{11: 1, 20: 1, 21: 2, 40: 2, 41: 3, 80: 3, 81: 4, 90: 4}
	for n := 1; n <= 90; n++ {
		if got := level("203.0.113.9"); n <= 10 && got != 0 || want[n] != 0 && got != want[n] {
			t.Errorf("code %d of the address: level %d, want %d", n, got, want[n])
		}
	}
	for _, addr := range []string{"203.0.113.10", "127.0.0.1"} {
		require.Equal(t, "the level of the first code of "+addr, level(addr), 0)
	}
	for n := range 15 {
		require.Equal(t, fmt.Sprintf("the level of code %d of loopback", n+2), level("127.0.0.1"), 0)
	}
	// A phone has a record too, from whatever address.
	ask := map[string]any{"phone": phoneNo(1), "purpose": "login"}
	b.post("sms-codes", ask, from("203.0.113.11"), header("Human-Check", "solved"))
	b.post("sms-codes", ask, from("203.0.113.12"))
	require.Equal(t, "the level of the third code of a phone", b.human.asked[len(b.human.asked)-1].Level-humancheck.Easy, 1)
	// So has a device, from whatever address.
	device := b.post("sms-codes", ask, from("203.0.113.13"))
	for n, want := range []int{0, 0, 0, 1} {
		ask := map[string]any{"phone": phoneNo(300 + n), "purpose": "login"}
		b.post("sms-codes", ask, from(fmt.Sprintf("203.0.113.%d", 100+n)), header("Human-Check", "solved"), on(device))
		require.Equal(t, fmt.Sprintf("the level of code %d of a device", n+1), b.human.asked[len(b.human.asked)-1].Level-humancheck.Easy, want)
	}
	// So does an account that is created by a login.
	for n := range 11 {
		code := b.code(phoneNo(200+n), "login", from(fmt.Sprintf("203.0.113.%d", 60+n)), header("Human-Check", "solved"))
		a := b.post("login/sms", map[string]any{"phone": phoneNo(200 + n), "code": code}, from("203.0.113.50"))
		if n < 10 && a.status != 200 || n == 10 && !a.is(403, "human-check-required") {
			t.Errorf("first login %d: %d %s", n+1, a.status, a.raw)
		}
	}
}

// Without Redis the counts are unknown, and the check is required.
func TestUnknownCountsRequireTheCheck(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *account.Config, d *deps) {
		d.Human.(*human).kind, c.Limits = humancheck.Pow, account.Limits{}
		_ = d.Redis.Close()
	})
	b.post("login", map[string]any{"phone": phone, "password": secret}).want(t, "without a solution", 403, "human-check-required")
	b.post("login", map[string]any{"phone": phone, "password": secret}, header("Human-Check", "solved")).want(t, "with a solution", 401, "wrong-login")
}
