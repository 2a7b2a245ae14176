package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"stampede/platform/auth"
	"stampede/platform/loadgen"
	"stampede/platform/loadgen/wire"
)

// Server is the server under measurement, a child process on the rig's stores.
type Server struct {
	*Child
	// URL is where shoppers reach it, Addr the same as host:port.
	URL, Addr string

	// DatabaseURL, RedisURL and Key are what it was started with, for a look at
	// its books.
	DatabaseURL, RedisURL, Key string

	rig     *Rig
	endless int64 // the item of Endless, 0 before
}

// ready is the line by which `stampede serve` says where it is.
var ready = regexp.MustCompile(`serves (http://\S+); health at (http://\S+)/readyz`)

// Server starts the server at the first call. flags are further settings of
// `stampede serve`, heeded by the first call only.
func (r *Rig) Server(ctx context.Context, flags ...string) (*Server, error) {
	if r.server != nil {
		return r.server, nil
	}
	database, err := r.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	child, err := r.spawn(ctx, append([]string{
		"serve", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--log-level=warn", "--sandbox-bank", "--end-with-input",
		"--database-url=" + database, "--redis-url=" + r.stores.RedisURL, "--nats-dir=" + filepath.Join(r.dir, "nats"),
		"--signing-key=" + r.key,
	}, flags...)...)
	if err != nil {
		return nil, err
	}
	r.names[child.PID()] = nameServer
	for {
		line, err := child.line()
		if err != nil {
			return nil, err
		}
		m := ready.FindSubmatch(line)
		if m == nil {
			continue
		}
		child.OpsURL = string(m[2])
		s := &Server{Child: child, URL: string(m[1]), DatabaseURL: database, RedisURL: r.stores.RedisURL, Key: r.key, rig: r}
		s.Addr = strings.TrimPrefix(s.URL, "http://")
		r.server = s
		return s, nil
	}
}

// endlessStock is more units than a run can sell, and the most an item has.
const endlessStock = 10_000_000

// Endless is an open item that does not sell out, the same at every call.
func (s *Server) Endless(ctx context.Context) (item int64, err error) {
	if s.endless == 0 {
		s.endless, err = s.Sale(ctx, endlessStock)
	}
	return s.endless, err
}

// Sale plans an item of that many units and waits until it sells. It stays
// open for longer than any run, and nobody has to pay in that time.
func (s *Server) Sale(ctx context.Context, units int) (item int64, err error) {
	token, err := s.rig.tokens.Mint(auth.Principal{UserID: 1, Role: auth.Operator}, time.Hour)
	if err != nil {
		return 0, err
	}
	// Publishing and the first Load come before the opening, as they would.
	const lead = 1500 * time.Millisecond
	opens := time.Now().Add(lead)
	planned, err := loadgen.PlanSale(ctx, s.URL, token, loadgen.Sale{
		Name: "Benchmark", Title: "Benchmark phone", Stock: units, OpensAt: opens, Open: 6 * time.Hour, PayAfter: 6 * time.Hour,
	})
	if err != nil {
		return 0, err
	}
	// Redis's clock decides; it is this machine's, to the millisecond.
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(time.Until(opens) + 50*time.Millisecond):
	}
	item, err = strconv.ParseInt(planned.ItemID, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("bench: the planned item: %w", err)
	}
	// A machine under strain may need longer than the lead for the Load.
	target := "/api/v1/items/" + planned.ItemID
	return item, s.askUntil(ctx, wire.AppendRequest(nil, http.MethodGet, s.Addr, target, "", nil), func(resp *wire.Response) error {
		switch {
		case resp.Status != http.StatusOK:
			return unexpected(resp, http.StatusOK)
		case !bytes.Contains(resp.Body, []byte(`"status":"on_sale"`)):
			return errAgain
		default:
			return nil
		}
	})
}

// askUntil sends a request on a connection of its own until its answer is good.
func (s *Server) askUntil(ctx context.Context, req []byte, judge func(*wire.Response) error) (err error) {
	conn, err := wire.Dial(s.Addr, clientTimeout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	var resp wire.Response
	return ask(ctx, conn, req, &resp, newLatencies(), func() error { return judge(&resp) })
}
