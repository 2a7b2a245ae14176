package funnel

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/base/app"
	"stampede/platform/edge/httpx"
)

const (
	// liveEvery is how often what operators follow is read and sent: instances store their
	// counts as often.
	liveEvery = time.Second
	// liveFor ends a stream, so that those of a page that was left open for days spread
	// over the instances; browsers connect again on their own.
	liveFor = 10 * time.Minute
	// readFor bounds one reading, so that a store that hangs delays the next one no longer.
	readFor = 5 * time.Second
)

// reading is what the followers of a subject are sent once a second.
type reading[D any] struct {
	// whole is for those who begin to follow, or have missed a reading. It is immutable.
	whole D
	// change is the encoded document for those who have the reading before.
	change []byte
}

// source reads a subject once. Only one goroutine calls it.
type source[D any] func(ctx context.Context) (reading[D], error)

// follows reads each subject, by its id, once a second for all who follow it on this
// instance, as long as at least one does.
type follows[D any] struct {
	log *slog.Logger
	mu  sync.Mutex
	of  map[int64]*followed[D]
}

// followed is a subject with its latest reading.
type followed[D any] struct {
	log       *slog.Logger
	followers int // guarded by follows.mu
	stop      context.CancelFunc

	mu      sync.Mutex
	latest  reading[D]
	number  int           // of the latest reading; 0 before the first
	err     error         // why there is no first reading
	renewed chan struct{} // closed at the next reading
}

// join adds a follower and waits for the subject's first reading, whose error it
// returns. The caller leaves if there is none.
func (f *follows[D]) join(ctx context.Context, of int64, open func() source[D]) (*followed[D], error) {
	f.mu.Lock()
	one := f.of[of]
	if one == nil {
		// The first follower may leave before the others.
		run, stop := context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // leave calls it
		one = &followed[D]{log: f.log, stop: stop, renewed: make(chan struct{})}
		if f.of == nil {
			f.of = map[int64]*followed[D]{}
		}
		f.of[of] = one
		go one.run(run, open(), func() { f.forget(of, one) })
	}
	one.followers++
	f.mu.Unlock()
	_, number, renewed, err := one.now()
	if number == 0 && err == nil {
		select {
		case <-renewed:
			_, _, _, err = one.now()
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		f.leave(of, one)
		return nil, err
	}
	return one, nil
}

// leave takes a follower away; with the last one the readings end.
func (f *follows[D]) leave(of int64, one *followed[D]) {
	f.mu.Lock()
	one.followers--
	last := one.followers == 0
	if last && f.of[of] == one {
		delete(f.of, of) // under the same lock: no other follower joins what is about to stop
	}
	f.mu.Unlock()
	if last {
		one.stop()
	}
}

// forget makes the next follower open the subject again.
func (f *follows[D]) forget(of int64, one *followed[D]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of[of] == one {
		delete(f.of, of)
	}
}

// now returns the latest reading, and what is closed at the next one.
func (one *followed[D]) now() (latest reading[D], number int, renewed <-chan struct{}, err error) {
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.latest, one.number, one.renewed, one.err
}

// run reads until the last follower has left. A reading that fails is left out, and the
// next one follows; without a first one there is nothing to follow.
func (one *followed[D]) run(ctx context.Context, read source[D], forget func()) {
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for away := false; ; {
		var latest reading[D]
		bounded, cancel := context.WithTimeout(ctx, readFor)
		err := app.Guard(func() (err error) { // there is no request here that would survive a panic
			latest, err = read(bounded)
			return err
		})
		cancel()
		if err != nil && !away && one.number > 0 && ctx.Err() == nil { // a first one fails before those who wait for it
			one.log.WarnContext(ctx, "what operators follow cannot be read; they see the last reading until it can", "error", err)
		}
		away = err != nil
		one.mu.Lock()
		if first := one.number == 0; err == nil || first {
			if one.latest, one.err = latest, err; err == nil {
				one.number++
			}
			close(one.renewed)
			one.renewed = make(chan struct{})
		}
		failed := one.err != nil
		one.mu.Unlock()
		if failed {
			forget()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// once returns a subject's latest reading, or a new one if no one follows it.
func (f *follows[D]) once(ctx context.Context, of int64, open func() source[D]) (D, error) {
	one, err := f.join(ctx, of, open)
	if err != nil {
		var none D
		return none, err
	}
	defer f.leave(of, one)
	latest, _, _, _ := one.now()
	return latest.whole, nil
}

// stream answers with a subject's readings as server-sent events.
func (f *follows[D]) stream(ctx context.Context, of int64, stopping <-chan struct{}, open func() source[D]) (*huma.StreamResponse, error) {
	one, err := f.join(ctx, of, open)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(out huma.Context) { //nolint:contextcheck // huma.Context carries the request's context
		defer f.leave(of, one)
		one.send(out, stopping)
	}}, nil
}

// send writes readings until the client leaves, the server stops or the time is over. A
// client that has fallen behind is sent the whole again.
func (one *followed[D]) send(out huma.Context, stopping <-chan struct{}) {
	ctx, cancel := context.WithTimeout(out.Context(), liveFor)
	defer cancel()
	httpx.BeginEvents(out.SetHeader)
	w := out.BodyWriter()
	flush := func() error { return nil }
	if answer, ok := w.(http.ResponseWriter); ok {
		flush = http.NewResponseController(answer).Flush
	}
	for sent := 0; ; {
		latest, number, renewed, _ := one.now()
		if number != sent {
			document := latest.change
			if sent == 0 || number != sent+1 {
				document, _ = json.Marshal(latest.whole) // the change of the same kind was encoded
			}
			if _, err := fmt.Fprintf(w, "data: %s\n\n", document); err != nil || flush() != nil {
				return
			}
			sent = number
		}
		select {
		case <-ctx.Done():
			return
		case <-stopping:
			return
		case <-renewed:
		}
	}
}

// describeEvents documents a route whose answer is events with documents of a type.
func describeEvents[D any](api httpx.API, path, example string) {
	document := api.Huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[D](), true, "")
	api.Huma.OpenAPI().Paths[path].Get.Responses["200"].Content = map[string]*huma.MediaType{"text/event-stream": {
		Schema: &huma.Schema{Type: huma.TypeString, Description: "Each event is `data: ` and the document " + document.Ref[strings.LastIndexByte(document.Ref, '/')+1:] + ", ended by an empty line. " +
			"An event named `displaced` is the last where the same user has opened too many newer streams: connect again only when a person asks for it"},
		Example: example,
	}}
}
