package seckill

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzImageURL checks that a browser only loads an accepted URL and never
// executes it.
func FuzzImageURL(f *testing.F) {
	for _, s := range []string{"", "https://img.example/p.png", "javascript:alert(1)", "HTTPS://h", "//h/p", "http://u@h", "https://h\n", "https://", "/p.png", "/\\h/p", "http://h/p"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !validImage(s) || s == "" {
			return
		}
		u, err := url.Parse(s)
		own := strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") && !strings.HasPrefix(s, `/\`)
		if err != nil || !own && (u.Host == "" || !strings.HasPrefix(strings.ToLower(s), "https://")) {
			t.Errorf("accepted %q", s)
		}
		if strings.ContainsAny(s, "\x00\n\r\t") || len(s) > maxImageURLBytes {
			t.Errorf("accepted %q", s)
		}
	})
}
