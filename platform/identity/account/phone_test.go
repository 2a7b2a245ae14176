package account_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"stampede/platform/identity/account"
)

func TestParsePhone(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]account.Phone{
		"13800138000": "+8613800138000", "+8613800138000": "+8613800138000", "+86 138-0013-8000": "+8613800138000", "008613800138000": "+8613800138000",
		"+44 (7911) 123456": "+447911123456", "+1 415 555 2671": "+14155552671",
		"": "", "12800138000": "", "1380013800": "", "+8612345678901": "", "+861380013800": "", "+0123456789": "", "+1234567890123456": "",
		"+123456": "", "13800138000x": "", "１３８００１３８０００": "", "+86138001380001": "", "%2B8613800138000": "",
	} {
		got, err := account.ParsePhone(raw)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("ParsePhone(%q) = %q, %v, want %q", raw, got, err, want)
		}
	}
}

func TestPhonesAreMasked(t *testing.T) {
	t.Parallel()
	for phone, want := range map[account.Phone]string{"+8613800138000": "138****8000", "+447911123456": "+44****3456", "+1234567": "+12****4567", "": ""} {
		if got := phone.Masked(); got != want {
			t.Errorf("%q is masked as %q, want %q", string(phone), got, want)
		}
	}
	var out strings.Builder
	slog.New(slog.NewTextHandler(&out, nil)).Info("test", "phone", account.Phone("+8613800138000"))
	if strings.Contains(out.String(), "13800138000") {
		t.Error(out.String())
	}
}

// Every accepted number is in the database's form and parses to itself.
func FuzzParsePhone(f *testing.F) {
	for _, seed := range []string{"13800138000", "+86 138-0013-8000", "0044 7911 123456", "+", "００"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		p, err := account.ParsePhone(raw)
		if err != nil {
			return
		}
		if again, err := account.ParsePhone(string(p)); again != p || err != nil {
			t.Errorf("%q parses as %q, and that as %q, %v", raw, string(p), string(again), err)
		}
		if m := p.Masked(); len(m) != 11 || fmt.Sprint(m) == string(p) {
			t.Errorf("%q is masked as %q", string(p), m)
		}
	})
}
