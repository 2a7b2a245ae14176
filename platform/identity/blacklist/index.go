package blacklist

import (
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// index is an immutable snapshot of the list.
type index struct {
	users   map[int64]*Entry // also the owners of listed phones
	phones  map[string]*Entry
	devices map[string]*Entry
	ranges  map[netip.Prefix]*Entry
	// disabled are the users with a disabled account, some 20 bytes each.
	disabled map[int64]struct{}
	// bits4 and bits6 are the lengths of the ranges, the longest first: an address
	// costs one lookup per length, however many ranges there are.
	bits4, bits6 []int
	size         int
}

func newIndex(entries []Entry) *index {
	p := &index{
		users: map[int64]*Entry{}, phones: map[string]*Entry{}, devices: map[string]*Entry{},
		ranges: map[netip.Prefix]*Entry{}, disabled: map[int64]struct{}{}, size: len(entries),
	}
	for i := range entries {
		p.add(&entries[i])
	}
	return p
}

func (p *index) add(e *Entry) {
	switch Kind(e.Kind) {
	case User:
		if id, err := strconv.ParseInt(e.Value, 10, 64); err == nil {
			p.users[id] = longer(p.users[id], e)
		}
	case Phone:
		p.phones[e.Value] = e
		if e.Owner > 0 {
			p.users[e.Owner] = longer(p.users[e.Owner], e)
		}
	case Address:
		r, err := netip.ParsePrefix(e.Value)
		if err != nil {
			return
		}
		p.ranges[r] = e
		bits := &p.bits6
		if r.Addr().Is4() {
			bits = &p.bits4
		}
		if at, found := slices.BinarySearchFunc(*bits, r.Bits(), func(a, b int) int { return b - a }); !found {
			*bits = slices.Insert(*bits, at, r.Bits())
		}
	case Device:
		p.devices[e.Value] = e
	}
}

// longer returns the one of two entries for a user that ends later; a may be nil.
func longer(a, b *Entry) *Entry {
	if a == nil || a.ExpiresAt != nil && (b.ExpiresAt == nil || b.ExpiresAt.After(*a.ExpiresAt)) {
		return b
	}
	return a
}

// address returns the entry in force for an address.
func (p *index) address(a netip.Addr, now time.Time) *Entry {
	a = a.WithZone("").Unmap()
	bits := p.bits6
	if a.Is4() {
		bits = p.bits4
	}
	for _, n := range bits {
		r, err := a.Prefix(n)
		if err != nil {
			return nil // an invalid address matches no entry
		}
		if e := p.ranges[r]; e != nil && !over(e, now) {
			return e
		}
	}
	return nil
}
