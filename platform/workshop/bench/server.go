package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"stampede/platform/workshop/loadgen"
)

// Server is the server under measurement, a child process on the rig's stores, with the other instances of the shop.
type Server struct {
	*Child
	URL    string   // the shoppers' address
	OpsURL string   // the address of its metrics and profiles
	Others []string // the shoppers' addresses of the other instances

	rig     *Rig
	endless int64 // the item of Endless, 0 before
}

// ready matches the line in which `stampede serve` reports its addresses.
var ready = regexp.MustCompile(`serves (http://\S+); health at (http://\S+)/readyz`)

// Server starts the server at the first call, or all instances.
func (r *Rig) Server(ctx context.Context) (*Server, error) {
	if r.server != nil {
		return r.server, nil
	}
	queue := "--nats-dir=" + filepath.Join(r.stores.Folder, "nats")
	if r.instances > 0 {
		url, err := r.startNATSCluster(ctx)
		if err != nil {
			return nil, err
		}
		queue = "--nats-url=" + url
	}
	var all []*Server
	for range max(r.instances, 1) {
		s, err := r.serve(ctx, queue)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	r.server = all[0]
	for _, s := range all[1:] {
		r.server.Others = append(r.server.Others, s.URL)
	}
	return r.server, nil
}

// restart starts the single server again, with further settings.
func (r *Rig) restart(ctx context.Context, settings ...string) (*Server, error) {
	if r.instances > 0 {
		return nil, errors.New("this stage has one server: leave --instances out")
	}
	had, err := r.Server(ctx)
	if err != nil {
		return nil, err
	}
	if err := had.End(ctx); err != nil {
		return nil, err
	}
	r.server, r.settings = nil, settings
	s, err := r.Server(ctx)
	if err == nil {
		s.endless = had.endless
	}
	return s, err
}

// serve starts a server and waits until it answers.
func (r *Rig) serve(ctx context.Context, queue string) (*Server, error) {
	child, err := r.spawn(ctx, nameServer, append([]string{
		"serve", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--log-level=warn", "--end-with-input",
		"--sandbox-bank", "--webhook-private", "--database-url=" + r.stores.DatabaseURL, "--redis-url=" + r.stores.RedisURL, "--signing-key=" + r.key, queue,
		"--stock-shards=" + strconv.Itoa(r.shards),
	}, r.settings...)...)
	if err != nil {
		return nil, err
	}
	for {
		line, err := child.line()
		if err != nil {
			return nil, err
		}
		if m := ready.FindSubmatch(line); m != nil {
			return &Server{Child: child, URL: string(m[1]), OpsURL: string(m[2]), rig: r}, nil
		}
	}
}

// urls are the shoppers' addresses of all instances.
func (s *Server) urls() []string { return append([]string{s.URL}, s.Others...) }

// endlessStock is more units than a run can sell, and the most an item may have.
const endlessStock = 10_000_000

// Endless is an open item that does not sell out, the same at every call.
func (s *Server) Endless(ctx context.Context) (item int64, err error) {
	if s.endless == 0 {
		s.endless, err = s.Sale(ctx, endlessStock)
	}
	return s.endless, err
}

// endless returns the rig's server and its item that does not sell out.
func (r *Rig) endless(ctx context.Context) (s *Server, item int64, err error) {
	if s, err = r.Server(ctx); err == nil {
		item, err = s.Endless(ctx)
	}
	return s, item, err
}

// Sale plans an item of that many units and waits until it is on sale.
func (s *Server) Sale(ctx context.Context, units int) (item int64, err error) {
	// Publishing and the first Load come before the opening, as in production.
	const lead = 1500 * time.Millisecond
	if item, err = s.plan(ctx, units, time.Now().Add(lead)); err != nil {
		return 0, err
	}
	return item, until(ctx, func() (bool, error) {
		_, doc, err := ask(ctx, http.MethodGet, s.URL+"/api/v1/items/"+strconv.FormatInt(item, 10), "", nil, http.StatusOK)
		return bytes.Contains(doc, []byte(`"status":"on_sale"`)), err
	})
}

// plan plans an item with the given units. It stays open for longer than any run, and
// no order's payment window ends in that time.
func (s *Server) plan(ctx context.Context, units int, opens time.Time) (item int64, err error) {
	token, err := s.rig.operator()
	if err != nil {
		return 0, err
	}
	planned, err := loadgen.PlanSale(ctx, s.URL, token, loadgen.Sale{
		Name: "Benchmark", Title: "Benchmark phone", Stock: units, OpensAt: opens, Open: 6 * time.Hour, PayAfter: 6 * time.Hour,
	})
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(planned.ItemID, 10, 64)
}

// run is a run of new shoppers without sockets, who pay nothing.
func (s *Server) run(item int64, shoppers, conns int) loadgen.Config {
	cfg := loadgen.DefaultConfig()
	cfg.BaseURL, cfg.Others, cfg.ItemID, cfg.Shoppers, cfg.Connections, cfg.Sockets = s.URL, s.Others, item, shoppers, conns, 0
	cfg.PayShare, cfg.FirstUser, cfg.Token = 0, s.rig.Users(shoppers), s.rig.Token
	return cfg
}

// crowd gathers n new shoppers, with their paths.
func (s *Server) crowd(ctx context.Context, item int64, n, conns int) (*loadgen.Crowd, error) {
	c := loadgen.NewCrowd(loadgen.CrowdConfig{
		BaseURL: s.URL, Others: s.Others, ItemID: item, Shoppers: n, FirstUser: s.rig.Users(n), Connections: conns, Token: s.rig.Token,
	})
	return c, allIssued(ctx, c.FetchPaths(ctx))
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
