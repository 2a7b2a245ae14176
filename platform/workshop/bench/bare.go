package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"stampede/platform/edge/httpx"
)

// answer is a bare handler's response to every request.
type answer struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   string      `json:"body"`
}

// ballastBytes is about the size of the server's caches. A process with a
// nearly empty heap collects garbage every few thousand requests, at the cost
// of a third of its processor time; the baseline must not lose by being small.
// The bytes hold no pointers and are never touched, so they cost neither work
// nor memory.
const ballastBytes = 64 << 20

// bare is the baseline: one handler that sends the same bytes to every request,
// on the same listener as the server, with the same bounds. It reads the answer
// from in and writes its URL to out.
func bare(ctx context.Context, in io.Reader, out io.Writer) error {
	var a answer
	if err := json.NewDecoder(in).Decode(&a); err != nil {
		return fmt.Errorf("bench: read the answer to send: %w", err)
	}
	ballast := make([]byte, ballastBytes)
	defer runtime.KeepAlive(ballast)
	srv, err := httpx.Listen(ctx, "127.0.0.1:0", httpx.Connections{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	body := []byte(a.Body)
	a.Header.Set("Content-Length", strconv.Itoa(len(body)))
	srv.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), a.Header)
		w.WriteHeader(a.Status)
		_, _ = w.Write(body) // the client may be gone
	}))
	if err := json.NewEncoder(out).Encode("http://" + srv.Addr()); err != nil {
		return errors.Join(err, srv.Shutdown(ctx))
	}
	_, _ = io.Copy(io.Discard, in) // until the run closes it
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return srv.Shutdown(stop)
}

// startBare gets the server's answer to one POST, which must have the wanted status, and
// starts a bare handler that sends the same, beside several instances as many; it returns their URLs. body may be nil.
func startBare(ctx context.Context, s *Server, target, token string, body io.Reader, want int) (urls []string, err error) {
	header, raw, err := ask(ctx, http.MethodPost, s.URL+target, token, body, want)
	if err != nil {
		return nil, err
	}
	header.Del("Date") // net/http writes these two itself
	header.Del("Content-Length")
	for range 1 + len(s.Others) {
		child, err := s.rig.spawn(ctx, nameBaseline, PartCommand, barePartName)
		if err != nil {
			return nil, err
		}
		var url string
		if err := errors.Join(child.Tell(answer{Status: want, Header: header, Body: string(raw)}), child.Hear(&url)); err != nil {
			return nil, err
		}
		urls = append(urls, url)
	}
	return urls, nil
}
