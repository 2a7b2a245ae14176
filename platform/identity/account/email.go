package account

import (
	"net/mail"
	"strings"
	"unicode/utf8"
)

// emailBytes is the longest address (RFC 5321, 4.5.3.1.3, without its brackets).
const emailBytes = 254

// Email is an e-mail address as the shop's login knows it, or empty if it is none. It is shown to staff, and the parser
// takes any letter beyond ASCII, also those that Clean drops.
func Email(raw string) string {
	address, err := mail.ParseAddress(raw)
	if err != nil || address.Address != raw || len(raw) > emailBytes || Clean(raw) != raw {
		return ""
	}
	return raw
}

// MaskedEmail returns an address for readers who may not see all of it: l****@shop.example.
func MaskedEmail(address string) string {
	name, domain, _ := strings.Cut(address, "@")
	if name == "" {
		return ""
	}
	_, first := utf8.DecodeRuneInString(name)
	return name[:first] + "****@" + domain
}
