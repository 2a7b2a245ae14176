package httpx_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"

	"stampede/platform/workshop/require"
)

type (
	operation struct {
		ID         string `json:"operationId"`
		Parameters []parameter
	}
	parameter struct{ In, Name string }
)

// document returns the committed document's operations by path and method, and its schemas.
func document(t *testing.T) (paths map[string]map[string]operation, schemas map[string]any) {
	t.Helper()
	raw, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]any }
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	return doc.Paths, doc.Components.Schemas
}

// A client generated from the document has names for the things, not for the Go
// types behind them: none with an inner type's ending, or with the number that huma
// appends to a duplicate.
func TestDocumentNamesAreForClients(t *testing.T) {
	t.Parallel()
	paths, schemas := document(t)
	inner := regexp.MustCompile(`(Body|View|Document|Struct|Input|Output|[0-9])$`)
	for name := range schemas {
		if inner.MatchString(name) {
			t.Errorf("the schema %s needs a name for clients: name its type, or give its field the tag nameHint", name)
		}
	}
	word := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	first := map[string]string{}
	for path, on := range paths {
		for method, op := range on {
			if other := first[op.ID]; other != "" || !word.MatchString(op.ID) {
				t.Errorf("%s %s has the operationId %q, as has %q", method, path, op.ID, other)
			}
			first[op.ID] = method + " " + path
		}
	}
}

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
	paths, _ := document(t)
	why := map[string]string{}
	for reason, ids := range withoutKey {
		for _, id := range ids {
			why[id] = reason
		}
	}
	for path, on := range paths {
		post, creates := on["post"]
		if !creates {
			continue
		}
		takes := slices.ContainsFunc(post.Parameters, func(p parameter) bool {
			return p.In == "header" && p.Name == "Idempotency-Key"
		})
		reason, excused := why[post.ID]
		delete(why, post.ID)
		switch {
		case !takes && !excused:
			t.Errorf("POST %s (%s) takes no Idempotency-Key: embed idempotency.Header in its input, or say in withoutKey why not", path, post.ID)
		case takes && excused:
			t.Errorf("POST %s (%s) takes an Idempotency-Key, and withoutKey says why it does not: %s", path, post.ID, reason)
		}
	}
	for id, reason := range why {
		t.Errorf("withoutKey names %s, which is no POST of the API: %s", id, reason)
	}
}
