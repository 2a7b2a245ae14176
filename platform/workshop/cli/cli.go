// Package cli contains the commands that need no module: those that call a
// server over HTTP, mint tokens or inspect settings. Each is a struct of flags
// with a Run method, as kong requires. Commands that start a server are wired
// in main.go.
//
// # Size
//
// The package has more than 2,000 lines because it is a list: a command is a struct of
// one or two screens that knows none of the others, and shares with them how a server,
// a key and a data folder are found.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"stampede/migrations"
	"stampede/platform/base/config"
	"stampede/platform/store/pg"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/loadgen"
)

// Streams are a command's output streams.
type Streams struct{ Out, Err io.Writer }

// Prover proves the books in the given stores against the client log and
// returns the evidence, with the books of one item, or of all if item is 0. If
// told is nil, the client log is not checked.
type Prover func(ctx context.Context, stores Stores, item int64, told []proof.ClientRecord) (Evidence, error)

// Evidence is a prover's result. Its JSON names are stable.
type Evidence struct {
	Books  any             `json:"books"`  // a row for each item
	Checks []proof.Outcome `json:"checks"` // ordered by id
	// NotChecked says what was not looked at, and what that needs.
	NotChecked []string `json:"not_checked,omitempty"`

	// WriteBooks prints the books as a table.
	WriteBooks func(w io.Writer) error `json:"-"`
}

// Write prints the books, and below them the verdicts.
func (e Evidence) Write(w io.Writer) error {
	err := errors.Join(e.WriteBooks(w), proof.Write(w, e.Checks))
	for _, what := range e.NotChecked {
		_, failed := fmt.Fprintln(w, what)
		err = errors.Join(err, failed)
	}
	return err
}

// Books locates the books; without URLs they are those of `run`. A --data on
// the command line overrides variables of flags tagged found.
type Books struct {
	DatabaseURL string `env:"STAMPEDE_DATABASE_URL" help:"Postgres of the server. Default: the one of --data." secret:"" found:""`
	RedisURL    string `env:"STAMPEDE_REDIS_URL" help:"Redis of the server. Default: the one of --data." secret:"" found:""`
	Data        string `default:"${data}" env:"STAMPEDE_DATA" type:"path" help:"Data folder of stampede run, to find the server and its books."`
}

// stores returns the flags' URLs, or else the stack's.
func (b Books) stores(stack Noted) Stores {
	return Stores{DatabaseURL: cmp.Or(b.DatabaseURL, stack.DatabaseURL), RedisURL: cmp.Or(b.RedisURL, stack.RedisURL)}
}

// find returns the stores, which answer.
func (b Books) find(ctx context.Context) (Stores, error) {
	stack, err := ReadStack(b.Data)
	stores := b.stores(stack)
	if stores.DatabaseURL == "" || stores.RedisURL == "" {
		return stores, err
	}
	if err := stores.Check(); err != nil {
		return stores, err
	}
	err = reach(ctx, database(stores.DatabaseURL), redisStore(stores.RedisURL))
	return stores, stackAway(err, b.DatabaseURL == "" && b.RedisURL == "", b.Data)
}

// stackAway is a store's error, which says what to start if the store is that of a data folder.
func stackAway(err error, found bool, data string) error {
	if _, unusable := errors.AsType[*storeError](err); unusable && found {
		return fmt.Errorf("the stores of %s do not answer: start `stampede run --data %s`, or name others by their addresses", data, data)
	}
	return err
}

// findDatabase returns the database that a flag names, or else the stack's, once it answers.
func findDatabase(ctx context.Context, given, data string) (url string, stack Noted, err error) {
	stack, err = knownStack(data)
	if url = cmp.Or(given, stack.DatabaseURL); url == "" {
		return "", stack, cmp.Or(err, errNoDatabase)
	}
	if err := checkPostgres("--database-url", url); err != nil {
		return "", stack, err
	}
	err = reach(ctx, database(url))
	return url, stack, stackAway(err, given == "", data)
}

// Verify is `stampede verify`.
type Verify struct {
	Books      `embed:""`
	Item       int64  `help:"Print only the books of this item; everything is still proved."`
	JSON       bool   `name:"json" help:"Print books and checks as JSON."`
	ClientLog  string `type:"existingfile" help:"Client log of stampede rush --log, which records every answer that shoppers got, to check the books against."`
	MetricsURL string `help:"The server's /metrics, to check that the grants in its NATS are being written. Default: that of --data."`
}

var (
	// errNotProved makes verify exit 1; the table says why.
	errNotProved = errors.New("the books are not proved, see above")
	errNotMade   = errors.New("a check could not be performed, see above")
)

// blindError means that verify could not check, which is not a verdict: a
// nightly job must be able to tell an unreachable store from broken books.
type blindError struct{ err error }

func (e blindError) Error() string { return e.err.Error() }
func (e blindError) Unwrap() error { return e.err }

// ExitCode returns exitBlind.
func (e blindError) ExitCode() int { return exitBlind }

// Run proves the books.
func (c *Verify) Run(ctx context.Context, io Streams, prove Prover) error {
	found, err := c.look(ctx, prove)
	if err == nil {
		err = printReport(io.Out, struct {
			BooksProved bool `json:"books_proved"`
			Evidence
		}{proof.AllOK(found.Checks), found}, c.JSON)
	}
	switch {
	case err != nil:
		return blindError{err}
	case slices.ContainsFunc(found.Checks, func(o proof.Outcome) bool { return len(o.Violations) > 0 }):
		return errNotProved
	case !proof.AllOK(found.Checks):
		return blindError{errNotMade}
	}
	return nil
}

func (c *Verify) look(ctx context.Context, prove Prover) (found Evidence, err error) {
	var told []proof.ClientRecord
	if c.ClientLog != "" {
		if told, err = loadgen.ReadLogFile(c.ClientLog); err != nil {
			return found, err
		}
	}
	stores, err := c.find(ctx)
	if err != nil {
		return found, err
	}
	found, err = prove(ctx, stores, c.Item, told)
	if err != nil {
		return found, err
	}
	if told == nil {
		found.NotChecked = append(found.NotChecked, "I6  is not checked without --client-log, what shoppers were told")
	}
	metrics := c.MetricsURL
	if stack, none := ReadStack(c.Data); metrics == "" && none == nil && stores.DatabaseURL == stack.DatabaseURL {
		metrics = stack.MetricsURL // not for given stores, whose server is not known
	}
	if metrics == "" {
		found.NotChecked = append(found.NotChecked, "I7  grants that wait in NATS are not looked at without --metrics-url, the server's /metrics")
		return found, nil
	}
	found.Checks = append(found.Checks, proof.Run(ctx, []proof.Check{grantsFlow(metrics, proof.Recheck)})...)
	slices.SortStableFunc(found.Checks, func(a, b proof.Outcome) int { return strings.Compare(a.ID, b.ID) })
	return found, nil
}

// Migrate is `stampede migrate`.
type Migrate struct {
	DatabaseURL string `env:"STAMPEDE_DATABASE_URL" help:"PostgreSQL 15 or newer. Default: the one of --data." secret:"" found:""`
	Data        string `default:"${data}" env:"STAMPEDE_DATA" type:"path" help:"Data folder of a running stampede run."`
	Back        bool   `help:"Let servers of the last release start on the database again. Nothing is undone or lost; the next migrate, or start of a server of this version, ends it."`
}

// Run migrates.
func (c *Migrate) Run(ctx context.Context, io Streams) error {
	databaseURL, _, err := findDatabase(ctx, c.DatabaseURL, c.Data)
	if err != nil {
		return err
	}
	if c.Back {
		err := pg.StepBack(ctx, databaseURL)
		if err == nil {
			_, err = fmt.Fprintf(io.Out, "Servers of %s can start on the database, beside those of this version that run. "+
				"Start none of this version until you upgrade again.\n", migrations.LastRelease)
		}
		return err
	}
	from, to, err := pg.Migrate(ctx, databaseURL)
	if err != nil {
		return err
	}
	said := fmt.Sprintf("The database was migrated from schema version %d to %d, the version of this program.", from, to)
	if from == to {
		said = fmt.Sprintf("The database already has schema version %d, the version of this program; there was nothing to do.", to)
	}
	_, err = fmt.Fprintln(io.Out, said)
	return err
}

// Config is `stampede config`. It prints even invalid settings, since that is
// when an operator needs to see them.
type Config struct {
	Stores   `embed:""`
	Settings `embed:""`
}

// Run prints the effective settings of serve and the source of each, names
// unknown variables, and fails with every error with which serve would refuse
// to start.
func (c *Config) Run(command *kong.Context, io Streams, file *config.File, unknown unknownVariables) error {
	if err := config.Print(io.Out, command, file); err != nil {
		return err
	}
	_, _ = fmt.Fprint(io.Err, unknown)
	if err := refusal(c.Settings, c.Stores); err != nil {
		return refusedError{err}
	}
	return nil
}

// refusedError is an error with which serve would refuse to start.
type refusedError struct{ error }

func (e refusedError) Error() string {
	const would = "serve would refuse this: "
	return would + strings.ReplaceAll(e.error.Error(), "\n", "\n"+would)
}

// ExitCode returns the exit code of serve.
func (refusedError) ExitCode() int { return exitUsage }

// Version is the version of this binary; see Built.
type Version string

// Built returns a release with its commit, if the go command built it in a repository.
func Built(release string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return release + "+" + s.Value[:7]
			}
		}
	}
	return release
}

// PrintVersion is `stampede version`.
type PrintVersion struct{}

// Run prints the version.
func (PrintVersion) Run(io Streams, version Version) error {
	_, err := fmt.Fprintln(io.Out, "stampede", version)
	return err
}

// Program is what main gives to the commands.
type Program struct {
	Settings  Settings // of run, serve and config
	Serve     Server
	Prove     Prover
	Reconcile Reconciler
	Statement StatementComparer
	Version   Version
}

// Commands is the command table.
type Commands struct {
	Run       Run          `cmd:"" help:"Start everything on this machine: Postgres, Redis and NATS as private parts, a demo sale, the server."`
	Serve     Serve        `cmd:"" help:"Serve with existing Postgres and Redis servers."`
	Migrate   Migrate      `cmd:"" help:"Bring the database to this version's schema."`
	Config    Config       `cmd:"" help:"Print the effective settings of serve, secrets hidden."`
	Token     Token        `cmd:"" help:"Mint access tokens with the signing key."`
	Solve     Solve        `cmd:"" help:"Do the proof of work that an answer requires, and print the header's value."`
	Rush      Rush         `cmd:"" help:"Play shoppers against a running server and report."`
	Verify    Verify       `cmd:"" help:"Prove the books; exits 1 naming each violation, 3 when it could not check."`
	Reconcile ReconcileAll `cmd:"" help:"Compare Redis with the orders in Postgres, or the ledger with the payment providers' statements; exits 1 if differences remain."`
	Alarm     Alarm        `cmd:"" help:"Test where alarms are sent."`
	Preflight Preflight    `cmd:"" help:"Check whether an activity's plan and the servers are ready; exits 1 at a stop."`
	Backup    Backup       `cmd:"" help:"Keep the database and the signing key of a running shop in one encrypted file."`
	Restore   Restore      `cmd:"" help:"Put a backup back, into a new data folder or an empty database."`
	Report    Report       `cmd:"" help:"Fetch what a session was, as a page to print or as JSON."`
	Bench     Bench        `cmd:"" help:"Measure each stage beside a bare baseline on this machine, in some minutes."`
	Capacity  Capacity     `cmd:"" help:"Say which machines a sale needs, from the last run of bench on this one."`
	Version   PrintVersion `cmd:"" help:"Print the version."`
	BenchPart BenchPart    `cmd:"" hidden:"" help:"A child that bench starts."`
}

// Commands returns the table with the settings that its commands use.
func (p Program) Commands() *Commands {
	return &Commands{Run: Run{Settings: p.Settings}, Serve: Serve{Settings: p.Settings}, Config: Config{Settings: p.Settings}}
}

// table is a report that prints itself for a person.
type table interface{ Write(w io.Writer) error }

// printReport prints a report as its own table, or with --json as its fields.
func printReport(w io.Writer, report table, asJSON bool) error {
	if asJSON {
		return printJSON(w, report)
	}
	return report.Write(w)
}

// printJSON prints JSON for other programs, indented so that a person can read it too.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false) // no page contains it
	return enc.Encode(v)
}

// self returns the command that starts this program from any folder: its bare
// name if the shell finds it on PATH, else its full path.
func self(arg0 string) string {
	if !strings.ContainsRune(arg0, filepath.Separator) {
		return arg0
	}
	whole, err := filepath.Abs(arg0)
	if err != nil {
		return arg0 // the working folder is gone, so there is no better answer
	}
	return whole
}

// word quotes a text as one word of a shell command line.
func word(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+=,", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
