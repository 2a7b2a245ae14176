package alarm

import (
	"context"
	"fmt"
	"sync"

	"stampede/platform/store/pg"
)

// mostLate bounds the memory for alarms that Postgres has not taken: far more than
// an outage has causes. Beyond it the first ones show what is wrong.
const mostLate = 100

// Late raises alarms that must outlive an outage of Postgres: one that is not
// taken is kept, once per code and subject, until Record gets it through. What is
// kept ends with the process. The zero value is ready; safe for concurrent use.
type Late struct {
	mu  sync.Mutex
	due map[place]occurrence
}

// place is what alarms are told apart by.
type place struct {
	code    Code
	subject string
}

// Raise is d.Raise; an error says that the alarm is kept.
func (l *Late) Raise(ctx context.Context, db pg.DB, d *Definition, subject, detail string) error {
	return l.raise(ctx, db, newOccurrence(d, subject, detail))
}

func (l *Late) raise(ctx context.Context, db pg.DB, o occurrence) error {
	l.mu.Lock()
	at := place{o.alarm.Code, o.subject}
	if before, ok := l.due[at]; ok { // both become one row's news
		delete(l.due, at)
		o = before.with(o)
	}
	l.mu.Unlock()
	return l.try(ctx, db, o)
}

// Record writes down what is kept. It ends at the first that is not taken, which
// stays kept with those behind it. With nothing kept it asks nobody.
func (l *Late) Record(ctx context.Context, db pg.DB) error {
	for {
		o, ok := l.any()
		if !ok {
			return nil
		}
		if err := l.try(ctx, db, o); err != nil {
			return err
		}
	}
}

// any takes one of those that are kept.
func (l *Late) any() (occurrence, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, o := range l.due {
		delete(l.due, at)
		return o, true
	}
	return occurrence{}, false
}

// try records an occurrence or keeps it.
func (l *Late) try(ctx context.Context, db pg.DB, o occurrence) error {
	err := record(ctx, db, o)
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := place{o.alarm.Code, o.subject}
	if meanwhile, ok := l.due[at]; ok {
		o = o.with(meanwhile)
	} else if len(l.due) >= mostLate {
		return fmt.Errorf("%w (not kept beside %d others)", err, mostLate)
	}
	if l.due == nil {
		l.due = make(map[place]occurrence)
	}
	l.due[at] = o
	return err
}

// with adds a later occurrence.
func (o occurrence) with(later occurrence) occurrence {
	if later.first.Before(o.first) {
		o.first = later.first
	}
	if !later.last.Before(o.last) {
		o.last, o.detail = later.last, later.detail
	}
	o.count += later.count
	return o
}
