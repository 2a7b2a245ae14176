package httpx

import "testing"

func TestOnlyHere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listen, public string
		want           bool
	}{
		{"127.0.0.1:8080", "", false},
		{"localhost:8080", "", false},
		{"192.0.2.1:8080", "", false},
		{":8080", "https://sale.example.com", false},
		{"127.0.0.1:8080", "http://127.0.0.1:8080", false},
		{":8080", "", true},
		{"0.0.0.0:8080", "", true},
		{"[::]:8080", "", true},
		{":8080", "http://localhost:8080", true},
		{"192.0.2.1:8080", "http://[::1]:8080", true},
	} {
		if got := (Addresses{Listen: c.listen, PublicURL: c.public}).OnlyHere(); got != c.want {
			t.Errorf("listening on %s, public URL %q: %v", c.listen, c.public, got)
		}
	}
}
