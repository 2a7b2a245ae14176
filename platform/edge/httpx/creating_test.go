package httpx_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// withoutKey lists the POSTs without an Idempotency-Key, by the reason why a
// repetition is harmless, or why a key would not help.
var withoutKey = map[string][]string{
	"it sets a state, and the repetition finds it set": {
		"publish-activity", "pause-activity", "resume-activity", "terminate-activity", "acknowledge-alarm",
		"disable-user", "enable-user", "end-user-logins", "set-role", "cancel-order", "admin-cancel-order", "admin-close-dispute",
		"logout", "logout-others", "link-wechat", "bind-phone", "activate-coupon-kind", "stop-coupon-kind", "issue-coupons",
	},
	"an order is completed once, and the repetition says that it is":           {"pick-up-order", "complete-order"},
	"a shopper has one per item, which a repetition returns":                   {"reserve-item"},
	"each is a new attempt by design; an unused one expires and holds nothing": {"issue-rush-path"},
	"the path is the key: one path is one attempt":                             {"rush"},
	"the provider's transaction number is the key":                             {"payment-callback", "refund-callback"},
	"a new secret replaces one that was not confirmed":                         {"start-totp"},
	"its input is valid once: a code, a scan token, the old password": {
		"register", "create-first-admin", "login-sms", "login-wechat", "reset-password", "change-password", "scan-qr-login", "confirm-qr-login", "deny-qr-login",
		"confirm-totp", "renew-recovery-codes",
	},
	"a repeated refresh token gets the same successor while the answer may have been lost": {"refresh"},
	"without a login a key would be shared with strangers; a second login or code is harmless, and expires": {
		"login", "ask-qr-login", "send-sms-code",
	},
	"messages keep their ids, so that their effect happens once": {"redrive-dead-letter", "redrive-dead-letters", "redrive-message", "redrive-messages"},
	"it names a state, and the repetition finds it reached":      {"pause-item", "resume-item", "recall-coupon", "recall-coupon-kind"},
	"one runs at a time, and another one proves as much":         {"start-proof"},
	"it stores nothing": {"try-risk-rule", "start-wechat-login"},
	"it settles a movement once, under the provider's number":                       {"compare-statements"},
	"it brings Redis to what Postgres says, and the repetition finds nothing to do": {"reconcile"},
}

// Every POST of the API takes an Idempotency-Key or has a reason not to.
func TestCreatingRequestsTakeAKey(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]struct {
			Post *struct {
				ID         string `json:"operationId"`
				Parameters []struct{ In, Name string }
			}
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for reason, ids := range withoutKey {
		for _, id := range ids {
			why[id] = reason
		}
	}
	for path, on := range doc.Paths {
		if on.Post == nil {
			continue
		}
		takes := slices.ContainsFunc(on.Post.Parameters, func(p struct{ In, Name string }) bool {
			return p.In == "header" && p.Name == "Idempotency-Key"
		})
		reason, excused := why[on.Post.ID]
		delete(why, on.Post.ID)
		switch {
		case !takes && !excused:
			t.Errorf("POST %s (%s) takes no Idempotency-Key: embed idempotency.Header in its input, or say in withoutKey why not", path, on.Post.ID)
		case takes && excused:
			t.Errorf("POST %s (%s) takes an Idempotency-Key, and withoutKey says why it does not: %s", path, on.Post.ID, reason)
		}
	}
	for id, reason := range why {
		t.Errorf("withoutKey names %s, which is no POST of the API: %s", id, reason)
	}
}
