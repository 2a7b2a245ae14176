package qrlogin

import (
	"strings"
	"testing"

	"stampede/platform/edge/qrcode"
)

// TestTheLongestURLFits: the longest URL that Validate accepts can be drawn.
func TestTheLongestURLFits(t *testing.T) {
	t.Parallel()
	c := DefaultConfig("https://" + strings.Repeat("a", maxURLBytes-len("https://")))
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if _, err := qrcode.PNG((&Service{cfg: c}).url(newID())); err != nil {
		t.Error(err)
	}
	c.BaseURL += "a"
	if err := c.Validate(); err == nil {
		t.Error("a longer URL is accepted")
	}
}
