package order

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"stampede/inventory"
)

// asideMost bounds the memory for messages that are set aside. An item's grants
// in line are bounded by the rush, so this is many items in trouble; messages
// beyond it are redelivered after the ack wait.
const asideMost = 50_000

// asidePanic keeps messages that make the writer panic from doing so in a tight
// loop.
const asidePanic = time.Second

// aside holds the messages of items that the writer's set could not pass,
// because another transaction keeps a row locked: a client that froze, or an
// operator's session. Each item has a queue in stream order, which its own
// goroutine writes; meanwhile its later messages follow it there, and the writer
// goes on with the other items. The messages stay unacknowledged and are kept,
// so that they are not redelivered. Safe for concurrent use.
type aside struct {
	mu     sync.Mutex
	queues map[int64][]message // an item has one while a goroutine writes it
	count  int                 // of messages in all queues

	// slots bounds the connections of the module that the items share: each
	// attempt may spend its time waiting for a lock.
	slots   chan struct{}
	working sync.WaitGroup
}

// newAside leaves two thirds of the module's connections to the others.
func newAside(conns int32) aside {
	return aside{queues: make(map[int64][]message), slots: make(chan struct{}, max(conns/3, 1))}
}

// follow puts the messages of items that are set aside behind those that wait
// and returns the others.
func (a *aside) follow(messages []message) (rest []message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queues) == 0 {
		return messages
	}
	for _, m := range messages {
		if _, waits := a.queues[m.batch.ItemID]; waits {
			a.add(m)
		} else {
			rest = append(rest, m)
		}
	}
	return rest
}

func (a *aside) add(m message) {
	if a.count >= asideMost {
		return
	}
	m.Keep()
	a.queues[m.batch.ItemID] = append(a.queues[m.batch.ItemID], m)
	a.count++
}

// setAside gives each item of a set that could not pass a goroutine of its own;
// those that are not locked are done in milliseconds.
func (w *writer) setAside(ctx context.Context, stop <-chan struct{}, messages []message) {
	a := &w.aside
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range messages {
		item := m.batch.ItemID
		_, waits := a.queues[item]
		a.add(m)
		if !waits && a.queues[item] != nil {
			a.working.Go(func() { w.writeAside(ctx, stop, item) })
		}
	}
}

// writeAside writes an item's messages in order until none are left or stop
// closes.
func (w *writer) writeAside(ctx context.Context, stop <-chan struct{}, item int64) {
	ctx, cancel := untilStopped(ctx, stop)
	defer cancel()
	drained := false // the item's queue, if it has one again, is another goroutine's
	defer func() {
		left := time.Duration(0)
		if r := recover(); r != nil {
			left = asidePanic
			w.deps.Log.ErrorContext(ctx, "writing an item's orders panicked", "item_id", item, "panic", r, "stack", string(debug.Stack()))
		}
		if drained {
			return
		}
		for _, m := range w.aside.leave(item) {
			_ = m.Nak(left) // without a connection the ack wait has the same effect
		}
	}()
	alarmAt, alarmed := time.Now().Add(20*w.cfg.LockWait), false // beyond what Postgres ends by itself
	for {
		set := w.asideSet(item)
		if drained = len(set) == 0; drained {
			break
		}
		switch w.writeInSlot(ctx, stop, set) {
		case committed:
			w.aside.done(item, len(set))
			continue
		case locked:
			if now := time.Now(); now.After(alarmAt) {
				alarmAt, alarmed = now.Add(w.cfg.MaxRetryDelay), true
				w.deps.Log.WarnContext(ctx, "orders of an item wait for a locked row", "item_id", item, "messages", len(set))
				w.raiseAlarm(ctx, inventory.ItemSubject(item), fmt.Sprintf("At least %d messages wait: another transaction keeps a row locked. Find it in pg_stat_activity.", len(set)))
			}
			if pause(stop, w.cfg.LockWait/10) {
				continue
			}
		case stopped:
		}
		return
	}
	if alarmed {
		w.unstuck(context.WithoutCancel(ctx))
	}
}

// writeInSlot writes once there is a slot, which it frees also when it panics.
func (w *writer) writeInSlot(ctx context.Context, stop <-chan struct{}, set []message) ending {
	select {
	case w.aside.slots <- struct{}{}:
	case <-ctx.Done():
		return stopped
	}
	defer func() { <-w.aside.slots }()
	return w.writeTogether(ctx, stop, set, w.cfg.LockWait/4)
}

// asideSet returns the first messages of an item's queue, as many as one
// transaction takes. An empty queue is removed: the writer's set takes the
// item's next messages again.
func (w *writer) asideSet(item int64) []message {
	w.aside.mu.Lock()
	defer w.aside.mu.Unlock()
	queue := w.aside.queues[item]
	if len(queue) == 0 {
		delete(w.aside.queues, item)
	}
	return queue[:w.together(queue)]
}

// done removes the first n messages of an item's queue.
func (a *aside) done(item int64, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queues[item] = a.queues[item][n:]
	a.count -= n
}

// leave removes an item's queue and returns its messages.
func (a *aside) leave(item int64) []message {
	a.mu.Lock()
	defer a.mu.Unlock()
	queue := a.queues[item]
	delete(a.queues, item)
	a.count -= len(queue)
	return queue
}
