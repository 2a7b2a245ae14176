package payment

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"stampede/platform/watch/alarm"
)

const (
	// forgedWindow is the time over which callbacks that no provider sent are counted,
	// and forgedMost how many in it raise the alarm: a provider that signs with a key
	// unknown to us repeats each callback with growing pauses, and a scanner knocks a
	// few times, so half a callback a second is a flood or a sale without callbacks.
	forgedWindow = time.Minute
	forgedMost   = 30
	// forgedEvery is how often the counts are compared, from memory.
	forgedEvery = 5 * time.Second
	// forgedAddresses bounds the addresses that are told apart in a window. A flood
	// from more has no address that is worth blocking.
	forgedAddresses = 256
)

// forgeries counts, per provider, the callbacks that the provider did not sign or
// that cannot be read, in this process and in memory: anyone can send them, so they
// must cost no store anything. Safe for concurrent use.
type forgeries struct {
	mu   sync.Mutex
	seen map[string]*[2]forgedCount // by provider; the window that counts now, and the one before
}

// forgedCount is one window's count.
type forgedCount struct {
	began time.Time
	count int
	from  map[netip.Addr]int // at most forgedAddresses
}

// note counts a callback and reports whether it is the first of its window, which is
// the only one that is logged as a warning: a flood must not fill the log's disk.
func (f *forgeries) note(provider string, from netip.Addr, now time.Time) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.seen[provider]
	if w == nil {
		w = new([2]forgedCount)
		f.seen[provider] = w
	}
	if first = now.Sub(w[0].began) >= forgedWindow; first {
		w[0], w[1] = forgedCount{began: now, from: map[netip.Addr]int{}}, w[0]
	}
	w[0].count++
	if _, known := w[0].from[from]; known || len(w[0].from) < forgedAddresses {
		w[0].from[from]++
	}
	return first
}

// floods are the providers with too many forgeries in a window that began less than
// two windows ago, so that a flood that lasts is one incident.
func (f *forgeries) floods(now time.Time) (found []alarm.Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for provider, windows := range f.seen {
		for _, w := range windows {
			if w.count < forgedMost || now.Sub(w.began) >= 2*forgedWindow {
				continue
			}
			var most netip.Addr
			for from, n := range w.from {
				if n > w.from[most] {
					most = from
				}
			}
			found = append(found, alarm.Finding{Subject: "provider " + provider, Detail: fmt.Sprintf(
				"%d callbacks since %s, %d of them from %s.", w.count, w.began.UTC().Format(time.TimeOnly+"Z"), w.from[most], most)})
			break // the newer window says more
		}
	}
	return found
}

// Probes watch for floods of forged callbacks at this instance.
func (cb *callbacks) Probes() []alarm.Probe {
	return []alarm.Probe{{Alarm: alarmForged, Every: forgedEvery, Look: func(context.Context) ([]alarm.Finding, error) {
		return cb.forged.floods(time.Now()), nil
	}}}
}
