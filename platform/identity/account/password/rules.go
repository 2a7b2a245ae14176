package password

import (
	"bytes"
	"compress/gzip"
	_ "embed" // the lists of common passwords
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"stampede/platform/base/fault"
)

// Lengths of a password in characters, which are up to four bytes each. Eight are
// NIST's minimum (SP 800-63B); 128 fit any passphrase and keep requests small.
const (
	least = 8
	most  = 128
)

// commonText is common in Chinese shops and absent from zxcvbn's list.
//
//go:embed common.txt
var commonText string

// zxcvbnText is a gzip of the 10,000 most common passwords of at least 8 characters in
// the list of zxcvbn (github.com/dropbox/zxcvbn, data/passwords.txt, MIT), in lower
// case, the most common first. zxcvbn.LICENSE.txt is its license.
//
//go:embed zxcvbn.txt.gz
var zxcvbnText []byte

// common is built at the first password that is set: about a megabyte.
var common = sync.OnceValue(func() map[string]struct{} {
	set := map[string]struct{}{}
	r, err := gzip.NewReader(bytes.NewReader(zxcvbnText))
	var text []byte
	if err == nil {
		text, err = io.ReadAll(r)
	}
	if err != nil {
		panic("password: the embedded list is damaged: " + err.Error())
	}
	for _, list := range []string{commonText, string(text)} {
		for line := range strings.Lines(list) {
			set[strings.TrimSpace(line)] = struct{}{}
		}
	}
	return set
})

// ErrWeak refuses a password that is easy to guess.
var ErrWeak = fault.New(fault.Invalid, "weak-password", fault.T("Choose a stronger password", "密码强度不足"),
	fault.T("Choose another password.", "请换一个密码。"),
	fault.T("Choose a longer password that is not in common lists.", "请设置更长且不常见的密码。"))

// Accept returns nil for a password that may be set, else a fault "weak-password"
// that gives the reason. known are texts that other people know about the user: the
// phone, the name, the shop's name.
func Accept(password string, known ...string) error {
	folded := strings.ToLower(password)
	n := utf8.RuneCountInString(password)
	_, size := utf8.DecodeRuneInString(password)
	_, isCommon := common()[folded]
	switch {
	case n < least || n > most:
		return ErrWeak.Saying(fault.T("A password has 8 to 128 characters.", "密码长度为 8 至 128 个字符。"))
	case strings.Count(password, password[:size]) == n:
		return ErrWeak.Saying(
			fault.T("This password is one character repeated. Choose another.", "密码不能只有一个重复的字符，请换一个。"))
	case isCommon:
		return ErrWeak.Saying(
			fault.T("This password is one of the most common ones, which are tried first. Choose another.",
				"该密码过于常见，容易被猜到，请换一个。"))
	}
	for _, k := range known {
		if k = strings.ToLower(strings.TrimSpace(k)); k == "" {
			continue
		}
		// A number also counts without its country code.
		if folded == k || strings.TrimFunc(folded, notLetter) == k || digits(password) != "" && strings.HasSuffix(digits(k), digits(password)) && onlyDigits(password) {
			return ErrWeak.Saying(
				fault.T("A password must not be the phone number, the name or the shop's name, with or without "+
					"digits around it. Choose another.",
					"密码不能是手机号、姓名或店名，前后加数字也不行，请换一个。"))
		}
	}
	return nil
}

func notLetter(r rune) bool { return !unicode.IsLetter(r) }

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
