package outbound

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// An address that is not from the settings cannot make the server talk to its own
// network, whatever its name resolves to.
func TestPublicRefusesPrivateAddresses(t *testing.T) {
	t.Parallel()
	control := dialer(true).Control
	for address, want := range map[string]error{
		"93.184.216.34:443": nil, "[2606:2800::1]:443": nil,
		"127.0.0.1:5432": ErrPrivate, "10.0.0.1:80": ErrPrivate, "169.254.169.254:80": ErrPrivate, "[::1]:80": ErrPrivate,
		"[::ffff:192.168.1.1]:80": ErrPrivate, "0.0.0.0:80": ErrPrivate, "[fd00::1]:80": ErrPrivate,
	} {
		if err := control("tcp", address, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", address, err, want)
		}
	}
	own := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(own.Close)
	client := New(Config{Peer: "images", Timeout: 30 * time.Second, Attempts: 1, MaxBytes: 1, Public: true})
	if err := client.Do(t.Context(), Request{URL: own.URL}, func(Reply) error { return nil }); !errors.Is(err, ErrPrivate) {
		t.Errorf("called a private address: %v", err)
	}
}
