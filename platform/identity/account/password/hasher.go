// Package password stores passwords as argon2id PHC strings and checks them.
//
// A check costs 19 MiB and some ten milliseconds by design, which makes it the most
// expensive operation that an anonymous client can trigger. It therefore has a
// separate bound: a fixed number of hashes run in parallel, a few more requests wait
// briefly, and the rest are refused immediately.
package password

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/argon2"

	"stampede/platform/base/fault"
)

// Params are argon2id's costs.
type Params struct {
	MemoryKiB uint32 // memory of one hash, in KiB
	Passes    uint32 // over that memory
	Threads   uint8  // lanes; more help only on idle cores
}

// OWASP are the costs that OWASP recommends for argon2id (Password Storage Cheat
// Sheet).
var OWASP = Params{MemoryKiB: 19456, Passes: 2, Threads: 1}

// Cost is a preset of Params: what a hash costs an attacker, and what each login
// costs the server.
type Cost string

// The presets: OWASP's, and two for shops with memory to spare. The second of these
// takes four times the memory that RFC 9106 recommends for memory-constrained
// systems.
const (
	Interactive Cost = "interactive"
	Moderate    Cost = "moderate"
	Sensitive   Cost = "sensitive"
)

// Params returns the preset's costs.
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

// Sizes of the stored values: RFC 9106 recommends a salt of 16 bytes, and a hash of
// 32 is its longest recommendation for password storage.
const (
	saltBytes = 16
	hashBytes = 32
)

const (
	// waitPerPlace is how many requests may wait for each place: at ten milliseconds
	// a hash the last one waits a third of a second.
	waitPerPlace = 32
	// patience bounds the wait when hashes take longer than that.
	patience = 2 * time.Second
)

// ErrBusy is returned when all places are taken and the queue is full.
var ErrBusy = fault.New(fault.TooMany, "too-busy", fault.T("Too many people are logging in right now", "登录人数过多，请稍后再试"),
	fault.T("Too many people are logging in right now. Try again in a moment.", "登录人数过多，请稍后再试。"),
	fault.T("Try again in a moment.", "请稍后重试。")).After(2 * time.Second)

// Hasher hashes and checks passwords. Safe for concurrent use.
type Hasher struct {
	params  Params
	places  chan struct{}
	waiting atomic.Int64
	dummy   string
	onHash  func()
}

// New returns a hasher with a preset's costs that runs at most parallel hashes
// concurrently, at least one, and calls onHash for each.
func New(params Params, parallel int, onHash func()) *Hasher {
	h := &Hasher{params: params, places: make(chan struct{}, parallel), onHash: onHash}
	salt := make([]byte, saltBytes)
	hash := make([]byte, hashBytes)
	_, _ = rand.Read(salt) // never fails
	_, _ = rand.Read(hash)
	h.dummy = record{params: params, salt: salt, hash: hash}.String()
	return h
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

// Check reports whether password is the one that phc stores, and whether phc was
// made with other costs than today's and should be rehashed. An empty phc matches no
// password and costs as much as any other, so that a login to an account that does
// not exist, or has no password, takes as long.
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

// enter takes a place, and waits briefly if the queue has room.
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
