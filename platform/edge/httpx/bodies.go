package httpx

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/ratelimit"
)

const (
	// bodyTimeout bounds the sending of a body. It fits one packet nearly always.
	bodyTimeout = 5 * time.Second
	// smallBody fits every body that a shopper or a provider sends. The memory of as
	// many such bodies as there are connections is what the connections take anyway.
	smallBody = 4 << 10
	// mostLarge bodies, of up to defaultMaxBody, are 32 MiB, and twice that if all of them
	// are forms of the back office; one address gets an eighth. Operators, who send whole
	// activities, need none of these places.
	mostLarge          = 512
	mostLargeOfAddress = mostLarge / 8
)

// errTooManyBodies refuses a request before its body is read.
var errTooManyBodies = errOverloaded.Saying(
	fault.T("Too many requests of this address are still being sent. Try again in a moment.", "该地址正在发送的请求过多，请稍后重试。"))

// bodies are the request bodies that are being received. A body is in memory before
// its request takes a place in the gate: otherwise some hundred clients that send
// slowly would hold the places of all others.
type bodies struct {
	// ofAddress bounds the unfinished bodies of one address; 0 is no bound.
	ofAddress int
	timeout   time.Duration // bodyTimeout except in tests

	small, large ratelimit.Places
}

// first reads up to most bytes of a request's body, and one more, into memory. The
// handler deals with a longer body, and with one that failed or was late. Bounds per
// address do not apply to a shared one, and those of large bodies to no trusted client.
// An error means that the request was refused.
func (b *bodies) first(w http.ResponseWriter, r *http.Request, most int64, shared, trusted bool) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	client := ClientAddr(r.Context())
	mostOf, mostLargeOf := b.ofAddress, mostLargeOfAddress
	if shared {
		mostOf, mostLargeOf = 0, 0
	}
	if !b.small.Enter(client, mostOf, 0) {
		unread(w)
		return errTooManyBodies.After(comeBack())
	}
	defer b.small.Leave(client)
	// A recorder in a test has no deadlines.
	deadline := http.NewResponseController(w)
	_ = deadline.SetReadDeadline(time.Now().Add(b.timeout))
	var start bytes.Buffer
	_, err := io.CopyN(&start, r.Body, min(smallBody, most+1))
	if err == nil && most >= smallBody {
		if !trusted {
			if !b.large.Enter(client, mostLargeOf, mostLarge) {
				unread(w)
				return errTooManyBodies.After(comeBack())
			}
			defer b.large.Leave(client)
		}
		_, err = io.CopyN(&start, r.Body, most+1-smallBody)
	}
	rest := io.Reader(r.Body)
	if errors.Is(err, io.EOF) {
		_ = deadline.SetReadDeadline(time.Time{})
	} else { // net/http reads on when it closes the body, so the deadline stays
		unread(w)
		if err != nil {
			rest = failing{err}
		}
	}
	// net/http closes the body, after the answer; huma would before, and wait for the rest.
	r.Body = io.NopCloser(io.MultiReader(&start, rest))
	return nil
}

// Receive reads the body of a Relayed route's request into memory, as the gate does for
// other routes: within the bounds of large bodies unless the client is trusted. The
// handler deals with a body that is longer than most bytes, and with one that failed.
func (rt *Router) Receive(w http.ResponseWriter, r *http.Request, most int64, trusted bool) error {
	return rt.gate.bodies.first(w, r, most, rt.gate.shared(ClientAddr(r.Context())), trusted)
}

// unread makes net/http answer without waiting for the rest of the body.
func unread(w http.ResponseWriter) { w.Header().Set("Connection", "close") }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
