package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"stampede/platform/edge/auth"
)

// Rig is a private stack for one run of measurements.
type Rig struct {
	exe    string
	key    string
	stores storesReady
	tokens *auth.Tokens
	server *Server
	// instances run on clusters of Redis and NATS; 0 is one server with NATS inside, beside a single Redis.
	instances int
	shards    int      // of an item's stock
	settings  []string // of the server, beside those of every run
	// needsStores keeps the stores alive as long as any process has it open;
	// every child does.
	needsStores *os.File
	closers     []func(context.Context) error // the last is called first
	names       map[int]string                // what the report calls a child, by process id
	users       int64
}

// firstUser is the first shopper id; operators' ids are below it.
const firstUser = 1_000_000

// MostInstances is how many a rig can run: more would measure how a machine switches between them.
const MostInstances = 8

// NewRig starts Postgres and Redis in a temporary folder, as children of this
// program. With instances above 0, up to MostInstances, that many servers share a Redis Cluster and a NATS
// cluster of three each. shards is how many an item's stock is spread over, 1 or more. Always close the rig.
func NewRig(ctx context.Context, instances, shards int) (_ *Rig, err error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("bench: find this program: %w", err)
	}
	r := &Rig{exe: executable, instances: instances, shards: shards, users: firstUser, names: map[int]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close(context.WithoutCancel(ctx)))
		}
	}()
	var secret [auth.MinKeyBytes]byte
	_, _ = rand.Read(secret[:]) // never fails
	r.key = hex.EncodeToString(secret[:])
	r.tokens = auth.NewTokens([]byte(r.key), time.Now)
	err = r.startStores(ctx)
	return r, err
}

// folder makes a temporary folder that is deleted with the rig.
func (r *Rig) folder() (string, error) {
	dir, err := os.MkdirTemp("", "stampede-bench-")
	if err != nil {
		return "", fmt.Errorf("bench: make a temporary folder: %w", err)
	}
	r.onClose(func(context.Context) error { return os.RemoveAll(dir) })
	// Started by root, Postgres runs as another account, which needs access.
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see above; its contents are 0700
		return "", fmt.Errorf("bench: open the temporary folder: %w", err)
	}
	return dir, nil
}

func (r *Rig) onClose(f func(context.Context) error) { r.closers = append(r.closers, f) }

// closePatience bounds the end of a run: one half is for the server, twice its
// own hard stop limit, which it reaches on a busy machine, and one half for the
// stores.
const closePatience = 40 * time.Second

// Close ends every process and deletes the folder.
func (r *Rig) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer cancel()
	var errs []error
	for _, end := range slices.Backward(r.closers) {
		errs = append(errs, end(ctx))
	}
	r.closers = nil
	return errors.Join(errs...)
}

// Token mints a shopper's access token, valid for the run.
func (r *Rig) Token(user int64) (string, error) {
	return r.tokens.Mint(auth.Principal{UserID: user, Role: auth.Shopper}, 24*time.Hour)
}

// operator mints an operator's access token.
func (r *Rig) operator() (string, error) {
	return r.tokens.Mint(auth.Principal{UserID: 1, Role: auth.Operator}, time.Hour)
}

// conns is how many connections the clients open: as many to each instance as to a single server, so that its batches have
// the size that they have on a machine of its own.
func (r *Rig) conns(each int) int { return each * max(r.instances, 1) }

// Users reserves n ids that no shopper has had and returns the first.
func (r *Rig) Users(n int) int64 {
	first := r.users
	r.users += int64(n)
	return first
}
