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
	known.must(t, "before", 200, "")
	stranger := b.post("login", map[string]any{"phone": "13900139000", "password": secret}, from(rival)) // has a cookie, and has not logged in

	t.Run("wrong passwords from one address", func(t *testing.T) {
		for range 6 {
			b.post("login", map[string]any{"phone": phone, "password": "a wrong password"}, from(rival))
		}
		b.post("login", map[string]any{"phone": phone, "password": secret}, from(rival)).want(t, "the rival", 429, "rate-limited")
		b.post("login", map[string]any{"phone": phone, "password": secret}, from(home)).want(t, "the holder", 200, "")
	})
	t.Run("wrong passwords from many addresses", func(t *testing.T) {
		for n := range 30 {
			b.post("login", map[string]any{"phone": phone, "password": "a wrong password", "device": map[string]any{"id": "made-up"}}, from(fmt.Sprintf("203.0.113.%d", 100+n)))
		}
		b.post("login", right, from("203.0.113.200"), on(stranger)).want(t, "an unknown device", 429, "rate-limited")
		b.post("login", right, from(home), on(known)).want(t, "the holder's device", 200, "")
	})
	t.Run("wrong codes", func(t *testing.T) {
		code := b.code(phone, "login", from(home))
		for n := range 12 {
			b.post("login/sms", map[string]any{"phone": phone, "code": "000000"}, from(fmt.Sprintf("203.0.113.%d", n)))
		}
		b.post("login/sms", map[string]any{"phone": phone, "code": code}, from("203.0.113.50")).want(t, "a sixth guess from elsewhere", 401, "wrong-code")
		b.post("login/sms", map[string]any{"phone": phone, "code": code}, from(home)).want(t, "the holder", 200, "")
	})
	t.Run("codes for other purposes", func(t *testing.T) {
		const other = "13800138099"
		for _, purpose := range []string{"erase", "bind", "reset", "register"} {
			b.post("sms-codes", map[string]any{"phone": other, "purpose": purpose}, from(rival)).must(t, purpose, 202, "")
			b.post("sms-codes", map[string]any{"phone": other, "purpose": purpose}, from(rival)).want(t, fmt.Sprintf("%s again", purpose), 429, "rate-limited")
		}
		b.post("sms-codes", map[string]any{"phone": other, "purpose": "login"}, from(home)).want(t, "the holder", 202, "")
	})
	t.Run("codes for logins", func(t *testing.T) {
		ask := map[string]any{"phone": phone, "purpose": "login"}
		b.post("sms-codes", ask, from(rival)).must(t, "the rival", 429, "rate-limited") // the holder's own of above
		ask["device_id"] = "holders-phone"
		b.post("sms-codes", ask, from(rival), on(stranger)).want(t, "an unknown device", 429, "rate-limited")
		b.post("sms-codes", ask, from(home), on(known)).want(t, "the holder's device", 202, "")
	})
}
