// Package failpoint lets a test end the process at a named place: after Redis has
// decided and before the message is stored, after a commit and before its
// acknowledgement, and so on. The crash is a real SIGKILL, which runs no
// deferred calls; the kill point tests check how the next start recovers from
// it.
//
// The places are always compiled in, so that the tested binary is the shipped
// one. While nothing is armed, as in every production process, reaching one
// costs an atomic load and allocates nothing.
//
// The package that reaches a point declares it (New, NewErr). Only the
// environment variable STAMPEDE_FAILPOINTS arms a point, and only when the
// process starts:
//
//	STAMPEDE_FAILPOINTS=decided=kill@3,stored=error
//
// reads as "the third time that decided is reached, die; the first time that stored
// is reached, fail". The actions are kill, error and pause:DURATION;
// @n defaults to 1. An unknown name or action aborts the start, since a test
// that waits for a kill that never comes proves nothing. Every command warns on
// standard error while the variable is set.
//
// # Concurrency
//
// Points may be reached from any goroutine. The action runs in the goroutine
// that made the n-th hit; the others continue meanwhile, as they would around a
// crash.
package failpoint

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrInjected is what a point armed with error returns, wrapped with its name.
var ErrInjected = errors.New("failpoint: injected error")

// point is a named place in the code.
type point struct {
	name  string
	about string // where the process is when it reaches the point
	fails bool   // an error can be returned here
	armed atomic.Pointer[arming]
}

func (p *point) reach() error {
	if a := p.armed.Load(); a != nil {
		return a.hit(p)
	}
	return nil
}

// Point marks a place where the caller can no longer return an error.
type Point struct{ point }

// Pass returns immediately, after a pause, or never.
func (p *Point) Pass() { _ = p.reach() } // parse refuses the error action here

// ErrPoint marks a place where the caller handles errors.
type ErrPoint struct{ point }

// Err is like Pass but returns an error if one is armed.
func (p *ErrPoint) Err() error { return p.reach() }

// table contains every point of the program. It is complete before main runs.
var table = map[string]*point{}

// New declares a point. about says in a sentence where the process is when it
// reaches it. Call it only to initialize package variables, and reach each
// point from one place in the code; otherwise a crash does not tell where it
// was.
func New(name, about string) *Point {
	p := &Point{point{name: name, about: about}}
	p.declare()
	return p
}

// NewErr declares a point at which an error can be injected as well.
func NewErr(name, about string) *ErrPoint {
	p := &ErrPoint{point{name: name, about: about, fails: true}}
	p.declare()
	return p
}

// declare adds the point to the table. A duplicate name, or one that does not
// fit the variable's syntax, is a programming error and panics.
func (p *point) declare() {
	if table[p.name] != nil || strings.ContainsAny(p.name, "=,@ ") {
		panic("failpoint: " + p.name + " is declared twice or is not a valid name")
	}
	table[p.name] = p
}

// Names lists the program's points in order.
func Names() []string { return slices.Sorted(maps.Keys(table)) }

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

// hit counts the hit and runs the action when it is due.
func (a *arming) hit(p *point) error {
	n := a.hits.Add(1)
	if n != a.nth {
		return nil
	}
	// Written unbuffered before the action: a test that finds the process gone
	// can tell from it whether the point killed it.
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
		select {} // the signal arrives within microseconds; nothing else may run here
	}
}

// String formats the action as STAMPEDE_FAILPOINTS spells it.
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
