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
	"time"

	"stampede/platform/httpx"
)

// answer is what a bare handler says to every request.
type answer struct {
	Status int                 `json:"status"`
	Header map[string][]string `json:"header"`
	Body   string              `json:"body"`
}

// address is a child's word of where it listens.
type address struct {
	Addr string `json:"addr"`
}

// ballastBytes is about what the server's caches hold. A process with next to
// nothing on its heap collects garbage after every few thousand requests and
// pays for that with a third of its processor time; the floor must not lose by
// being small. The bytes hold no pointers and are never touched, so they cost
// neither work nor memory.
const ballastBytes = 64 << 20

// bare is the floor of everything that speaks HTTP: one handler that answers the
// same bytes to everybody, on the listener that the server uses, with its bounds.
// It is told the answer and says where it listens.
func bare(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := json.NewDecoder(bufio.NewReader(in))
	var a answer
	if err := lines.Decode(&a); err != nil {
		return fmt.Errorf("bench: the answer to give: %w", err)
	}
	ballast := make([]byte, ballastBytes)
	defer runtime.KeepAlive(ballast)
	srv, err := httpx.Listen(ctx, "127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	body := []byte(a.Body)
	a.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
	srv.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), a.Header)
		w.WriteHeader(a.Status)
		_, _ = w.Write(body) // the client may be gone
	}))
	if err := json.NewEncoder(out).Encode(address{srv.Addr()}); err != nil {
		return errors.Join(err, srv.Shutdown(ctx))
	}
	_, _ = io.Copy(io.Discard, in) // until the run closes it
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return srv.Shutdown(stop)
}

// startBare starts a bare handler that answers like a, and tells its address.
func startBare(ctx context.Context, rig *Rig, a answer) (*Child, string, error) {
	child, err := rig.Part(ctx, barePartName)
	if err != nil {
		return nil, "", err
	}
	var at address
	if err := errors.Join(child.Tell(a), child.Hear(&at)); err != nil {
		return nil, "", err
	}
	return child, at.Addr, nil
}

// capture sends one request to the server and keeps its answer, for a floor that
// has to give the same. body may be nil.
func capture(ctx context.Context, s *Server, target, token string, body io.Reader) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+target, body)
	if err != nil {
		return answer{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{Status: resp.StatusCode, Header: map[string][]string{}, Body: string(raw)}
	for name, values := range resp.Header {
		// net/http writes these two by itself.
		if !slices.Contains([]string{"Date", "Content-Length"}, name) {
			a.Header[name] = values
		}
	}
	return a, nil
}
