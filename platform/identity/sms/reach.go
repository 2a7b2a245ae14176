package sms

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Reach is where a shop's customers have their phones: calling prefixes such as
// +86, or Everywhere alone. Codes sent to anywhere at all are a way to earn money
// at the shop's cost: whoever has a share in a network's dear numbers asks for
// codes to those, from many addresses and for as many phones. A Reach without
// prefixes covers nobody.
type Reach []string

// Everywhere covers every number.
const Everywhere = "*"

// prefix is the beginning of a number in E.164: a country, or an area within one
// where several countries share a prefix (+1876 is Jamaica), seven digits at most
// because that is where the shortest whole number begins.
var prefix = regexp.MustCompile(`^\+[1-9][0-9]{0,6}$`)

// ParseReach reads prefixes as a setting gives them. The error names the first
// that is none and says what one looks like.
func ParseReach(prefixes []string) (Reach, error) {
	if slices.Equal(prefixes, Reach{Everywhere}) {
		return Reach{Everywhere}, nil
	}
	if len(prefixes) == 0 {
		return nil, fmt.Errorf("must be calling prefixes such as +86,+852, or %s alone for every country", Everywhere)
	}
	for _, p := range prefixes {
		if !prefix.MatchString(p) {
			return nil, fmt.Errorf("must be calling prefixes such as +86,+852, without blanks, or %s alone for every country; %q is none", Everywhere, p)
		}
	}
	return slices.Clone(prefixes), nil
}

// Covers reports whether SMS go to a phone, which is in E.164.
func (r Reach) Covers(phone string) bool {
	return slices.ContainsFunc(r, func(p string) bool { return p == Everywhere || strings.HasPrefix(phone, p) })
}

// String is the prefixes as a sentence names them.
func (r Reach) String() string { return strings.Join(r, ", ") }
