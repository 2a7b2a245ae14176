package failpoint

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrInjected is what a point armed with error returns, wrapped with its name.
var ErrInjected = errors.New("failpoint: injected error")

// Point is a named place in the code. All are in the table.
type Point struct {
	name  string
	about string
	fails bool // it stands where an error can be returned
	armed atomic.Pointer[arming]
}

// Name is what STAMPEDE_FAILPOINTS calls the point.
func (p *Point) Name() string { return p.name }

// About says in a sentence where the process is when it reaches the point.
func (p *Point) About() string { return p.about }

// Pass is reached where nothing can fail any more. It returns at once, after a
// pause, or never.
func (p *Point) Pass() {
	if a := p.armed.Load(); a != nil {
		_ = a.hit(p) // parse lets no error be armed here
	}
}

// Err is Pass for a place whose caller handles errors.
func (p *Point) Err() error {
	if a := p.armed.Load(); a != nil {
		return a.hit(p)
	}
	return nil
}

// action is what happens at an armed point.
type action uint8

const (
	kill action = iota
	fail
	pause
)

// arming is a point's action and when it is due. Only hits changes.
type arming struct {
	action action
	nth    int64
	pause  time.Duration
	notify io.Writer
	hits   atomic.Int64
}

// hit counts and acts when it is time.
func (a *arming) hit(p *Point) error {
	n := a.hits.Add(1)
	if n != a.nth {
		return nil
	}
	// Written before the action, unbuffered: a test that finds the process gone
	// finds out here whether it was the point.
	_, _ = fmt.Fprintf(a.notify, "stampede: fail point %s reached, hit %d: %s\n", p.name, n, a)
	switch a.action {
	case pause:
		<-time.After(a.pause)
		return nil
	case fail:
		return fmt.Errorf("%w at %s", ErrInjected, p.name)
	default:
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGKILL); err != nil {
			panic(err) // a process may always end itself
		}
		select {} // the signal comes within microseconds; nothing more may happen here
	}
}

// String is the action as STAMPEDE_FAILPOINTS writes it.
func (a *arming) String() string {
	switch a.action {
	case kill:
		return "kill"
	case fail:
		return "error"
	default:
		return "pause:" + a.pause.String()
	}
}
