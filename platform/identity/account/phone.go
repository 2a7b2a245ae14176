package account

import (
	"log/slog"
	"regexp"
	"strings"
	"unicode"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
)

// Phone is a telephone number in E.164: a plus sign, country and subscriber, 7 to 15
// digits. The zero value is no phone. Logging masks it.
type Phone string

var errPhone = fault.Plain(fault.Invalid,
	fault.T("phone must be a mobile number, e.g. 13800138000 or +8613800138000.",
		"请输入正确的手机号，例如 13800138000；境外号码请加国家代码。"))

// The stored forms of numbers. China's mobile numbers are checked to the last digit,
// because a code sent to a number that cannot exist costs money; other countries'
// numbering plans are many and change.
var (
	e164    = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)
	mobile  = regexp.MustCompile(`^1[3-9][0-9]{9}$`)
	inChina = "+86"
)

// separators are what people write between the digits of a number.
var separators = strings.NewReplacer(" ", "", "-", "", "(", "", ")", "")

// ParsePhone parses a number as people write it: in E.164, with 00 for the plus
// sign, or an eleven-digit Chinese mobile number without the country code.
func ParsePhone(raw string) (Phone, error) {
	s := separators.Replace(raw)
	if mobile.MatchString(s) {
		return Phone(inChina + s), nil
	}
	if rest, ok := strings.CutPrefix(s, "00"); ok {
		s = "+" + rest
	}
	if national, ok := strings.CutPrefix(s, inChina); ok && !mobile.MatchString(national) {
		return "", errPhone
	}
	if !e164.MatchString(s) {
		return "", errPhone
	}
	return Phone(s), nil
}

// TypedPhone is ParsePhone of the member phone of a body, of which the error says what is
// wrong.
func TypedPhone(raw string) (Phone, error) {
	p, err := ParsePhone(raw)
	if err != nil {
		err = errPhone.At("body.phone", fault.Text{"Enter a mobile number, such as 13800138000 or +44 7700 900123.", "请输入正确的手机号，例如 13800138000；境外号码请加国家代码。"})
	}
	return p, err
}

// A masked number keeps enough digits to recognize one's own, but not to call it.
const (
	maskHead = 3
	maskTail = 4
)

// Masked returns the number for readers who may not see all of it: 138****5678,
// other countries +44****1234.
func (p Phone) Masked() string {
	if p == "" {
		return ""
	}
	s := p.Local()
	return s[:maskHead] + "****" + s[len(s)-maskTail:]
}

// LogValue masks the number in every log.
func (p Phone) LogValue() slog.Value { return slog.StringValue(p.Masked()) }

// Local is the phone as people in China write it: theirs without the country's code.
func (p Phone) Local() string { return strings.TrimPrefix(string(p), inChina) }

// Language is the language of the number's country, as far as the shop speaks it.
func (p Phone) Language() httpx.Language {
	if strings.HasPrefix(string(p), inChina) {
		return httpx.Chinese
	}
	return httpx.English
}

// Clean makes a client's text safe to store and show: it drops characters that
// Postgres or a terminal cannot handle, and invisible ones, which could make another
// device or name look like the user's.
func Clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, s))
}
