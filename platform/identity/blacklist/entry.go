package blacklist

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"stampede/platform/base/fault"
	"stampede/platform/identity/account"
	"stampede/platform/identity/blacklist/internal/blacklistdb"
)

// Kind says what an entry names.
type Kind string

// The kinds.
const (
	User    Kind = "user"
	Phone   Kind = "phone"
	Address Kind = "address" // one address or a CIDR range
	Device  Kind = "device"  // the device id that the client stated at login
)

// Entry is one entry of the list: its value is canonical, and a phone in full, which must
// not be logged; the owner of a phone is its user, 0 while it has none; without an end it
// stays until it is removed.
type Entry = blacklistdb.PlatformBlacklist

// over reports whether the entry has ended.
func over(e *Entry, now time.Time) bool { return e.ExpiresAt != nil && !now.Before(*e.ExpiresAt) }

// maxValueBytes is the longest device id that a token carries.
const maxValueBytes = 128

// The shortest prefixes that may be listed: a /8 of IPv4 and a /16 of IPv6 already
// cover the providers of whole continents; a wider range is a mistake.
const (
	minBits4 = 8
	minBits6 = 16
	// hostBits6 is the prefix that identifies one IPv6 client: the client chooses
	// the other bits.
	hostBits6 = 64
)

var (
	errUser = fault.Plain(fault.Invalid,
		fault.T("value must be a user's id, a decimal number above 0.", "value 须为用户编号，即大于 0 的十进制数。"))
	errAddress = fault.Plain(fault.Invalid,
		fault.T("value must be an address or a range such as 203.0.113.7 or 203.0.113.0/24, not wider than /8 (IPv6: "+
			"/16).",
			"value 须为地址或网段，例如 203.0.113.7 或 203.0.113.0/24，不能大于 /8（IPv6 为 /16）。"))
	errDevice = fault.Plain(fault.Invalid,
		fault.T("value must be a device's id, 1 to 128 bytes of text.", "value 须为设备编号，1 至 128 字节的文字。"))
)

// canonical returns a value in the form in which it is compared. Phones are parsed
// by Accounts.Owner instead.
func canonical(kind Kind, raw string) (string, error) {
	switch kind {
	case User:
		id, err := strconv.ParseInt(raw, 10, 64)
		if err != nil || id <= 0 || raw[0] == '+' {
			return "", errUser
		}
		return strconv.FormatInt(id, 10), nil
	case Address:
		p, err := parsePrefix(strings.TrimSpace(raw))
		if err != nil {
			return "", err
		}
		return p.String(), nil
	default:
		if raw == "" || len(raw) > maxValueBytes || !utf8.ValidString(raw) || strings.ContainsRune(raw, 0) {
			return "", errDevice
		}
		return raw, nil
	}
}

// parsePrefix parses an address or a range. One IPv6 address becomes its /64, as
// everywhere else where addresses are counted.
func parsePrefix(raw string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(raw)
	if err != nil {
		a, err := netip.ParseAddr(raw)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, errAddress
		}
		a = a.Unmap()
		bits := a.BitLen()
		if a.Is6() {
			bits = hostBits6
		}
		p = netip.PrefixFrom(a, bits)
	}
	if a := p.Addr(); a.Is4In6() {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	least := minBits6
	if p.Addr().Is4() {
		least = minBits4
	}
	if !p.IsValid() || p.Bits() < least {
		return netip.Prefix{}, errAddress
	}
	return p.Masked(), nil
}

// masked is the value as operators see it.
func masked(e Entry) string {
	if Kind(e.Kind) == Phone {
		return account.Phone(e.Value).Masked()
	}
	return e.Value
}
