package password

import (
	_ "embed" // the list of common passwords
	"strings"
	"unicode"

	"stampede/platform/base/fault"
)

// Lengths of a password in bytes. Eight characters are NIST's minimum (SP 800-63B);
// 128 bytes fit any passphrase and keep requests small.
const (
	leastBytes = 8
	mostBytes  = 128
)

//go:embed common.txt
var commonText string

var common = func() map[string]bool {
	set := map[string]bool{}
	for line := range strings.Lines(commonText) {
		set[strings.TrimSpace(line)] = true
	}
	return set
}()

var errWeak = fault.New(fault.Invalid, "weak-password", fault.Titles{"Choose a stronger password", "密码强度不足"}, "Choose another password.")

// Accept returns nil for a password that may be set, else a fault "weak-password"
// that gives the reason. known are texts that other people know about the user: the
// phone, the name.
func Accept(password string, known ...string) error {
	folded := strings.ToLower(password)
	switch {
	case len(password) < leastBytes || len(password) > mostBytes:
		return errWeak.Saying("A password has 8 to 128 bytes.")
	case strings.Count(password, password[:1]) == len(password):
		return errWeak.Saying("This password is one character repeated. Choose another.")
	case common[folded]:
		return errWeak.Saying("This password is one of the most common ones, which are tried first. Choose another.")
	}
	for _, k := range known {
		if k = strings.ToLower(strings.TrimSpace(k)); k == "" {
			continue
		}
		// A number also counts without its country code.
		if folded == k || digits(password) != "" && strings.HasSuffix(digits(k), digits(password)) && onlyDigits(password) {
			return errWeak.Saying("A password must not be the phone number or the name. Choose another.")
		}
	}
	return nil
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}

// onlyDigits allows the plus sign and separators that people write in a number.
func onlyDigits(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsDigit(r) && !strings.ContainsRune("+- ()", r) }) < 0
}
