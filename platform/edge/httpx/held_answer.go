package httpx

import (
	"bytes"
	"net/http"
	"sync"
)

// mostHeldBytes is how much of an answer waits for its end: pages of lists fit. A
// longer one gives its place back when it begins to be sent.
const mostHeldBytes = 64 << 10

var heldBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// heldAnswer keeps an answer in memory until its request has given its place in the
// gate back: a client that receives slowly holds no place.
type heldAnswer struct {
	http.ResponseWriter
	leave  func() // gives the place back
	buffer *bytes.Buffer
	status int
	sent   bool // everything so far, and leave was called
}

func holdAnswer(w http.ResponseWriter, leave func()) *heldAnswer {
	return &heldAnswer{ResponseWriter: w, leave: leave, buffer: heldBuffers.Get().(*bytes.Buffer)} //nolint:errcheck // the pool holds nothing else
}

// WriteHeader notes the status.
func (a *heldAnswer) WriteHeader(status int) {
	if a.sent || status < http.StatusOK { // an interim answer such as 103
		a.ResponseWriter.WriteHeader(status)
		return
	}
	if a.status == 0 {
		a.status = status
	}
}

// Write keeps p, or sends it if the answer has become too long.
func (a *heldAnswer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if !a.sent && a.buffer.Len()+len(p) <= mostHeldBytes {
		return a.buffer.Write(p)
	}
	a.send()
	return a.ResponseWriter.Write(p) //nolint:wrapcheck // as http.ResponseWriter's
}

// send gives the place back and sends what was written so far.
func (a *heldAnswer) send() {
	if a.sent {
		return
	}
	a.sent = true
	a.leave()
	if a.status != 0 {
		a.ResponseWriter.WriteHeader(a.status)
	}
	if a.buffer.Len() > 0 {
		_, _ = a.ResponseWriter.Write(a.buffer.Bytes()) // the client may have left
	}
}

// drop gives the place back if send did not, as after a panic, and frees the buffer.
func (a *heldAnswer) drop() {
	if !a.sent {
		a.sent = true
		a.leave()
	}
	a.buffer.Reset()
	heldBuffers.Put(a.buffer)
	a.buffer = nil
}

// Flush sends what was written so far: the answer is a stream.
func (a *heldAnswer) Flush() {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	a.send()
	_ = http.NewResponseController(a.ResponseWriter).Flush() // it fails only if the client has left
}

// Status is the status so far; 0 before the first write.
func (a *heldAnswer) Status() int { return a.status }

// Unwrap supports http.ResponseController.
func (a *heldAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
