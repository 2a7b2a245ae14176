package config_test

import (
	"strings"
	"testing"
	"time"

	"stampede/platform/httpx"
	"stampede/platform/ratelimit"
)

func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	s, _, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	paths := s.Paths()
	if want := (httpx.Limit{Rule: ratelimit.Rule{Name: "rush-path", Count: 5, Per: time.Minute}, Of: httpx.OfUser}); paths[0] != want {
		t.Errorf("paths of a user: %+v, want %+v", paths[0], want)
	}
	if paths[1].On() || paths[1].Of != httpx.OfAddress {
		t.Errorf("paths of an address: %+v, want no limit: a mobile network has few addresses", paths[1])
	}
	if s.RushesPerSecond != 10 || s.Bounds() != (httpx.Bounds{InFlight: 1024, OfRoute: 256}) || len(s.TrustedProxies) != 0 {
		t.Errorf("%+v", s.Limits)
	}
	for _, l := range paths {
		if err := l.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestWrongLimitsAreNamed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--trusted-proxies=proxy.example": "--trusted-proxies must be networks such as 10.0.0.0/8",
		"--proxy-header=X-Real-IP":        "--proxy-header must be one of",
		"--paths-per-minute=-1":           "--paths-per-minute must be between",
		"--max-in-flight=2000000":         "--max-in-flight must be between",
		"--rushes-per-second=1001":        "--rushes-per-second must be between",
	} {
		if _, _, err := parse(t, args); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	if s, _, err := parse(t, "--trusted-proxies=10.0.0.0/8,2001:db8::1"); err != nil || len(s.TrustedProxies) != 2 {
		t.Errorf("%v, %v", s.TrustedProxies, err)
	}
}
