package httpx

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// bodyTimeout bounds the sending of a body. It fits one packet nearly always.
	bodyTimeout = 5 * time.Second
	// smallBody fits every body that a shopper or a provider sends. The memory of as
	// many such bodies as there are connections is what the connections take anyway.
	smallBody = 4 << 10
	// mostLarge bodies, of up to defaultMaxBody, are 32 MiB; one address gets an
	// eighth. Operators, who send whole activities, need none of these places.
	mostLarge          = 512
	mostLargeOfAddress = mostLarge / 8
)

// errTooManyBodies refuses a request before its body is read.
var errTooManyBodies = errOverloaded.Saying("Too many requests of this address are still being sent. Try again in a moment.")

// bodies are the request bodies that are being received. A body is in memory before
// its request takes a place in the gate: otherwise some hundred clients that send
// slowly would hold the places of all others.
type bodies struct {
	// ofAddress bounds the unfinished bodies of one address; 0 is no bound.
	ofAddress int
	unbounded func(netip.Addr) bool // addresses of many clients
	timeout   time.Duration         // bodyTimeout except in tests

	small, large tally
}

// tally counts by address.
type tally struct {
	mu  sync.Mutex
	all int
	of  map[netip.Prefix]int
}

// enter counts one unless a bound is reached; 0 is none.
func (t *tally) enter(of netip.Prefix, mostOf, most int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if most > 0 && t.all >= most || mostOf > 0 && t.of[of] >= mostOf {
		return false
	}
	if t.of == nil {
		t.of = map[netip.Prefix]int{}
	}
	t.all++
	t.of[of]++
	return true
}

func (t *tally) leave(of netip.Prefix) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.of[of]--; t.of[of] == 0 {
		delete(t.of, of)
	}
}

// first reads up to most bytes of a request's body, and one more, into memory. The
// handler deals with a longer body, and with one that failed or was late. An error
// means that the request was refused.
func (b *bodies) first(w http.ResponseWriter, r *http.Request, most int64, trusted bool) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	client := ClientAddr(r.Context())
	mostOf, mostLargeOf, of := b.ofAddress, mostLargeOfAddress, netip.Prefix{}
	if client.IsValid() {
		networks := networksOf(client)
		of = networks[len(networks)-1]
	}
	if !client.IsValid() || b.unbounded(client) {
		mostOf, mostLargeOf = 0, 0
	}
	if !b.small.enter(of, mostOf, 0) {
		unread(w)
		return errTooManyBodies.After(comeBack())
	}
	defer b.small.leave(of)
	// A recorder in a test has no deadlines.
	deadline := http.NewResponseController(w)
	_ = deadline.SetReadDeadline(time.Now().Add(b.timeout))
	var start bytes.Buffer
	_, err := io.CopyN(&start, r.Body, min(smallBody, most+1))
	if err == nil && most >= smallBody {
		if !trusted {
			if !b.large.enter(of, mostLargeOf, mostLarge) {
				unread(w)
				return errTooManyBodies.After(comeBack())
			}
			defer b.large.leave(of)
		}
		_, err = io.CopyN(&start, r.Body, most+1-smallBody)
	}
	rest := io.Reader(r.Body)
	switch {
	case err == nil, errors.Is(err, io.EOF):
		_ = deadline.SetReadDeadline(time.Time{})
	default:
		unread(w)
		rest = failing{err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(&start, rest), r.Body}
	return nil
}

// unread makes net/http answer without waiting for the rest of the body.
func unread(w http.ResponseWriter) { w.Header().Set("Connection", "close") }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
