package rush

import (
	"maps"
	"sync"
	"sync/atomic"
)

// itemIndex maps items to this instance's data about them. A lookup takes no
// lock and allocates nothing; adding copies the map, which is fine for something
// that happens once per item. The zero value is empty and ready.
type itemIndex[V any] struct {
	all atomic.Pointer[map[int64]*V]
	mu  sync.Mutex // serialises writers, who replace the map
}

// find returns an item's value, nil if there is none.
func (x *itemIndex[V]) find(item int64) *V {
	if m := x.all.Load(); m != nil {
		return (*m)[item]
	}
	return nil
}

// items is a snapshot of the whole index. Do not change it.
func (x *itemIndex[V]) items() map[int64]*V {
	if m := x.all.Load(); m != nil {
		return *m
	}
	return nil
}

// findOrAdd returns an item's value, created by create if there was none. create
// runs under the index's lock and may return nil to add nothing.
func (x *itemIndex[V]) findOrAdd(item int64, create func() *V) *V {
	if v := x.find(item); v != nil {
		return v
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if v := x.find(item); v != nil {
		return v
	}
	v := create()
	if v == nil {
		return nil
	}
	next := maps.Clone(x.items())
	if next == nil {
		next = make(map[int64]*V, 1)
	}
	next[item] = v
	x.all.Store(&next)
	return v
}

// drop removes the items for which gone is true and returns their values.
func (x *itemIndex[V]) drop(gone func(item int64) bool) []*V {
	x.mu.Lock()
	defer x.mu.Unlock()
	var dropped []*V
	next := make(map[int64]*V, len(x.items()))
	for item, v := range x.items() {
		if gone(item) {
			dropped = append(dropped, v)
		} else {
			next[item] = v
		}
	}
	if len(dropped) > 0 {
		x.all.Store(&next)
	}
	return dropped
}
