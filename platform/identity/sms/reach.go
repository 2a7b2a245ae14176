package sms

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Reach is where a shop's customers have their phones: calling prefixes such as +86,
// or Everywhere alone. It protects against toll fraud (SMS pumping): an attacker who
// shares in the revenue of premium-rate numbers requests codes to them, from many
// addresses and for many phones. A Reach without prefixes covers no number.
type Reach []string

// Everywhere covers every number.
const Everywhere = "*"

// prefix is the beginning of a number in E.164: a country, or an area within one
// where several countries share a prefix (+1876 is Jamaica). It has at most seven
// digits, the length of the shortest complete number.
var prefix = regexp.MustCompile(`^\+[1-9][0-9]{0,6}$`)

// ParseReach parses the prefixes of a setting. The error names the first invalid one
// and shows an example.
func ParseReach(prefixes []string) (Reach, error) {
	if slices.Equal(prefixes, Reach{Everywhere}) {
		return Reach{Everywhere}, nil
	}
	if len(prefixes) == 0 {
		return nil, fmt.Errorf("must be calling prefixes such as +86,+852, or %s alone for every country", Everywhere)
	}
	for _, p := range prefixes {
		if !prefix.MatchString(p) {
			return nil, fmt.Errorf("must be calling prefixes such as +86,+852, without blanks, or %s alone for every country; %q is not one", Everywhere, p)
		}
	}
	return slices.Clone(prefixes), nil
}

// Covers reports whether SMS are sent to a phone, which is in E.164.
func (r Reach) Covers(phone string) bool {
	return slices.ContainsFunc(r, func(p string) bool { return p == Everywhere || strings.HasPrefix(phone, p) })
}

// String lists the prefixes for a sentence.
func (r Reach) String() string { return strings.Join(r, ", ") }
