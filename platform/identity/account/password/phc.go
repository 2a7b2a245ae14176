package password

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// ErrFormat means that a stored text is not an argon2id PHC string that this package
// accepts.
var ErrFormat = errors.New("password: not an argon2id PHC string")

// Bounds of the parsed values. A stored string comes from the shop's own database,
// but a tampered row must not make the server allocate a terabyte.
const (
	mostMemoryKiB = 1 << 20 // 1 GiB, far above what a login can afford
	mostPasses    = 100
	mostThreads   = 64
	leastSalt     = 8 // argon2's minimum
	leastHash     = 16
	mostBinary    = 64 // of either
)

// record is a stored password.
type record struct {
	params Params
	salt   []byte
	hash   []byte
}

// format allows one algorithm and version of those that PHC strings may have.
const format = "$argon2id$v=19$m=%d,t=%d,p=%d$%s"

// String writes $argon2id$v=19$m=…,t=…,p=…$salt$hash, base64 without padding.
func (r record) String() string {
	return fmt.Sprintf(format, r.params.MemoryKiB, r.params.Passes, r.params.Threads,
		base64.RawStdEncoding.EncodeToString(r.salt)+"$"+base64.RawStdEncoding.EncodeToString(r.hash))
}

// parse accepts only the output of String, so that each password has one stored
// form.
func parse(phc string) (r record, err error) {
	var rest string
	if _, err := fmt.Sscanf(phc, format, &r.params.MemoryKiB, &r.params.Passes, &r.params.Threads, &rest); err != nil {
		return record{}, ErrFormat
	}
	salt, hash, _ := strings.Cut(rest, "$")
	r.salt, err = base64.RawStdEncoding.DecodeString(salt)
	if err == nil {
		r.hash, err = base64.RawStdEncoding.DecodeString(hash)
	}
	p := r.params
	if err != nil || r.String() != phc || p.Passes < 1 || p.Passes > mostPasses || p.Threads < 1 || p.Threads > mostThreads ||
		p.MemoryKiB < 8*uint32(p.Threads) || p.MemoryKiB > mostMemoryKiB || // 8 KiB a lane are argon2's minimum
		len(r.salt) < leastSalt || len(r.salt) > mostBinary || len(r.hash) < leastHash || len(r.hash) > mostBinary {
		return record{}, ErrFormat
	}
	return r, nil
}
