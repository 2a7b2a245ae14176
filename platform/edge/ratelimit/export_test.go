package ratelimit

import (
	"context"
	"time"
)

// TakeAt lets Redis alone decide, at a given time in Unix microseconds. It returns
// how far ahead each subject's TAT lies.
func (l *Limiter) TakeAt(micros int64, asks ...Ask) (ahead []time.Duration, taken bool, err error) {
	l.nowMicros = micros
	subjects := make([]subject, len(asks))
	for i, a := range asks {
		subjects[i] = subjectOf(a)
	}
	return l.takeThere(context.Background(), asks, subjects)
}

// Await advances the limiter's memory by d.
func (l *Limiter) Await(d time.Duration) { l.began = l.began.Add(-d) }

// Interval is the time in which one unit is refilled.
func (r Rule) Interval() time.Duration { return r.interval() }
