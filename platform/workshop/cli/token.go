package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/user"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/edge/auth"
	"stampede/platform/identity/humancheck"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// Token is `stampede token`: access tokens for external tools, one per line.
type Token struct {
	User     int64         `required:"" help:"The first user's id, from 1."`
	Role     auth.Role     `default:"shopper" enum:"shopper,viewer,operator,admin" help:"shopper, viewer, operator or admin."`
	Count    int           `default:"1" help:"How many tokens, for this user and the ids that follow, 1 to 10000000."`
	Lifetime time.Duration `help:"How long each token is valid, as a duration of at most 720h. Default: 24h for a shopper, 1h for the staff." placeholder:"DURATION"`

	SigningKey  string `env:"STAMPEDE_SIGNING_KEY" help:"The server's signing key. Default: the one in --data." secret:"" found:""`
	DatabaseURL string `env:"STAMPEDE_DATABASE_URL" help:"Postgres of the server, whose audit log records the tokens. Default: the one of --data." secret:"" found:""`
	Data        string `default:"${data}" env:"STAMPEDE_DATA" type:"path" help:"Data folder of stampede run."`
}

// Validate checks the flags before anything is minted. The maximum number of
// tokens is that of rush's shoppers, for use with another load tool.
func (c *Token) Validate() error {
	switch {
	case c.User < 1:
		return fmt.Errorf("--user must be an id from 1, not %d", c.User)
	case c.Count < 1 || c.Count > 10_000_000:
		return fmt.Errorf("--count must be between 1 and 10000000, not %d", c.Count)
	case c.User > math.MaxInt64-int64(c.Count)+1:
		return fmt.Errorf("--count %d exceeds the largest user id, which is %d", c.Count, int64(math.MaxInt64))
	case c.Lifetime < 0:
		return fmt.Errorf("--lifetime must be a positive duration, not %s", c.Lifetime)
	}
	return nil
}

const (
	// shopperLifetime is a day of load tests.
	shopperLifetime = 24 * time.Hour
	// staffLifetime is one task of an operator at a shell. A token that was copied
	// from its history is worth little by then.
	staffLifetime = time.Hour
)

// lifetime is how long each token is valid.
func (c *Token) lifetime() time.Duration {
	switch {
	case c.Lifetime > 0:
		return c.Lifetime
	case c.Role == auth.Shopper:
		return shopperLifetime
	default:
		return staffLifetime
	}
}

// Run mints and writes the tokens, and announces a key that it found in the
// default folder. One record in the audit log names them all if the database can be
// reached, and a warning says so if it cannot.
func (c *Token) Run(ctx context.Context, io Streams, flags given) error {
	source := flags.keySource(c.SigningKey != "", c.Data)
	if c.SigningKey == "" {
		stack, err := ReadStack(c.Data)
		if err != nil {
			return err
		}
		c.SigningKey, c.DatabaseURL = stack.SigningKey, cmp.Or(c.DatabaseURL, stack.DatabaseURL)
	}
	// serve would refuse this key, so no server will ever accept the tokens.
	if err := auth.CheckKey(c.SigningKey); err != nil {
		return err
	}
	if source != "" {
		_, _ = fmt.Fprintln(io.Err, source)
	}
	if err := c.record(ctx); err != nil {
		_, _ = fmt.Fprintf(io.Err, "The audit log does not record this token: %v\n", err)
	}
	return c.write(io.Out)
}

// recordWithin bounds the attempt to reach the database: minting also serves an
// operator whose database is down.
const recordWithin = 3 * time.Second

var errNoDatabase = errors.New("no database is known; name it with --database-url")

// record writes the minting into the audit log, under the user that the operating
// system names: the holder of the signing key has no account.
func (c *Token) record(ctx context.Context) error {
	if c.DatabaseURL == "" {
		return errNoDatabase
	}
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	pool, err := pg.Open(ctx, c.DatabaseURL, "token", 1)
	if err != nil {
		return database(c.DatabaseURL).unusable(err)
	}
	defer pool.Close()
	by := "unknown"
	if u, err := user.Current(); err == nil {
		by = u.Username
	}
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		return audit.Note(ctx, tx, "token.mint", "user "+strconv.FormatInt(c.User, 10), map[string]any{
			"role": c.Role, "count": c.Count, "lifetime": c.lifetime().String(), "by": by,
		})
	})
}

// write mints and prints.
func (c *Token) write(w io.Writer) error {
	tokens := auth.NewTokens([]byte(c.SigningKey), time.Now)
	buf := bufio.NewWriter(w) // a system call for each of millions of lines would be most of the work
	for i := range int64(c.Count) {
		token, err := tokens.Mint(auth.Principal{UserID: c.User + i, Role: c.Role, Act: auth.ByCLI}, c.lifetime())
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(buf, token); err != nil {
			return err
		}
	}
	return buf.Flush()
}

// Solve is `stampede solve`: the proof of work of a human check, for a shell.
type Solve struct {
	Answer string `arg:"" help:"The answer human-check-required, or a challenge, as JSON."`
}

// Run prints the value of the header Human-Check.
func (c *Solve) Run(ctx context.Context, io Streams) error {
	var said struct {
		humancheck.Challenge
		Inner humancheck.Challenge `json:"challenge"`
	}
	asked := &said.Inner
	if err := json.Unmarshal([]byte(c.Answer), &said); err != nil {
		asked = &said.Challenge // whose challenge is a text
		if json.Unmarshal([]byte(c.Answer), asked) != nil {
			return errors.New("the argument must be the JSON of an answer human-check-required or of a challenge")
		}
	}
	if asked.Kind != humancheck.Pow {
		return fmt.Errorf("a program solves challenges of kind pow only, not %q", asked.Kind)
	}
	header, err := humancheck.Solve(ctx, asked.Challenge, asked.Difficulty)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(io.Out, header)
	return err
}
