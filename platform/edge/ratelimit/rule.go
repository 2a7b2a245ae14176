package ratelimit

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Rule allows Count in a burst, refilled evenly over Per. A Count of 0 or less never
// refuses, so that a setting of 0 turns a limit off.
type Rule struct {
	// Name identifies a rule in Redis, in metrics and in the RateLimit fields:
	// lower-case letters, digits and hyphens. Two rules with one name share their
	// subjects' counts.
	Name  string
	Count int
	Per   time.Duration
	// FirstHere lets each of several instances give a subject the first in a window of up to a minute without asking
	// Redis, if the Take has no other rule. A subject whose requests reach n instances gets n-1 more than Count: not for
	// what bounds guesses.
	FirstHere bool
}

// On reports whether the rule limits anything.
func (r Rule) On() bool { return r.Count > 0 }

// interval is the time in which one unit is refilled, in whole microseconds, the
// unit of Redis's TIME. Truncation favors the subject by less than 1 µs.
func (r Rule) interval() time.Duration {
	return (r.Per / time.Duration(r.Count)).Truncate(time.Microsecond)
}

// full is how far ahead a TAT may lie.
func (r Rule) full() time.Duration { return r.interval() * time.Duration(r.Count) }

// Bounds of a rule.
const (
	// longestPer bounds the life of keys: a limit per month belongs in the database,
	// not in a rate limit.
	longestPer = 31 * 24 * time.Hour
	// maxAsks is more than any decision needs; it bounds the script's work.
	maxAsks = 8
	// maxNameBytes fits several rules into one header field.
	maxNameBytes = 64
)

// Validate returns what is wrong with a rule; a rule that is off is valid.
func (r Rule) Validate() error {
	switch {
	case !validName(r.Name):
		return fmt.Errorf("ratelimit: a rule's name has 1 … %d lower-case letters, digits and hyphens, not %q", maxNameBytes, r.Name)
	case !r.On():
		return nil
	case r.Per <= 0 || r.Per > longestPer:
		return fmt.Errorf("ratelimit: rule %s: the window may be up to %s, not %s", r.Name, longestPer, r.Per)
	case r.interval() < time.Microsecond:
		return fmt.Errorf("ratelimit: rule %s: %d in %s are more than one in a microsecond", r.Name, r.Count, r.Per)
	}
	return nil
}

func validName(name string) bool {
	return name != "" && len(name) <= maxNameBytes && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-'
	})
}

// Ask is one rule for one subject.
type Ask struct {
	Rule Rule
	Key  string // the subject, such as UserKey's
}

// UserKey is the subject of a user.
func UserKey(user int64) string { return "u:" + strconv.FormatInt(user, 10) }

// homePrefix is the smallest IPv6 prefix that a customer gets (RFC 6177): the holder
// of a /64 has 2⁶⁴ addresses.
const homePrefix = 64

// Network is what counts as one address: an IPv4 address, or an IPv6 address's /64;
// the zero Prefix for an unknown address.
func Network(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	prefix, _ := addr.Prefix(min(homePrefix, addr.BitLen())) // fits
	return prefix
}

// AddrKey is the subject of a client's address, see Network. Unknown addresses share
// one subject.
func AddrKey(addr netip.Addr) string {
	switch network := Network(addr); {
	case !network.IsValid():
		return "a:unknown"
	case network.IsSingleIP():
		return "a:" + network.Addr().String()
	default:
		return "a:" + network.String()
	}
}

// Networks are the networks of an address whose holder may be one client, the
// smallest first: an IPv4 address, which a mobile carrier shares among its customers;
// or of an IPv6 address the /64 (a device of a mobile carrier, a subnet elsewhere),
// the /56 (a household or an office) and the /48 (the most that a customer gets, RFC
// 6177). An unknown address has none.
func Networks(addr netip.Addr) []netip.Prefix {
	least := Network(addr)
	switch {
	case !least.IsValid():
		return nil
	case least.IsSingleIP():
		return []netip.Prefix{least}
	}
	site, _ := least.Addr().Prefix(56)     // fits an IPv6 address
	customer, _ := least.Addr().Prefix(48) // as above
	return []netip.Prefix{least, site, customer}
}
