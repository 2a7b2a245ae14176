package httpx

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"stampede/platform/edge/plainhttp"
)

// This file answers plain requests inside the read with which net/http waits for a
// request. That saves net/http's header maps, its reader that watches for the client's
// leaving, and its writer: see adr/0052.

// plainState is what a connection knows about its plain requests, which net/http does not see;
// it regards the connection as idle meanwhile.
type plainState struct {
	phase atomic.Int32 // idlePhase, answering or closing
	// unknown says that net/http has had none of its requests, which were plain: it does
	// not regard the connection as idle when it shuts down.
	unknown atomic.Bool

	// What follows belongs to the goroutine that serves the connection.
	turn    turn
	room    int           // net/http's buffer when it is empty, in bytes
	renewed time.Duration // when its time to be idle last began, since list.began; below 0 if it has sent no request
	overdue bool          // net/http is about to set a deadline that counts from its opening
}

// The phases of a connection.
const (
	idlePhase int32 = iota
	answering       // a plain request
	closing         // Close was called
)

// turn is how far net/http is with a connection.
type turn uint8

const (
	begun    turn = iota // it reads a request, or answers it
	answered             // it is about to wait for the next request
	waiting              // it has set the deadline for that, and waits
	opening              // it waits for the first request
)

const (
	// stalePeer is after what time in line a client is asked whether it is still there:
	// the system call would cost a tenth of an attempt, and few leave in less.
	stalePeer = 100 * time.Millisecond
	// renewEvery is how often a connection's time to be idle begins anew while it sends
	// plain requests.
	renewEvery = idleTimeout / 4
)

// Read reads for net/http, which sees nothing of the plain requests that it answers.
func (c *conn) Read(p []byte) (int, error) {
	for {
		n, err := c.read(p)
		if c.turn != opening && c.turn != waiting {
			return n, err
		}
		if c.room == 0 {
			c.room = len(p) // the first read
		}
		// Less room is a request that has begun in net/http's buffer.
		if c.list.direct == nil || len(p) != c.room || n == 0 {
			return n, c.handOver(n, err)
		}
		rest, broken := c.answerPlain(p[:n])
		switch {
		case broken != nil:
			return 0, broken
		case len(rest) > 0:
			n = copy(p, rest)
			return n, c.handOver(n, err)
		case err != nil:
			return 0, err
		}
	}
}

// handOver precedes net/http's getting the n bytes of a request.
func (c *conn) handOver(n int, err error) error {
	if n == 0 {
		return err
	}
	// net/http counts the time of a first request from the opening, which may be long ago
	// where plain requests came before it.
	if c.turn == opening && c.renewed >= 0 {
		c.overdue = true
		c.unknown.Store(false)
		if late := c.Conn.SetReadDeadline(time.Now().Add(readHeaderTimeout)); late != nil {
			return late
		}
	}
	c.turn = begun
	return err
}

// SetReadDeadline sets the read deadline. Between two requests net/http sets one for the
// wait and the next when it has the first bytes of a request, which it may have had in
// its buffer: what is read from then on belongs to that request.
func (c *conn) SetReadDeadline(t time.Time) error {
	switch {
	case c.overdue: // for the rest of a first request
		c.overdue, t = false, time.Now().Add(readTimeout)
	case c.turn == answered:
		c.turn = waiting
	case c.turn == waiting:
		c.turn = begun
	}
	return c.Conn.SetReadDeadline(t)
}

// answerPlain answers the plain requests of the direct route at the beginning of b, and
// returns what remains, which is for net/http. An error closes the connection.
func (c *conn) answerPlain(b []byte) (rest []byte, err error) {
	d := c.list.direct
	var r plainhttp.Request
	done := true
	defer func() {
		if !done { // the handler panicked, and net/http is about to close the connection
			c.phase.Store(idlePhase)
		}
	}()
	for len(b) > 0 {
		n := 0
		if bytes.HasPrefix(b, []byte(plainhttp.Method)) {
			n = r.Read(string(b))
		}
		last, ok := d.find(r.Path)
		if n == 0 || !ok || r.Origin && !d.sameOrigin {
			return b, nil
		}
		if !c.phase.CompareAndSwap(idlePhase, answering) {
			return nil, net.ErrClosed
		}
		done = false
		err := c.answer(d, &r, last)
		done, b = true, b[n:]
		if !c.phase.CompareAndSwap(answering, idlePhase) { // the server closed it meanwhile
			_ = c.close()
			return nil, net.ErrClosed
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// answer answers one request; io.EOF ends the connection in good order.
func (c *conn) answer(d *direct, r *plainhttp.Request, last string) error {
	c.idle.Store(busy)
	now := c.list.now()
	e := exchanges.Get().(*exchange) //nolint:errcheck // the pool holds nothing else
	defer exchanges.Put(e)
	defer func() { e.conn = nil }()
	e.conn, e.since = c, now
	e.req = DirectRequest{Last: last, AcceptLanguage: r.AcceptLanguage, Left: e.left}
	e.reply = DirectAnswer{RequestID: r.RequestID, Body: e.reply.Body[:0]}
	if !validRequestID(r.RequestID) {
		e.reply.RequestID = newRequestID()[0]
	}
	d.handler(context.Background(), &e.req, &e.reply)
	closes := c.list.draining.Load()
	e.out = e.reply.append(e.out[:0], d.fields, closes)
	if _, err := c.Write(e.out); err != nil {
		return err
	}
	now = c.list.now()
	c.asked.Store(int64(now))
	c.idle.Store(int64(now))
	if c.turn == opening {
		c.unknown.Store(true)
	}
	if closes || c.list.draining.Load() {
		return io.EOF
	}
	if now-c.renewed >= renewEvery {
		c.renewed = now
		return c.Conn.SetReadDeadline(time.Now().Add(idleTimeout))
	}
	return nil
}

// hasLeft is DirectRequest.Left on the wire. Nothing reads from the connection while a plain
// request is answered, so the system is asked, without taking what it has.
func (e *exchange) hasLeft() bool {
	if e.conn.list.now()-e.since < stalePeer {
		return false
	}
	return gone(e.conn.Conn)
}

// gone reports whether the other side has closed the connection.
func gone(nc net.Conn) (gone bool) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) { // Read would fail where net/http's deadline has passed
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)      //nolint:gosec // a descriptor
		gone = n == 0 && err == nil || err != nil && err != syscall.EAGAIN && err != syscall.EINTR //nolint:errorlint // system calls return them bare
	})
	return gone || err != nil
}

// Close closes and unregisters the connection, while a plain request is answered with
// the end of that: net/http closes idle connections to shut down.
func (c *conn) Close() error {
	if c.phase.CompareAndSwap(answering, closing) {
		return nil
	}
	c.phase.CompareAndSwap(idlePhase, closing)
	return c.close()
}

// answering reports whether a plain request is being answered.
func (l *connections) answering() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.all.members {
		if c.phase.Load() != idlePhase {
			return true
		}
	}
	return false
}

// closeUnknown closes the connections that only had plain requests and wait for the next.
func (l *connections) closeUnknown() {
	var all []*conn
	l.mu.Lock()
	for c := range l.all.members {
		if c.unknown.Load() && c.phase.CompareAndSwap(idlePhase, closing) {
			all = append(all, c)
		}
	}
	l.mu.Unlock()
	for _, c := range all {
		_ = c.close()
	}
}
