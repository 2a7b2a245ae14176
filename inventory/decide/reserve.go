package decide

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/platform/base/ids"
)

// Service asks Redis for decisions and holders.
type Service struct {
	*stock.Store
	metrics *metrics
	// Granted has what this process was granted and publishes, with SingleInstance: item id → *granting.
	Granted sync.Map
	unasked granting
}

// New returns the service.
func New(store *stock.Store) *Service {
	return &Service{Store: store, metrics: newMetrics(store.Metrics)}
}

// Reserve decides up to MaxBatch attempts for an item in one script call and writes the answers to into, whose
// Results are reused. epoch is the one that the caller knows: if it is another one, or the item is not open, nothing
// is decided and into says why.
//
// An error that redisx.Refused knows means that Redis has not decided. Any other means that the outcome is not known:
// Redis may have decided and the answer may be lost. A retry with the same numbers is safe; grants of the lost call
// are then answered Repeated, and the hold sweeper publishes them.
func (s *Service) Reserve(ctx context.Context, item stock.Item, epoch int64, attempts []Attempt, into *Decision) error {
	results := into.Results[:0]
	*into = Decision{Results: results}
	if len(attempts) == 0 || len(attempts) > MaxBatch {
		return fmt.Errorf("inventory: a batch has 1 to %d attempts, got %d", MaxBatch, len(attempts))
	}
	call := callPool.Get().(*reserveCall) //nolint:errcheck // the pool holds nothing else
	defer callPool.Put(call)
	if err := call.fill(item, epoch, attempts); err != nil {
		return err
	}
	started := time.Now()
	g := s.granting(item.ID)
	g.deciding.RLock()
	defer g.deciding.RUnlock()
	r, err := lua.Reserve.Call(ctx, s.Redis, reserveFigures, call.keys, call.args...)
	if err != nil {
		s.metrics.failures.Inc()
		return err
	}
	s.metrics.reserve.Observe(time.Since(started).Seconds())
	if err := into.read(r, len(attempts)); err != nil {
		return err
	}
	if into.Shards > 0 {
		s.SeeShards(item.ID, into.Epoch, into.Shards)
	}
	if slices.ContainsFunc(into.Results, Result.waits) {
		s.NotePublishing(item.ID)
	}
	s.metrics.count(into)
	return nil
}

// reserveCall is the memory of one call, reused between calls: every argument is a pointer to a string sliced from
// one buffer, so that a batch of 512 allocates once and not a thousand times.
type reserveCall struct {
	keys []string
	buf  []byte
	ends []int
	text []string
	args []any
}

var callPool = sync.Pool{New: func() any { return new(reserveCall) }}

func (c *reserveCall) fill(item stock.Item, epoch int64, attempts []Attempt) error {
	c.keys = item.AppendKeys(c.keys[:0], epoch)
	c.buf, c.ends = c.buf[:0], c.ends[:0]
	c.number(epoch)
	c.number(item.ID)
	c.number(int64(len(attempts)))
	for i := range attempts {
		c.number(attempts[i].User)
	}
	c.buf = append(c.buf, stock.WeightField...)
	c.ends = append(c.ends, len(c.buf))
	for i := range attempts {
		a := &attempts[i]
		if a.Quantity < 1 || a.PayWithin < 0 || a.No.IsZero() {
			return fmt.Errorf("inventory: attempt %d of item %d has quantity %d, %d s to pay and number %s", i, item.ID, a.Quantity, a.PayWithin, a.No)
		}
		c.buf = hex.AppendEncode(c.buf, a.No[:])
		if a.Quantity > 1 || a.PayWithin > 0 {
			c.buf = append(c.buf, ':')
			c.buf = strconv.AppendInt(c.buf, int64(a.Quantity), 10)
		}
		if a.PayWithin > 0 {
			c.buf = append(c.buf, ':')
			c.buf = strconv.AppendInt(c.buf, int64(a.PayWithin), 10)
		}
		c.ends = append(c.ends, len(c.buf))
	}
	all := string(c.buf) // one copy for the whole batch
	c.text = c.text[:0]
	start := 0
	for _, end := range c.ends {
		c.text = append(c.text, all[start:end])
		start = end
	}
	c.args = c.args[:0]
	for i := range c.text {
		c.args = append(c.args, &c.text[i])
	}
	return nil
}

// number appends v in decimal and ends the argument there.
func (c *reserveCall) number(v int64) {
	c.buf = strconv.AppendInt(c.buf, v, 10)
	c.ends = append(c.ends, len(c.buf))
}

// reserveFigures is how many integers are at the start of reserve.lua's answer.
const reserveFigures = 10

var verdictOf = [256]struct {
	Verdict
	known bool
}{
	'g': {Granted, true}, 'r': {Repeated, true}, 'b': {AlreadyBought, true}, 'n': {NotEnough, true},
	's': {SoldOut, true}, 'h': {AllHeld, true}, 'f': {Finished, true}, 'l': {OverLimit, true},
}

// read decodes the script's answer.
func (d *Decision) read(r lua.Reply, attempts int) error {
	gate := r.Int(0)
	if gate < 0 || gate > int64(Paused) {
		return fmt.Errorf("inventory: reserve.lua: gate %d: %w", gate, lua.ErrReply)
	}
	d.Gate = Gate(gate)
	d.Epoch, d.Remaining, d.Committed, d.Total = r.Int(1), r.Int(2), r.Int(3), r.Int(4)
	d.Seq, d.Persisted, d.Rel = r.Int(5), r.Int(6), r.Int(7)
	d.OpensIn, d.Shards = time.Duration(r.Int(8))*time.Millisecond, int16(r.Int(9)) //nolint:gosec // at most stock.MostShards
	if d.Gate != Open {
		return nil
	}
	letters, err := r.Text(reserveFigures)
	if err != nil {
		return err
	}
	if len(letters) != attempts {
		return fmt.Errorf("inventory: reserve.lua: %d verdicts for %d attempts: %w", len(letters), attempts, lua.ErrReply)
	}
	granted, extra := int64(0), reserveFigures+1
	for i := range len(letters) {
		v := verdictOf[letters[i]]
		if !v.known {
			return fmt.Errorf("inventory: reserve.lua: verdict %q: %w", letters[i], lua.ErrReply)
		}
		res := Result{Verdict: v.Verdict}
		switch v.Verdict {
		case Granted:
			granted++
			res.Seq = granted // becomes absolute below, once their count is known
		case Repeated, AlreadyBought:
			text, err := r.Text(extra)
			if err != nil {
				return err
			}
			extra++
			if v.Verdict == Repeated {
				res.Seq, err = strconv.ParseInt(text, 10, 64)
			} else {
				err = res.other(text)
			}
			if err != nil {
				return fmt.Errorf("inventory: reserve.lua: %w", err)
			}
		default: // the letter is the whole answer
		}
		d.Results = append(d.Results, res)
	}
	for i := range d.Results {
		if d.Results[i].Verdict == Granted {
			d.Results[i].Seq += d.Seq - granted
		}
	}
	return nil
}

// other reads the number that blocks a grant: alone, or with ":<quantity>:<sequence>[:<seconds>]" while it waits for
// its order.
func (r *Result) other(text string) (err error) {
	number, hold, waits := strings.Cut(text, ":")
	if r.Other, err = ids.Parse(number); err != nil || !waits {
		return err
	}
	quantity, rest, _ := strings.Cut(hold, ":")
	units, err := strconv.ParseInt(quantity, 10, 32)
	if err != nil {
		return fmt.Errorf("quantity of %s: %w", number, err)
	}
	r.Quantity = int32(units)
	seq, seconds, shorter := strings.Cut(rest, ":")
	if r.Seq, err = strconv.ParseInt(seq, 10, 64); err != nil {
		return fmt.Errorf("sequence of %s: %w", number, err)
	}
	if !shorter {
		return nil
	}
	within, err := strconv.ParseInt(seconds, 10, 32)
	if err != nil {
		return fmt.Errorf("payment window of %s: %w", number, err)
	}
	r.PayWithin = int32(within)
	return nil
}
