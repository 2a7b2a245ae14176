package password

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
)

// ErrFormat means that a stored text is not an argon2id PHC string that this package
// accepts.
var ErrFormat = errors.New("password: not an argon2id PHC string")

// The PHC string format allows other algorithms and versions; this package reads and
// writes only these.
const (
	phcHead    = "$argon2id$v="
	phcVersion = argon2.Version
)

// Bounds of the parsed values. A stored string comes from the shop's own database,
// but a tampered row must not make the server allocate a terabyte.
const (
	mostMemoryKiB = 1 << 20 // 1 GiB, far above what a login can afford
	mostPasses    = 100
	mostThreads   = 64
	leastSalt     = 8 // argon2's minimum
	leastHash     = 16
	mostBinary    = 64
)

// record is a stored password.
type record struct {
	params Params
	salt   []byte
	hash   []byte
}

// String writes $argon2id$v=19$m=…,t=…,p=…$salt$hash, base64 without padding.
func (r record) String() string {
	return fmt.Sprintf("%s%d$m=%d,t=%d,p=%d$%s$%s", phcHead, phcVersion, r.params.MemoryKiB, r.params.Passes, r.params.Threads,
		base64.RawStdEncoding.EncodeToString(r.salt), base64.RawStdEncoding.EncodeToString(r.hash))
}

// parse accepts only the output of String, so that each password has one stored
// form.
func parse(phc string) (record, error) {
	rest, ok := strings.CutPrefix(phc, phcHead)
	if !ok {
		return record{}, ErrFormat
	}
	parts := strings.Split(rest, "$")
	if len(parts) != 4 || parts[0] != strconv.Itoa(phcVersion) {
		return record{}, ErrFormat
	}
	settings := strings.Split(parts[1], ",")
	if len(settings) != 3 {
		return record{}, ErrFormat
	}
	memory, okM := number(settings[0], "m=", mostMemoryKiB)
	passes, okT := number(settings[1], "t=", mostPasses)
	threads, okP := number(settings[2], "p=", mostThreads)
	salt, okS := binary(parts[2], leastSalt)
	hash, okH := binary(parts[3], leastHash)
	r := record{params: Params{MemoryKiB: memory, Passes: passes, Threads: uint8(threads)}, salt: salt, hash: hash} //nolint:gosec // at most mostThreads
	if !okM || !okT || !okP || !okS || !okH || r.params.Validate() != nil {
		return record{}, ErrFormat
	}
	return r, nil
}

// number parses a decimal without sign or leading zero after a name.
func number(s, name string, most uint64) (uint32, bool) {
	digits, ok := strings.CutPrefix(s, name)
	if !ok || digits == "" || digits[0] < '1' || digits[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil && n <= most
}

func binary(s string, least int) ([]byte, bool) {
	raw, err := base64.RawStdEncoding.Strict().DecodeString(s)
	// The decoder skips line breaks, which a valid string does not contain.
	return raw, err == nil && len(raw) >= least && len(raw) <= mostBinary && !strings.ContainsAny(s, "\r\n")
}
