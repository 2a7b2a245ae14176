package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/pprof"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/order/orderevent"
	"stampede/platform/auth"
	"stampede/platform/bench"
	"stampede/platform/bus"
	"stampede/platform/httpx"
	"stampede/platform/ids"
)

// PushStage measures pushes: events of the bus become messages on the sockets of
// those whose orders they are about. A round pushes one message to every socket,
// and the next begins when every client has read it. The floor is a server of the
// same WebSocket library that has the bytes ready and a list of connections: no
// users, no events, no bound on the slow.
//
// Both serve from a child process, whose memory per open socket is reported.
func PushStage() bench.Stage {
	return bench.Stage{
		Name: "push", Unit: "pushes", Clients: true, Probe: 1,
		Ours:  "pushes of an order's change to every connected shopper",
		Floor: "a bare loop of writes over the same sockets",
		Figures: []bench.Figure{
			{Name: figureSockets, Unit: "open"},
			{Name: figureMemory, Unit: "KiB of the server"},
			{Name: figureBareMemory, Unit: "KiB"},
		},
		Open: openPush,
	}
}

// The figures of the stage.
const (
	figureSockets    = "sockets"
	figureMemory     = "memory per socket"
	figureBareMemory = "memory per socket of the floor"
)

// The parts that the stage's children play.
const (
	pushPartName      = "push"
	pushFloorPartName = "push-floor"
)

// PushParts are those parts, for the command that runs them.
func PushParts() map[string]bench.Part {
	return map[string]bench.Part{pushPartName: pushPart, pushFloorPartName: pushFloorPart}
}

// benchEvent is how many orders an event carries: what the writer packs of a
// busy lane's batch.
const benchEvent = 256

type (
	// pushOrders is the first line to a child; each empty object after it asks
	// for one push to every socket.
	pushOrders struct {
		Key       string `json:"key"`        // signs the tokens
		FirstUser int64  `json:"first_user"` // the users follow it
		Sockets   int    `json:"sockets"`
	}
	// pushAddress is the child's first line.
	pushAddress struct {
		Addr string `json:"addr"`
	}
)

func openPush(ctx context.Context, rig *bench.Rig) (floor, ours bench.Side, closeSides func(context.Context) error, err error) {
	orders := pushOrders{Key: strings.Repeat("bench-", 8), Sockets: rig.SocketCount()}
	orders.FirstUser = rig.Users(orders.Sockets)
	var ends []func(context.Context) error
	closeSides = func(ctx context.Context) error {
		var errs []error
		for _, end := range slices.Backward(ends) {
			errs = append(errs, end(ctx))
		}
		return errors.Join(errs...)
	}
	open := func(part string) (*listeners, error) {
		l, err := listenTo(ctx, rig, part, orders)
		if l != nil {
			ends = append(ends, l.end)
		}
		return l, err
	}
	bare, err := open(pushFloorPartName)
	if err != nil {
		return floor, ours, closeSides, err
	}
	pushed, err := open(pushPartName)
	if err != nil {
		return floor, ours, closeSides, err
	}
	floor, ours = bare.side(), pushed.side()
	work := ours.Work
	ours.Work = func(ctx context.Context, n int) (bench.Sample, error) {
		sample, err := work(ctx, n)
		sample.Figures = map[string]float64{figureSockets: float64(orders.Sockets), figureMemory: pushed.kib, figureBareMemory: bare.kib}
		return sample, err
	}
	return floor, ours, closeSides, nil
}

// listeners are the clients of one child. They are connected while their side is
// measured only: both sides' together would be more files than many a system
// lets a process open.
type listeners struct {
	child   *bench.Child
	addr    string
	tokens  *auth.Tokens
	orders  pushOrders
	sockets *bench.Sockets
	kib     float64 // of the child's memory per socket, when they connected first
}

// listenTo starts a part.
func listenTo(ctx context.Context, rig *bench.Rig, part string, orders pushOrders) (*listeners, error) {
	child, err := rig.Part(ctx, part)
	if err != nil {
		return nil, err
	}
	l := &listeners{child: child, orders: orders, tokens: auth.NewTokens([]byte(orders.Key), time.Now)}
	var at pushAddress
	err = errors.Join(child.Tell(orders), child.Hear(&at))
	l.addr, child.OpsURL = at.Addr, "http://"+at.Addr
	return l, err
}

func (l *listeners) end(ctx context.Context) error {
	_ = l.disconnect(ctx, 0) // never fails
	return l.child.End(ctx)
}

func (l *listeners) side() bench.Side {
	return bench.Side{Prepare: l.connect, Work: l.push, Check: l.disconnect, Serving: l.child}
}

// connect opens a socket for every user.
func (l *listeners) connect(ctx context.Context, _ int) error {
	before, _ := l.child.ResidentKiB()
	var err error
	l.sockets, err = bench.OpenSockets(ctx, l.addr, path, l.orders.Sockets, func(i int) (string, error) {
		return l.tokens.Mint(auth.Principal{UserID: l.orders.FirstUser + int64(i), Role: auth.Shopper}, time.Hour)
	})
	if err != nil {
		return err
	}
	if after, _ := l.child.ResidentKiB(); l.kib == 0 {
		l.kib = float64(after-before) / float64(l.orders.Sockets)
	}
	return nil
}

func (l *listeners) disconnect(context.Context, int) error {
	if l.sockets != nil {
		l.sockets.Close()
	}
	return nil
}

// push makes n pushes, in whole rounds over all sockets.
func (l *listeners) push(ctx context.Context, n int) (bench.Sample, error) {
	rounds := max(1, n/l.orders.Sockets)
	for range rounds {
		here := l.sockets.Expect(l.orders.Sockets)
		if err := errors.Join(l.child.Tell(struct{}{}), l.sockets.Await(ctx, here)); err != nil {
			return bench.Sample{}, err
		}
	}
	return bench.Sample{Done: rounds * l.orders.Sockets}, nil
}

// servePart listens on a loopback address with a handler until in ends, and runs
// push for every line after the first.
func servePart(ctx context.Context, lines *json.Decoder, out io.Writer, h http.Handler, push func() error) error {
	srv, err := httpx.Listen(ctx, "127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile) // on a loopback address, for as long as the run
	srv.Serve(mux)
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = srv.Shutdown(stop) // the process ends either way
	}()
	if err := json.NewEncoder(out).Encode(pushAddress{srv.Addr()}); err != nil {
		return fmt.Errorf("notify: tell the address: %w", err)
	}
	for {
		var line struct{}
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("notify: read what to do: %w", err)
		}
		if err := push(); err != nil {
			return err
		}
	}
}

// pushPart serves the module's own sockets and pushes an order's change to every
// user when told.
func pushPart(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := json.NewDecoder(in)
	var orders pushOrders
	if err := lines.Decode(&orders); err != nil {
		return fmt.Errorf("notify: read what to serve: %w", err)
	}
	cfg, log := DefaultConfig(), slog.New(slog.DiscardHandler)
	cfg.MaxSockets = 2 * orders.Sockets // those of the round before may still be on their way out
	tokens := auth.NewTokens([]byte(orders.Key), time.Now)
	s, err := New(cfg, Deps{Tokens: tokens, Log: log, Metrics: prometheus.NewRegistry()})
	if err != nil {
		return err
	}
	router := httpx.NewRouter(tokens, log, "bench", prometheus.NewRegistry())
	s.Routes(router)
	events, err := benchEvents(orders)
	if err != nil {
		return err
	}
	return servePart(ctx, lines, out, router, func() error {
		for _, event := range events {
			if err := s.pushChanges(ctx, event); err != nil {
				return err
			}
		}
		return nil
	})
}

// benchEvents is one new order for every user, packed as the writer packs them.
func benchEvents(orders pushOrders) ([]bus.Msg, error) {
	var events []bus.Msg
	at := time.Now().UTC().Truncate(time.Microsecond)
	all := make([]orderevent.Order, orders.Sockets)
	for i := range all {
		user := orders.FirstUser + int64(i)
		all[i] = orderevent.Order{
			No: ids.NewFor(user), UserID: user, ItemID: 1, ActivityID: 1, SessionID: 1, Epoch: 1, Quantity: 1, UnitPrice: 9900, Currency: "CNY",
			Title: "限量版跑鞋", Status: orderevent.StatusPending, Version: 1, PayDeadline: at.Add(15 * time.Minute), CreatedAt: at, UpdatedAt: at,
		}
	}
	for some := range slices.Chunk(all, benchEvent) {
		raw, err := json.Marshal(orderevent.Changed{Orders: some})
		if err != nil {
			return nil, fmt.Errorf("notify: encode an event: %w", err)
		}
		events = append(events, bus.Msg{ID: ids.New(), Subject: orderevent.SubjectCreated, Data: raw})
	}
	return events, nil
}

// pushFloorPart accepts sockets and writes the same bytes to all of them when
// told, from as many goroutines as there are cores, twice over.
func pushFloorPart(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := json.NewDecoder(in)
	var orders pushOrders
	if err := lines.Decode(&orders); err != nil {
		return fmt.Errorf("notify: read what to serve: %w", err)
	}
	text, err := json.Marshal(message{Type: "order", Order: orderevent.View(orderevent.Order{
		No: ids.New(), Title: "限量版跑鞋", Currency: "CNY", Status: orderevent.StatusPending, Quantity: 1, UnitPrice: 9900, ItemID: 1, ActivityID: 1, SessionID: 1,
	})})
	if err != nil {
		return fmt.Errorf("notify: encode a message: %w", err)
	}
	var mu sync.Mutex
	open := map[*websocket.Conn]bool{}
	accept := func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
		if err != nil {
			return // it has answered
		}
		mu.Lock()
		open[conn] = true
		mu.Unlock()
		context.AfterFunc(conn.CloseRead(ctx), func() { //nolint:contextcheck // the connection's own
			mu.Lock()
			delete(open, conn)
			mu.Unlock()
		})
		_ = conn.Write(ctx, websocket.MessageText, []byte(`{"type":"hello"}`)) // a client that has left is noticed there
	}
	return servePart(ctx, lines, out, http.HandlerFunc(accept), func() error {
		mu.Lock()
		conns := slices.Collect(maps.Keys(open))
		mu.Unlock()
		var group sync.WaitGroup
		writers := 2 * runtime.GOMAXPROCS(0)
		for k := range writers {
			group.Go(func() {
				for i := k; i < len(conns); i += writers {
					_ = conns[i].Write(ctx, websocket.MessageText, text) // one that has just left is on its way out of the list
				}
			})
		}
		group.Wait()
		return nil
	})
}
