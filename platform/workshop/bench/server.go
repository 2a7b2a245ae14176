package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/loadgen"
)

// Server is the server under measurement, a child process on the rig's stores.
type Server struct {
	*Child
	URL    string // the shoppers' address
	OpsURL string // the address of its metrics and profiles

	// DatabaseURL and RedisURL are its stores, for checking its books.
	DatabaseURL, RedisURL string

	rig     *Rig
	endless int64 // the item of Endless, 0 before
}

// ready matches the line in which `stampede serve` reports its addresses.
var ready = regexp.MustCompile(`serves (http://\S+); health at (http://\S+)/readyz`)

// Server starts the server at the first call. It serves the sandbox bank too, unless
// that has a process of its own.
func (r *Rig) Server(ctx context.Context) (_ *Server, err error) {
	if r.server == nil {
		bank := "--sandbox-bank"
		if r.bank != nil {
			bank = "--sandbox-bank-url=" + r.bank.URL
		}
		r.server, err = r.serve(ctx, nameServer, r.stores, bank)
	}
	return r.server, err
}

// bankElsewhere starts the sandbox bank in a process of its own, as a shop's bank is
// elsewhere, with stores that never wait for the disk. It restarts the server.
func (r *Rig) bankElsewhere(ctx context.Context) error {
	if r.bank != nil {
		return nil
	}
	const redisMemoryBytes = 64 << 20 // a bank has no sales
	stores, err := r.startStores(ctx, nameBank, storesOrder{RedisMemoryBytes: redisMemoryBytes, Throwaway: true})
	if err != nil {
		return err
	}
	if r.bank, err = r.serve(ctx, nameBank, stores, "--sandbox-bank"); err != nil {
		return err
	}
	return r.restart(ctx)
}

// serve starts a server on the stores, which the report lists under name.
func (r *Rig) serve(ctx context.Context, name string, stores storesReady, bank string) (*Server, error) {
	child, err := r.spawn(ctx, "serve", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--log-level=warn", "--end-with-input", bank,
		"--database-url="+stores.DatabaseURL, "--redis-url="+stores.RedisURL, "--nats-dir="+filepath.Join(stores.Folder, "nats"), "--signing-key="+r.key)
	if err != nil {
		return nil, err
	}
	r.names[child.PID()] = name
	for {
		line, err := child.line()
		if err != nil {
			return nil, err
		}
		m := ready.FindSubmatch(line)
		if m == nil {
			continue
		}
		return &Server{Child: child, URL: string(m[1]), OpsURL: string(m[2]), DatabaseURL: stores.DatabaseURL, RedisURL: stores.RedisURL, rig: r}, nil
	}
}

// restart ends the server, so that the next call of Server starts a new process.
func (r *Rig) restart(ctx context.Context) error {
	if r.server == nil {
		return nil
	}
	err := r.server.End(ctx)
	r.server = nil
	return err
}

// endlessStock is more units than a run can sell, and the most an item may have.
const endlessStock = 10_000_000

// Endless is an open item that does not sell out, the same at every call.
func (s *Server) Endless(ctx context.Context) (item int64, err error) {
	if s.endless == 0 {
		s.endless, err = s.Sale(ctx, endlessStock)
	}
	return s.endless, err
}

// Sale plans an item of that many units and waits until it is on sale.
func (s *Server) Sale(ctx context.Context, units int) (item int64, err error) {
	// Publishing and the first Load come before the opening, as in production.
	const lead = 1500 * time.Millisecond
	opens := time.Now().Add(lead)
	items, err := s.plan(ctx, units, 1, opens)
	if err == nil {
		err = awaitOpening(ctx, opens)
	}
	if err != nil {
		return 0, err
	}
	// A busy machine may need longer than the lead time for the Load.
	return items[0], until(ctx, func() (bool, error) {
		item, err := get(ctx, s.URL+"/api/v1/items/"+strconv.FormatInt(items[0], 10), "")
		return bytes.Contains(item, []byte(`"status":"on_sale"`)), err
	})
}

// plan plans the given number of items with the given units each. They stay
// open for longer than any run, and no order's payment window ends in that
// time.
func (s *Server) plan(ctx context.Context, units, items int, opens time.Time) (ids []int64, err error) {
	token, err := s.rig.tokens.Mint(auth.Principal{UserID: 1, Role: auth.Operator}, time.Hour)
	if err != nil {
		return nil, err
	}
	planned, err := loadgen.PlanSale(ctx, s.URL, token, loadgen.Sale{
		Name: "Benchmark", Title: "Benchmark phone", Stock: units, Items: items, OpensAt: opens, Open: 6 * time.Hour, PayAfter: 6 * time.Hour,
	})
	if err != nil {
		return nil, err
	}
	for _, text := range planned.ItemIDs {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("bench: the planned item: %w", err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// awaitOpening waits for a moment after the opening: Redis's clock decides, which
// is this machine's, to the millisecond.
func awaitOpening(ctx context.Context, opens time.Time) error {
	return pause(ctx, time.Until(opens)+50*time.Millisecond)
}

// newCrowd gathers n shoppers; users is the first of them.
func (s *Server) newCrowd(items []int64, n int, users int64, conns int) *loadgen.Crowd {
	return loadgen.NewCrowd(loadgen.CrowdConfig{BaseURL: s.URL, Items: items, Shoppers: n, FirstUser: users, Connections: conns, Token: s.rig.Token})
}

// crowd gathers n new shoppers, with their paths.
func (s *Server) crowd(ctx context.Context, item int64, n, conns int) (*loadgen.Crowd, error) {
	c := s.newCrowd([]int64{item}, n, s.rig.Users(n), conns)
	return c, allIssued(ctx, c.FetchPaths(ctx))
}

// get reads a document; token may be empty.
func get(ctx context.Context, url, token string) ([]byte, error) {
	_, raw, err := ask(ctx, http.MethodGet, url, token, nil, http.StatusOK)
	return raw, err
}

// ask sends one request; token and body may be empty. Any status but want is an error.
func ask(ctx context.Context, method, url, token string, body io.Reader, want int) (http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s answered %s instead of %d: %s", url, resp.Status, want, raw)
	}
	return resp.Header, raw, err
}
