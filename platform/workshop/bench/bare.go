package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"stampede/platform/edge/httpx"
)

// answer is a bare handler's response to every request.
type answer struct {
	Status int                 `json:"status"`
	Header map[string][]string `json:"header"`
	Body   string              `json:"body"`
	// Push is a text that each request also writes to one of the open
	// WebSockets; empty means none.
	Push string `json:"push,omitempty"`
}

// address is the address that a child reports it listens on.
type address struct {
	Addr string `json:"addr"`
}

// ballastBytes is about the size of the server's caches. A process with a
// nearly empty heap collects garbage every few thousand requests, at the cost
// of a third of its processor time; the baseline must not lose by being small.
// The bytes hold no pointers and are never touched, so they cost neither work
// nor memory.
const ballastBytes = 64 << 20

// bare is the baseline: one handler that sends the same bytes to every request,
// on the same listener as the server, with the same bounds. It reads the answer
// from in and writes its address to out.
func bare(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := json.NewDecoder(bufio.NewReader(in))
	var a answer
	if err := lines.Decode(&a); err != nil {
		return fmt.Errorf("bench: read the answer to send: %w", err)
	}
	ballast := make([]byte, ballastBytes)
	defer runtime.KeepAlive(ballast)
	srv, err := httpx.Listen(ctx, "127.0.0.1:0", httpx.Connections{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	body := []byte(a.Body)
	a.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
	open := &openSockets{text: []byte(a.Push)}
	srv.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			open.accept(ctx, w, r)
			return
		}
		maps.Copy(w.Header(), a.Header)
		w.WriteHeader(a.Status)
		_, _ = w.Write(body) // the client may be gone
		if a.Push != "" {
			open.push(ctx)
		}
	}))
	if err := json.NewEncoder(out).Encode(address{srv.Addr()}); err != nil {
		return errors.Join(err, srv.Shutdown(ctx))
	}
	_, _ = io.Copy(io.Discard, in) // until the run closes it
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return srv.Shutdown(stop)
}

// openSockets are the WebSockets of a bare handler.
type openSockets struct {
	text []byte
	mu   sync.Mutex
	next int
	all  []*websocket.Conn
}

// accept adds a socket, which is removed when the client leaves.
func (o *openSockets) accept(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // Accept has already answered
	}
	gone := conn.CloseRead(ctx)
	o.mu.Lock()
	o.all = append(o.all, conn)
	o.mu.Unlock()
	context.AfterFunc(gone, func() { //nolint:contextcheck // the connection's own
		o.mu.Lock()
		defer o.mu.Unlock()
		o.all = slices.DeleteFunc(o.all, func(c *websocket.Conn) bool { return c == conn })
	})
}

// push writes the text to the next socket.
func (o *openSockets) push(ctx context.Context) {
	o.mu.Lock()
	if len(o.all) == 0 {
		o.mu.Unlock()
		return
	}
	conn := o.all[o.next%len(o.all)]
	o.next++
	o.mu.Unlock()
	_ = conn.Write(ctx, websocket.MessageText, o.text) // a closed socket is being removed from the list
}

// startBare starts a bare handler that sends the answer a until the stage ends, and
// returns its URL.
func startBare(ctx context.Context, rig *Rig, a answer) (*Child, string, error) {
	child, err := rig.spawn(ctx, PartCommand, barePartName)
	if err != nil {
		return nil, "", err
	}
	rig.names[child.PID()] = nameBaseline
	rig.afterStage(child.End)
	var at address
	if err := errors.Join(child.Tell(a), child.Hear(&at)); err != nil {
		return nil, "", err
	}
	return child, "http://" + at.Addr, nil
}

// capture sends one POST to the server and returns its answer, for a baseline
// that must send the same; any status but want is an error. body may be nil.
func capture(ctx context.Context, s *Server, target, token string, body io.Reader, want int) (answer, error) {
	header, raw, err := ask(ctx, http.MethodPost, s.URL+target, token, body, want)
	if err != nil {
		return answer{}, err
	}
	a := answer{Status: want, Header: header, Body: string(raw)}
	header.Del("Date") // net/http writes these two itself
	header.Del("Content-Length")
	return a, nil
}
