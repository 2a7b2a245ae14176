// Package cli holds the commands that need no module of their own: those that
// speak HTTP to a server, mint tokens or look at settings. Each is a struct of
// flags with a Run method, as kong wants it. What starts a server is wired in
// main.go.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"stampede/platform/config"
	"stampede/platform/loadgen"
	"stampede/platform/pg"
	"stampede/platform/proof"
)

// Streams is where a command writes.
type Streams struct{ Out, Err io.Writer }

// Prover proves the books in some stores, holds them against what shoppers were
// told, and reports whether nothing is violated. It writes the verdicts and the
// books of one item, of all where item is 0. Without told (nil), what clients
// were told is not checked.
type Prover func(ctx context.Context, stores config.Stores, item int64, told []proof.Told, out io.Writer) (bool, error)

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

// errNotProved makes verify exit 1 after the table has said why.
var errNotProved = errors.New("the books are not proved, see above")

// Run proves the books.
func (c *Verify) Run(ctx context.Context, io Streams, prove Prover) error {
	stack, err := config.ReadStack(c.Data)
	stores := c.stores(stack)
	if stores.DatabaseURL == "" || stores.RedisURL == "" {
		return err
	}
	if err := stores.Validate(); err != nil {
		return err
	}
	var told []proof.Told
	if c.ClientLog != "" {
		if told, err = loadgen.ReadLogFile(c.ClientLog); err != nil {
			return err
		}
	}
	ok, err := prove(ctx, stores, c.Item, told, io.Out)
	switch {
	case err != nil && c.DatabaseURL == "":
		return fmt.Errorf("the stores of %s do not answer; is `stampede run --data %s` running? %w", c.Data, c.Data, err)
	case err != nil:
		return err
	case !ok:
		return errNotProved
	}
	return nil
}

// Migrate is `stampede migrate`.
type Migrate struct {
	DatabaseURL string `required:"" env:"STAMPEDE_DATABASE_URL" help:"PostgreSQL 15 or newer." secret:""`
}

// Run migrates.
func (c *Migrate) Run(ctx context.Context, io Streams) error {
	if err := pg.Migrate(ctx, c.DatabaseURL); err != nil {
		return err
	}
	_, err := fmt.Fprintln(io.Out, "The database has this version's schema.")
	return err
}

// Config is `stampede config`.
type Config struct {
	config.Server `embed:""`
	config.Stores `embed:""`
}

// Validate lets the settings be printed whatever they are.
func (c *Config) Validate() error { return nil }

// Run prints the effective settings of serve.
func (c *Config) Run(command *kong.Context, io Streams) error {
	return config.Print(io.Out, command.Selected().Flags)
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
