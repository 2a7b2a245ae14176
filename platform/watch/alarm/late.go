package alarm

import (
	"context"
	"fmt"
	"sync"

	"stampede/platform/store/pg"
)

// mostLate bounds the memory for alarms that Postgres has not accepted: far more
// than an outage has causes. Above it the first ones show the problem.
const mostLate = 100

// Late raises alarms that must survive an outage of Postgres: an alarm that is not
// accepted is kept, once per code and subject, until Record writes it. Kept alarms
// end with the process. The zero value is ready to use; safe for concurrent use.
type Late struct {
	mu  sync.Mutex
	due map[place]occurrence
}

// place identifies an alarm.
type place struct {
	code    Code
	subject string
}

// Raise is d.Raise; an error means that the alarm is kept.
func (l *Late) Raise(ctx context.Context, db pg.DB, d *Definition, subject, detail string) error {
	return l.raise(ctx, db, newOccurrence(d, subject, detail))
}

func (l *Late) raise(ctx context.Context, db pg.DB, o occurrence) error {
	l.mu.Lock()
	at := place{o.alarm.Code, o.subject}
	if before, ok := l.due[at]; ok { // both update one row
		delete(l.due, at)
		o = before.with(o)
	}
	l.mu.Unlock()
	return l.try(ctx, db, o)
}

// Record writes the kept alarms. It stops at the first failure, and keeps that alarm
// and the rest. Without kept alarms it does not call Postgres.
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

// any takes one of the kept alarms.
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
		return fmt.Errorf("%w (dropped, %d alarms are kept already)", err, mostLate)
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
		o.last, o.detail, o.over = later.last, later.detail, later.over
	}
	o.count += later.count
	return o
}
