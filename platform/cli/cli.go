// Package cli holds the commands that need no module of their own: those that
// speak HTTP to a server, mint tokens or look at settings. Each is a struct of
// flags with a Run method, as kong wants it. What starts a server is wired in
// main.go.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/alecthomas/kong"

	"stampede/platform/config"
	"stampede/platform/loadgen"
	"stampede/platform/pg"
	"stampede/platform/proof"
)

// Streams is where a command writes.
type Streams struct{ Out, Err io.Writer }

// Prover proves the books in some stores, holds them against what shoppers were
// told, and returns the verdicts. It writes them, and the books of one item, of
// all where item is 0. Without told (nil), what clients were told is not checked.
type Prover func(ctx context.Context, stores config.Stores, item int64, told []proof.Told, out io.Writer) ([]proof.Outcome, error)

// Books says where the books are; without URLs they are those of `run`.
type Books struct {
	DatabaseURL string `env:"STAMPEDE_DATABASE_URL" help:"Postgres of the server. Default: the one of --data." secret:""`
	RedisURL    string `env:"STAMPEDE_REDIS_URL" help:"Redis of the server. Default: the one of --data." secret:""`
	Data        string `default:"${data}" env:"STAMPEDE_DATA" type:"path" help:"Data folder of stampede run, to find the server and its books."`
}

// stores are the flags' URLs, else the stack's.
func (b Books) stores(stack config.Stack) config.Stores {
	st := config.Stores{DatabaseURL: stack.DatabaseURL, RedisURL: stack.RedisURL}
	if b.DatabaseURL != "" {
		st.DatabaseURL = b.DatabaseURL
	}
	if b.RedisURL != "" {
		st.RedisURL = b.RedisURL
	}
	return st
}

// Verify is `stampede verify`.
type Verify struct {
	Books     `embed:""`
	Item      int64  `help:"Print the books of this item only; everything is proved all the same."`
	ClientLog string `type:"existingfile" help:"What shoppers were told, written by stampede rush --log, to hold the books against."`
}

var (
	// errNotProved makes verify exit 1 after the table has said why.
	errNotProved = errors.New("the books are not proved, see above")
	errNotMade   = errors.New("a check could not be made, see above")
)

// blindError is a verify that could not look, which is not a verdict: whoever
// runs it every night must tell a closed port from a broken book.
type blindError struct{ err error }

func (e blindError) Error() string { return e.err.Error() }
func (e blindError) Unwrap() error { return e.err }

// ExitCode is exitBlind.
func (e blindError) ExitCode() int { return exitBlind }

// Run proves the books.
func (c *Verify) Run(ctx context.Context, io Streams, prove Prover) error {
	outcomes, err := c.look(ctx, io, prove)
	switch {
	case err != nil:
		return blindError{err}
	case slices.ContainsFunc(outcomes, func(o proof.Outcome) bool { return len(o.Violations) > 0 }):
		return errNotProved
	case !proof.AllOK(outcomes):
		return blindError{errNotMade}
	}
	return nil
}

func (c *Verify) look(ctx context.Context, io Streams, prove Prover) ([]proof.Outcome, error) {
	stack, err := config.ReadStack(c.Data)
	stores := c.stores(stack)
	if stores.DatabaseURL == "" || stores.RedisURL == "" {
		return nil, err
	}
	if err := stores.Validate(); err != nil {
		return nil, err
	}
	var told []proof.Told
	if c.ClientLog != "" {
		if told, err = loadgen.ReadLogFile(c.ClientLog); err != nil {
			return nil, err
		}
	}
	err = reach(ctx, database(stores.DatabaseURL), redisStore(stores.RedisURL))
	if _, unusable := errors.AsType[*storeError](err); unusable && c.DatabaseURL == "" && c.RedisURL == "" {
		return nil, fmt.Errorf("the stores of %s do not answer: start `stampede run --data %s`, or name others with --database-url and --redis-url", c.Data, c.Data)
	}
	if err != nil {
		return nil, err
	}
	return prove(ctx, stores, c.Item, told, io.Out)
}

// Migrate is `stampede migrate`.
type Migrate struct {
	DatabaseURL string `required:"" env:"STAMPEDE_DATABASE_URL" help:"PostgreSQL 15 or newer." secret:""`
}

// Run migrates.
func (c *Migrate) Run(ctx context.Context, io Streams) error {
	if err := reach(ctx, database(c.DatabaseURL)); err != nil {
		return err
	}
	if err := pg.Migrate(ctx, c.DatabaseURL); err != nil {
		return err
	}
	_, err := fmt.Fprintln(io.Out, "The database has this version's schema.")
	return err
}

// Config is `stampede config`. What it prints may be wrong, which is when one
// wants to see it: its settings are of types without the Validate of their own
// that would be called before.
type Config struct {
	Server unchecked       `embed:""`
	Stores uncheckedStores `embed:""`
}

type (
	unchecked       config.Server
	uncheckedStores config.Stores
)

// Run prints the effective settings of serve, and says so where serve would
// refuse them.
func (c *Config) Run(command *kong.Context, io Streams) error {
	if err := config.Print(io.Out, command.Selected().Flags); err != nil {
		return err
	}
	err := cmp.Or(config.Server(c.Server).Validate(), config.Stores(c.Stores).Validate(), config.CheckKey(c.Server.SigningKey))
	if err != nil {
		_, _ = fmt.Fprintln(io.Err, "\nserve would refuse this:", err)
	}
	return nil
}

// Version is this binary's, as the build set it.
type Version string

// PrintVersion is `stampede version`.
type PrintVersion struct{}

// Run prints the version.
func (PrintVersion) Run(io Streams, version Version) error {
	_, err := fmt.Fprintln(io.Out, "stampede", version)
	return err
}
