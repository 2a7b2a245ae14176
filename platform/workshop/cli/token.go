package cli

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"time"

	"stampede/platform/edge/auth"
)

// Token is `stampede token`: access tokens for external tools, one per line.
type Token struct {
	User     int64         `required:"" help:"The first user's id, from 1."`
	Role     auth.Role     `default:"shopper" enum:"shopper,viewer,operator,admin" help:"shopper, viewer, operator or admin."`
	Count    int           `default:"1" help:"How many tokens, for this user and the ids that follow, 1 to 10000000."`
	Lifetime time.Duration `default:"24h" help:"How long each token is valid, as a duration of at most 720h."`

	SigningKey string `env:"STAMPEDE_SIGNING_KEY" help:"The server's signing key. Default: the one in --data." secret:"" found:""`
	Data       string `default:"${data}" env:"STAMPEDE_DATA" type:"path" help:"Data folder of stampede run."`
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
	case c.Lifetime <= 0:
		return fmt.Errorf("--lifetime must be a positive duration, not %s", c.Lifetime)
	}
	return nil
}

// Run mints and writes the tokens, and announces a key that it found in the
// default folder.
func (c *Token) Run(io Streams, flags given) error {
	source := flags.keySource(c.SigningKey != "", c.Data)
	if c.SigningKey == "" {
		stack, err := ReadStack(c.Data)
		if err != nil {
			return err
		}
		c.SigningKey = stack.SigningKey
	}
	// serve would refuse this key, so no server will ever accept the tokens.
	if err := auth.CheckKey(c.SigningKey); err != nil {
		return err
	}
	if source != "" {
		_, _ = fmt.Fprintln(io.Err, source)
	}
	return c.write(io.Out)
}

// write mints and prints.
func (c *Token) write(w io.Writer) error {
	tokens := auth.NewTokens([]byte(c.SigningKey), time.Now)
	buf := bufio.NewWriter(w) // a system call for each of millions of lines would be most of the work
	for i := range int64(c.Count) {
		token, err := tokens.Mint(auth.Principal{UserID: c.User + i, Role: c.Role}, c.Lifetime)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(buf, token); err != nil {
			return err
		}
	}
	return buf.Flush()
}
