package ratelimit

import (
	"encoding/binary"
	"hash/maphash"
)

// Here is one rule of one route for one subject, counted by this instance alone.
type Here struct {
	Rule  *Rule
	Route uint32 // distinguishes routes with the same rule
	// Subject is 16 bytes of its own choice: a user's id, an address.
	Subject [16]byte
}

// TakeHere takes one of each rule for its subject if all of them allow it, else
// nothing, by memory alone and without allocating: it is made for every request.
// Rules that are off are skipped. Another instance does not know of it.
func (l *Limiter) TakeHere(asks ...Here) (refusal error) {
	now := l.now()
	for i, a := range asks {
		if !a.Rule.On() {
			continue
		}
		ahead, ok := l.table.take(l.subjectHere(a), *a.Rule, now)
		if ok {
			continue
		}
		for _, taken := range asks[:i] {
			if taken.Rule.On() {
				l.table.back(l.subjectHere(taken), *taken.Rule)
			}
		}
		l.refusals.WithLabelValues(a.Rule.Name, byMemory).Inc()
		d := decide(*a.Rule, false, ahead)
		d.rules = []Rule{*a.Rule}
		return d.Err()
	}
	return nil
}

// subjectHere hashes with a seed of this process, so that a client cannot choose
// subjects that collide.
func (l *Limiter) subjectHere(a Here) (s subject) {
	type key struct {
		route   uint32
		subject [16]byte
	}
	binary.LittleEndian.PutUint64(s[:], maphash.Comparable(l.seed, key{a.Route, a.Subject}))
	binary.LittleEndian.PutUint32(s[8:], a.Route)
	return s
}
