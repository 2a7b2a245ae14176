// Package password stores passwords as argon2id PHC strings and checks them.
//
// A check costs 19 MiB and some ten milliseconds by design, which makes it the
// most expensive thing that a stranger can ask this server for. So it has a
// bound of its own: as many run at once as there are places, a few more wait for
// a moment, and whoever comes beyond that is refused at once.
package password

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/argon2"

	"stampede/platform/base/fault"
)

// Params are argon2id's costs.
type Params struct {
	MemoryKiB uint32 // memory of one hash, in KiB
	Passes    uint32 // over that memory
	Threads   uint8  // lanes; more help only who has idle cores
}

// OWASP are the costs that OWASP recommends for argon2id (Password Storage Cheat
// Sheet).
var OWASP = Params{MemoryKiB: 19456, Passes: 2, Threads: 1}

// Cost is a preset of Params: what a hash costs an attacker, and each login the
// server.
type Cost string

// The presets: OWASP's, and two for shops with memory to spare, of which the
// second takes four times the memory that RFC 9106 asks for where memory is scarce.
const (
	Interactive Cost = "interactive"
	Moderate    Cost = "moderate"
	Sensitive   Cost = "sensitive"
)

// Params are the preset's.
func (c Cost) Params() Params {
	switch c {
	case Moderate:
		return Params{MemoryKiB: 64 << 10, Passes: 3, Threads: 1}
	case Sensitive:
		return Params{MemoryKiB: 256 << 10, Passes: 3, Threads: 1}
	case Interactive:
	}
	return OWASP
}

// Validate refuses what argon2 does not take, or takes and gives no protection.
func (p Params) Validate() error {
	switch {
	case p.Passes < 1 || p.Passes > mostPasses:
		return fmt.Errorf("password: between 1 and %d passes, not %d", mostPasses, p.Passes)
	case p.Threads < 1 || p.Threads > mostThreads:
		return fmt.Errorf("password: between 1 and %d threads, not %d", mostThreads, p.Threads)
	case p.MemoryKiB < 8*uint32(p.Threads) || p.MemoryKiB > mostMemoryKiB:
		return fmt.Errorf("password: between %d and %d KiB of memory, not %d", 8*uint32(p.Threads), mostMemoryKiB, p.MemoryKiB)
	}
	return nil
}

// Sizes of what is stored: RFC 9106 recommends a salt of 16 bytes, and a hash of
// 32 is as long as it gives for password storage.
const (
	saltBytes = 16
	hashBytes = 32
)

const (
	// waitPerPlace is how many may wait for each place: with ten milliseconds a
	// hash, whoever is last waits a third of a second.
	waitPerPlace = 32
	// patience bounds the wait when hashes take longer than that.
	patience = 2 * time.Second
)

// ErrBusy is what whoever comes when all places are taken and enough wait gets.
var ErrBusy = fault.New(fault.TooMany, "too-busy", fault.Titles{"Too many people are logging in", "登录人数过多，请稍后再试"}, "Too many people are logging in right now. Try again in a moment.").After(2 * time.Second)

// Hasher hashes and checks passwords. Safe for concurrent use.
type Hasher struct {
	params  Params
	places  chan struct{}
	waiting atomic.Int64
	dummy   string
	onHash  func()
}

// New returns a hasher that runs at most parallel hashes at once and calls
// onHash for each; nil calls nobody.
func New(params Params, parallel int, onHash func()) (*Hasher, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	if parallel < 1 {
		return nil, errors.New("password: at least 1 hash at once")
	}
	if onHash == nil {
		onHash = func() {}
	}
	h := &Hasher{params: params, places: make(chan struct{}, parallel), onHash: onHash}
	salt := make([]byte, saltBytes)
	hash := make([]byte, hashBytes)
	_, _ = rand.Read(salt) // never fails
	_, _ = rand.Read(hash)
	h.dummy = record{params: params, salt: salt, hash: hash}.String()
	return h, nil
}

// Hash returns the PHC string of a password, or ErrBusy.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails
	hash, err := h.run(ctx, password, salt, h.params, hashBytes)
	if err != nil {
		return "", err
	}
	return record{params: h.params, salt: salt, hash: hash}.String(), nil
}

// Check reports whether password is the one that phc stores, and whether phc
// was made with other costs than today's, so that it should be made again. An
// empty phc fits no password and costs as much as any other: whoever asks about
// an account that does not exist, or has no password, waits as long.
func (h *Hasher) Check(ctx context.Context, phc, password string) (fits, stale bool, err error) {
	absent := phc == ""
	if absent {
		phc = h.dummy
	}
	r, err := parse(phc)
	if err != nil {
		return false, false, err
	}
	hash, err := h.run(ctx, password, r.salt, r.params, len(r.hash))
	if err != nil {
		return false, false, err
	}
	same := subtle.ConstantTimeCompare(hash, r.hash) == 1
	return same && !absent, r.params != h.params || len(r.hash) != hashBytes || len(r.salt) != saltBytes, nil
}

// run hashes in one of the places.
func (h *Hasher) run(ctx context.Context, password string, salt []byte, p Params, size int) ([]byte, error) {
	if err := h.enter(ctx); err != nil {
		return nil, err
	}
	defer func() { <-h.places }()
	h.onHash()
	return argon2.IDKey([]byte(password), salt, p.Passes, p.MemoryKiB, p.Threads, uint32(size)), nil //nolint:gosec // at most mostBinary
}

// enter takes a place, waiting briefly if few enough wait already.
func (h *Hasher) enter(ctx context.Context) error {
	select {
	case h.places <- struct{}{}:
		return nil
	default:
	}
	defer h.waiting.Add(-1)
	if h.waiting.Add(1) > int64(waitPerPlace*cap(h.places)) {
		return ErrBusy
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case h.places <- struct{}{}:
		return nil
	case <-timer.C:
		return ErrBusy
	case <-ctx.Done():
		return ErrBusy.Because(ctx.Err())
	}
}
