package account_test

import (
	"fmt"
	"testing"

	"stampede/platform/identity/account"
)

// TestAttackLockingARivalOut: what strangers do with a phone's number keeps its holder
// neither from the password nor from a code.
func TestAttackLockingARivalOut(t *testing.T) {
	t.Parallel()
	const home, rival = "198.51.100.7", "203.0.113.9"
	device := map[string]any{"id": "holders-phone"} // which the rival states too
	b := setup(t, func(c *account.Config, _ *deps) {
		c.Limits = account.Limits{LoginPerPhone: 5, SMSPerPhoneHour: 5, SMSPerPhoneDay: 10}
	})
	b.register(phone, secret)
	right := map[string]any{"phone": phone, "password": secret, "device": device}
	known := b.post("login", right, from(home)) // makes the device known
	if known.status != 200 {
		t.Fatalf("before: %d %s", known.status, known.raw)
	}
	stranger := b.post("login", map[string]any{"phone": "13900139000", "password": secret}, from(rival)) // has a cookie, and has not logged in

	t.Run("wrong passwords from one address", func(t *testing.T) {
		for range 6 {
			b.post("login", map[string]any{"phone": phone, "password": "a wrong password"}, from(rival))
		}
		if a := b.post("login", map[string]any{"phone": phone, "password": secret}, from(rival)); !a.is(429, "rate-limited") {
			t.Errorf("the rival: %d %s", a.status, a.raw)
		}
		if a := b.post("login", map[string]any{"phone": phone, "password": secret}, from(home)); a.status != 200 {
			t.Errorf("the holder: %d %s", a.status, a.raw)
		}
	})
	t.Run("wrong passwords from many addresses", func(t *testing.T) {
		for n := range 30 {
			b.post("login", map[string]any{"phone": phone, "password": "a wrong password", "device": map[string]any{"id": "made-up"}}, from(fmt.Sprintf("203.0.113.%d", 100+n)))
		}
		if a := b.post("login", map[string]any{"phone": phone, "password": secret, "device": device}, from("203.0.113.200"), on(stranger)); !a.is(429, "rate-limited") {
			t.Errorf("an unknown device: %d %s", a.status, a.raw)
		}
		if a := b.post("login", right, from(home), on(known)); a.status != 200 {
			t.Errorf("the holder's device: %d %s", a.status, a.raw)
		}
	})
	t.Run("wrong codes", func(t *testing.T) {
		code := b.code(phone, "login", from(home))
		for n := range 12 {
			b.post("login/sms", map[string]any{"phone": phone, "code": "000000"}, from(fmt.Sprintf("203.0.113.%d", n)))
		}
		if a := b.post("login/sms", map[string]any{"phone": phone, "code": code}, from("203.0.113.50")); !a.is(401, "wrong-code") {
			t.Errorf("a sixth guess from elsewhere: %d %s", a.status, a.raw)
		}
		if a := b.post("login/sms", map[string]any{"phone": phone, "code": code}, from(home)); a.status != 200 {
			t.Errorf("the holder: %d %s", a.status, a.raw)
		}
	})
	t.Run("codes for other purposes", func(t *testing.T) {
		const other = "13800138099"
		for _, purpose := range []string{"erase", "bind", "reset", "register"} {
			if a := b.post("sms-codes", map[string]any{"phone": other, "purpose": purpose}, from(rival)); a.status != 202 {
				t.Fatalf("%s: %d %s", purpose, a.status, a.raw)
			}
			if a := b.post("sms-codes", map[string]any{"phone": other, "purpose": purpose}, from(rival)); !a.is(429, "rate-limited") {
				t.Errorf("%s again: %d %s", purpose, a.status, a.raw)
			}
		}
		if a := b.post("sms-codes", map[string]any{"phone": other, "purpose": "login"}, from(home)); a.status != 202 {
			t.Errorf("the holder: %d %s", a.status, a.raw)
		}
	})
	t.Run("codes for logins", func(t *testing.T) {
		ask := map[string]any{"phone": phone, "purpose": "login"}
		if a := b.post("sms-codes", ask, from(rival)); !a.is(429, "rate-limited") { // the holder's own of above
			t.Fatalf("%d %s", a.status, a.raw)
		}
		ask["device_id"] = "holders-phone"
		if a := b.post("sms-codes", ask, from(rival), on(stranger)); !a.is(429, "rate-limited") {
			t.Errorf("an unknown device: %d %s", a.status, a.raw)
		}
		if a := b.post("sms-codes", ask, from(home), on(known)); a.status != 202 {
			t.Errorf("the holder's device: %d %s", a.status, a.raw)
		}
	})
}
