// Package lua has the scripts that decide and move units in Redis, and calls them. The header of each script is its
// contract.
package lua

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var sources embed.FS

// The scripts.
var (
	Reserve  = load("reserve")
	Persist  = load("persist")
	Release  = load("release")
	Commit   = load("commit")
	Retake   = load("retake")
	Withdraw = load("withdraw")
	Change   = load("change")
	Fence    = load("fence")
	Patch    = load("patch")
	Load     = load("load")
	State    = load("state")
	Hold     = load("hold")
	Settle   = load("settle")
	Buyers   = load("buyers")
	Unbuy    = load("unbuy")
)

// Script runs by its hash and is sent in full only to a Redis that does not have it cached, so a restarted or
// failed-over server needs no preparation.
type Script struct {
	name string
	*redis.Script
}

func load(name string) Script {
	source, err := sources.ReadFile(name + ".lua")
	if err != nil {
		panic(err) // a name above that is no file
	}
	return Script{name, redis.NewScript(string(source))}
}

// Chunk is how many numbers one call of a script other than reserve.lua takes: they stay as short as a decision.
const Chunk = 512

// The codes shared by release.lua, commit.lua, retake.lua and hold.lua.
const (
	Done       = 0
	NoState    = 1
	Fenced     = 2
	OtherEpoch = 3
)

// Flag is a boolean in the form that the scripts expect.
func Flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ErrReply means that a script's answer does not match its header: the binary and the script are of different
// versions.
var ErrReply = errors.New("unexpected reply")

// Call calls the script and checks that it returned a list that begins with at least figures integers.
func (sc Script) Call(ctx context.Context, rdb redis.Scripter, figures int, keys []string, args ...any) (Reply, error) {
	r, err := sc.Run(ctx, rdb, keys, args...).Slice()
	if err != nil {
		return nil, sc.Failed(err)
	}
	return r, sc.Check(r, figures)
}

// Args are the arguments of one call of a script.
type Args struct {
	Keys []string
	Args []any
}

// TryAll makes calls in one pipeline, first by the script's hash and, on a server that does not have it cached, once
// more by its source. Each call's answer or error is at its index; one that fails does not affect the others.
func (sc Script) TryAll(ctx context.Context, rdb redis.UniversalClient, calls []Args) []*redis.Cmd {
	done := make([]*redis.Cmd, len(calls))
	for _, run := range []func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd{sc.EvalSha, sc.Eval} {
		_, _ = rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the commands carry the errors
			for i, c := range calls {
				if done[i] == nil || redis.HasErrorPrefix(done[i].Err(), "NOSCRIPT") {
					done[i] = run(ctx, pipe, c.Keys, c.Args...)
				}
			}
			return nil
		})
	}
	return done
}

// Check makes sure that the first elements are integers.
func (sc Script) Check(r Reply, figures int) error {
	if len(r) < figures {
		return fmt.Errorf("inventory: %s.lua: %d elements: %w", sc.name, len(r), ErrReply)
	}
	for i, v := range r[:figures] {
		if _, ok := v.(int64); !ok {
			return fmt.Errorf("inventory: %s.lua: element %d is %T: %w", sc.name, i, v, ErrReply)
		}
	}
	return nil
}

// Failed says of an error which script was called.
func (sc Script) Failed(err error) error { return fmt.Errorf("inventory: %s.lua: %w", sc.name, err) }

// Reply is a script's answer. Its leading figures have been checked by Call.
type Reply []any

// Int is one of the figures.
func (r Reply) Int(i int) int64 { return r[i].(int64) } //nolint:errcheck // checked by Call

// Text is an element that is a string.
func (r Reply) Text(i int) (string, error) {
	if i >= len(r) {
		return "", fmt.Errorf("inventory: element %d is missing: %w", i, ErrReply)
	}
	v, ok := r[i].(string)
	if !ok {
		return "", fmt.Errorf("inventory: element %d is %T: %w", i, r[i], ErrReply)
	}
	return v, nil
}
