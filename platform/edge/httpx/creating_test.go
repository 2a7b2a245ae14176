package httpx_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// withoutKey are the POSTs that take no Idempotency-Key, by why a repetition does no
// harm without one, or why a key could not help.
var withoutKey = map[string][]string{
	"it puts something into a state, and finds it there the second time": {
		"publish-activity", "pause-activity", "resume-activity", "terminate-activity", "acknowledge-alarm",
		"disable-user", "enable-user", "end-user-logins", "set-role", "cancel-order",
		"logout", "logout-others", "link-wechat", "bind-phone",
	},
	"a shopper has one of it for an item, which a repetition gets":                             {"reserve-item"},
	"each is another attempt by design; one that is not used ends by itself and holds nothing": {"issue-rush-path"},
	"the path is the key: one path is one attempt":                                             {"rush"},
	"the provider's own number of the transaction is the key":                                  {"payment-callback", "refund-callback"},
	"what it takes is good once: a code, a token of a scan, the old password": {
		"register", "login-sms", "login-wechat", "reset-password", "change-password", "scan-qr-login", "confirm-qr-login", "deny-qr-login",
	},
	"a refresh token gets the same successor again for as long as an answer may be lost": {"refresh"},
	"nobody is logged in, so that a key would be shared with strangers; a second login or code does no harm, and ends by itself": {
		"login", "ask-qr-login", "send-sms-code",
	},
	"messages keep their ids, so that their effect happens once": {"redrive-dead-letter", "redrive-dead-letters"},
	"it stores nothing": {"try-risk-rule"},
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
