package qrlogin

import (
	"testing"

	"stampede/platform/edge/httpx"
	"stampede/platform/edge/qrcode"
)

// TestTheLongestURLFits: the longest URL that the settings accept can be drawn.
func TestTheLongestURLFits(t *testing.T) {
	t.Parallel()
	a := httpx.Addresses{Listen: ":1", OpsListen: ":2", PublicURL: "https://"}
	for a.Check() == nil || len(a.PublicURL) < len("https://a") {
		a.PublicURL += "a"
	}
	longest := a.PublicURL[:len(a.PublicURL)-1]
	if _, err := qrcode.PNG((&Service{cfg: DefaultConfig(longest)}).url(newID())); err != nil || len(longest) != 200 {
		t.Errorf("%d bytes: %v", len(longest), err)
	}
}
