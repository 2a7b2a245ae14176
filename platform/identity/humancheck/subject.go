package humancheck

import (
	"net/netip"
	"net/url"

	"stampede/platform/edge/ratelimit"
)

// Kind is a kind of check.
type Kind string

// The kinds.
const (
	None     Kind = "none"
	Pow      Kind = "pow"
	Slide    Kind = "slide"
	Verifier Kind = "verifier"
)

// Valid reports whether k is one of the kinds.
func (k Kind) Valid() bool { return k == None || k == Pow || k == Slide || k == Verifier }

// Purposes of a check. A solution for one purpose is not valid for another.
const (
	PurposeRush        = "rush"
	PurposeReservation = "reservation"
	PurposeLogin       = "login"
	PurposeRegister    = "register"
	PurposeSMS         = "sms"
)

// purposes maps the purposes to their numbers in tickets. The numbers are part of
// the ticket's format: append new ones at the end.
var purposes = map[string]byte{
	PurposeRush: 1, PurposeReservation: 2, PurposeLogin: 3, PurposeRegister: 4, PurposeSMS: 5,
}

// Header carries the solution of a challenge.
const Header = "Human-Check"

// MaxSolutionBytes bounds the header, as the maxLength of the inputs does; a verifier's token
// is the longest. Aliyun's is some 2 KiB, and a proxy such as nginx takes 8 KiB for a header.
const MaxSolutionBytes = 4096

// Subject is what a challenge is bound to.
type Subject struct {
	Purpose string
	User    int64  // 0 before a login
	Item    int64  // 0 where there is none
	Path    string // where challenges for the item are issued; empty without an item
	Address netip.Addr
	// Level makes a proof of work harder or easier by that many bits, Easy to Hardest
	// (0 at least where it replaces a verifier); 0 is what Config.Difficulty says. It is not part of the ticket: when a
	// solution arrives, its challenge must have been at most one bit easier than the
	// level of that moment, which may have risen while a phone worked.
	Level int
}

// Bounds of a level: on a phone a quarter of a second, and four seconds, where the
// usual work takes one.
const (
	Easy    = -2
	Hardest = 2
)

// address is the significant part of the client's address: the /64 of an IPv6
// address, because one household may use any address in it.
func (s Subject) address() string { return ratelimit.AddrKey(s.Address) }

// challengeURL is where challenges for the subject are issued.
func (s Subject) challengeURL(kind Kind) string {
	if s.Path != "" {
		return s.Path + "?purpose=" + url.QueryEscape(s.Purpose) + "&kind=" + string(kind)
	}
	return challengePath + "?purpose=" + url.QueryEscape(s.Purpose)
}
