package rush

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/coocood/freecache"

	"stampede/inventory"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/base/race"
	"stampede/seckill/catalogue"
	"stampede/seckill/queue"
)

// numbers remembers the item of an order number and the last answer to its
// shopper. It is bounded and may forget; its entries are never wrong.
type numbers struct{ cache *freecache.Cache }

// told is this instance's record of a number.
type told struct {
	item     int64
	position int64 // the lowest in an answer so far, or noPosition
	stored   bool  // its grant is in the stream: it is an order, or becomes one or a refusal
}

// numberLife is how long a number is remembered while it has no order: most paths
// live four minutes, and a backlog of the writer is measured in seconds. That of a
// path that a risk rule admits later is searched for if it was forgotten.
const numberLife = 10 * time.Minute

// noPosition marks a number whose shopper has not been given a position yet.
const noPosition = int64(1) << 62

func newNumbers(maxBytes int) *numbers { return &numbers{freecache.NewCache(race.Cache(maxBytes))} }

func (n *numbers) put(no ids.ID, t told) {
	var v [toldBytes]byte
	binary.LittleEndian.PutUint64(v[:8], uint64(t.item))     //nolint:gosec // bits, read back by get
	binary.LittleEndian.PutUint64(v[8:], uint64(t.position)) //nolint:gosec // bits, read back by get
	if t.stored {
		v[16] = 1
	}
	// The only errors are about sizes, which are fixed.
	_ = n.cache.Set(no[:], v[:], wholeSeconds(numberLife))
}

// get returns what put remembered last.
func (n *numbers) get(no ids.ID) (told, bool) {
	var buf [toldBytes]byte
	v, err := n.cache.GetWithBuf(no[:], buf[:])
	if err != nil || len(v) != len(buf) {
		return told{}, false
	}
	return told{
		item:     int64(binary.LittleEndian.Uint64(v[:8])), //nolint:gosec // the bits that put wrote
		position: int64(binary.LittleEndian.Uint64(v[8:])), //nolint:gosec // as above
		stored:   v[16] == 1,
	}, true
}

// toldBytes is the item, the position and whether it is stored.
const toldBytes = 8 + 8 + 1

// Places knows the place of numbers that were granted and are not orders yet. It needs
// no rush, so that what reads it is built before one. Safe for concurrent use.
type Places struct {
	catalogue *catalogue.Catalogue
	stock     stock
	grants    grants
	clock     clock.Clock // the Redis server's time, by estimate
	pathLead  time.Duration
	numbers   *numbers
}

// NewPlaces returns the places of the numbers of a catalogue's items.
func NewPlaces(cfg Config, items *catalogue.Catalogue, stock *inventory.Service, g *queue.Queue, clk clock.Clock) *Places {
	return &Places{catalogue: items, stock: stock, grants: g, clock: clk, pathLead: cfg.PathLead, numbers: newNumbers(cfg.NumberBytes)}
}

// Queued reports whether a user's number was granted and waits to become an
// order: its item and how many grants will be written before it. The position
// never rises from one answer to the next. An error means that this is unknown,
// which is not the same as false.
func (p *Places) Queued(ctx context.Context, user int64, no ids.ID) (position, itemID int64, ok bool, err error) {
	if no.Bucket() != ids.Bucket(user) {
		return 0, 0, false, nil // another user's number
	}
	if t, known := p.numbers.get(no); known {
		if it, published := p.catalogue.Item(t.item); published {
			return p.queuedFor(ctx, it, user, no, t)
		}
	}
	var unclear error
	for _, it := range p.catalogue.Items() {
		if !p.issuedFor(no, it) { // for a made-up number too, at most one of 65,536 items remains
			continue
		}
		position, itemID, ok, err = p.queuedFor(ctx, it, user, no, told{position: noPosition})
		if ok {
			return position, itemID, true, nil
		}
		unclear = errors.Join(unclear, err)
	}
	return 0, 0, false, unclear
}

// tagOf is the tag of an item's numbers, by which every instance finds the item.
// Items are numbered consecutively, so those on sale at a time share none.
func tagOf(item int64) uint16 { return uint16(item) } //nolint:gosec // the low bits

// issuedFor reports whether a number may be for an item, by the tag and the time
// that it carries: numbers are created with a path, by the Redis server's clock,
// and paths are issued only around the sale.
func (p *Places) issuedFor(no ids.ID, it *catalogue.Item) bool {
	if no.Tag() != tagOf(it.ID) {
		return false
	}
	minted := no.Time()
	return minted.After(it.OpensAt.Add(-p.pathLead-clockSpread)) && minted.Before(it.ClosesAt.Add(clockSpread))
}

// clockSpread bounds, with a margin, how far apart two instances may estimate
// the Redis server's time: the check only saves a call to Redis.
const clockSpread = 10 * time.Second

func (p *Places) queuedFor(ctx context.Context, it *catalogue.Item, user int64, no ids.ID, t told) (position, itemID int64, ok bool, err error) {
	held, _, seq, persisted, ok, err := p.stock.Hold(ctx, it.Stock(), user)
	// A number that Redis still names did not go with removed keys.
	if errors.Is(err, inventory.ErrFenced) && held != no && (!it.OnSale || p.clock.Now().After(it.ClosesAt)) {
		return 0, 0, false, p.settledWithoutState(ctx, it, err)
	}
	if err != nil {
		return 0, 0, false, fmt.Errorf("seckill: look up a number's place: %w", err)
	}
	// A hold without a sequence number in the epoch has its order row.
	if !ok || held != no || seq == 0 {
		return 0, 0, false, nil
	}
	position = min(max(0, seq-persisted), t.position)
	if position < t.position {
		t.item, t.position = it.ID, position
		p.numbers.put(no, t)
	}
	return position, it.ID, true, nil
}

// settledWithoutState returns nil if no grant of an item that has ended, by its
// window or because its activity was terminated, waits to be
// written, so that its missing state means that its keys were removed;
// otherwise it returns the reason.
func (p *Places) settledWithoutState(ctx context.Context, it *catalogue.Item, why error) error {
	state, err := p.grants.State(ctx)
	if err != nil {
		return errors.Join(why, err)
	}
	done, err := p.grants.Done(ctx, it.ID, state.Last)
	if err != nil || !done {
		return errors.Join(why, err)
	}
	return nil
}
