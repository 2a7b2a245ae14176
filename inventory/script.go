package inventory

import (
	"context"
	_ "embed" // the scripts are in their own files
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// script runs by its hash and is sent in full only to a Redis that does not
// have it cached, so a restarted or failed-over server needs no preparation.
type script struct {
	name string
	*redis.Script
}

var (
	//go:embed lua/reserve.lua
	reserveSource string
	//go:embed lua/persist.lua
	persistSource string
	//go:embed lua/release.lua
	releaseSource string
	//go:embed lua/commit.lua
	commitSource string
	//go:embed lua/retake.lua
	retakeSource string
	//go:embed lua/withdraw.lua
	withdrawSource string
	//go:embed lua/change.lua
	changeSource string
	//go:embed lua/fence.lua
	fenceSource string
	//go:embed lua/patch.lua
	patchSource string
	//go:embed lua/load.lua
	loadSource string
	//go:embed lua/state.lua
	stateSource string
	//go:embed lua/hold.lua
	holdSource string
	//go:embed lua/settle.lua
	settleSource string
	//go:embed lua/buyers.lua
	buyersSource string
	//go:embed lua/unbuy.lua
	unbuySource string

	reserveScript  = script{"reserve", redis.NewScript(reserveSource)}
	persistScript  = script{"persist", redis.NewScript(persistSource)}
	releaseScript  = script{"release", redis.NewScript(releaseSource)}
	commitScript   = script{"commit", redis.NewScript(commitSource)}
	retakeScript   = script{"retake", redis.NewScript(retakeSource)}
	withdrawScript = script{"withdraw", redis.NewScript(withdrawSource)}
	changeScript   = script{"change", redis.NewScript(changeSource)}
	fenceScript    = script{"fence", redis.NewScript(fenceSource)}
	patchScript    = script{"patch", redis.NewScript(patchSource)}
	loadScript     = script{"load", redis.NewScript(loadSource)}
	stateScript    = script{"state", redis.NewScript(stateSource)}
	holdScript     = script{"hold", redis.NewScript(holdSource)}
	settleScript   = script{"settle", redis.NewScript(settleSource)}
	buyersScript   = script{"buyers", redis.NewScript(buyersSource)}
	unbuyScript    = script{"unbuy", redis.NewScript(unbuySource)}
)

// errReply means that a script's answer does not match its header: the binary
// and the script are of different versions.
var errReply = errors.New("unexpected reply")

// run calls the script and checks that it returned a list that begins with at
// least figures integers.
func (sc script) run(ctx context.Context, rdb redis.Scripter, figures int, keys []string, args ...any) (reply, error) {
	r, err := sc.Run(ctx, rdb, keys, args...).Slice()
	if err != nil {
		return nil, sc.failed(err)
	}
	return r, sc.check(r, figures)
}

// scriptCall has the arguments of one call of a script.
type scriptCall struct {
	keys []string
	args []any
}

// tryAll makes calls in one pipeline, first by the script's hash and, on a
// server that does not have it cached, once more by its source. Each call's
// answer or error is at its index; one that fails does not affect the others.
func (sc script) tryAll(ctx context.Context, rdb redis.UniversalClient, calls []scriptCall) []*redis.Cmd {
	done := make([]*redis.Cmd, len(calls))
	for _, run := range []func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd{sc.EvalSha, sc.Eval} {
		_, _ = rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the commands carry the errors
			for i, c := range calls {
				if done[i] == nil || redis.HasErrorPrefix(done[i].Err(), "NOSCRIPT") {
					done[i] = run(ctx, pipe, c.keys, c.args...)
				}
			}
			return nil
		})
	}
	return done
}

// runAll is tryAll for calls whose answers are not needed. It returns the
// errors.
func (sc script) runAll(ctx context.Context, rdb redis.UniversalClient, calls []scriptCall) error {
	var failed []error
	for _, cmd := range sc.tryAll(ctx, rdb, calls) {
		if err := cmd.Err(); err != nil {
			failed = append(failed, sc.failed(err))
		}
	}
	return errors.Join(failed...)
}

// check makes sure that the first elements are integers.
func (sc script) check(r reply, figures int) error {
	if len(r) < figures {
		return fmt.Errorf("inventory: %s.lua: %d elements: %w", sc.name, len(r), errReply)
	}
	for i, v := range r[:figures] {
		if _, ok := v.(int64); !ok {
			return fmt.Errorf("inventory: %s.lua: element %d is %T: %w", sc.name, i, v, errReply)
		}
	}
	return nil
}

func (sc script) failed(err error) error { return fmt.Errorf("inventory: %s.lua: %w", sc.name, err) }

// reply is a script's answer. Its leading figures have been checked by run.
type reply []any

func (r reply) int(i int) int64 { return r[i].(int64) } //nolint:errcheck // checked by run

func (r reply) text(i int) (string, error) {
	if i >= len(r) {
		return "", fmt.Errorf("inventory: element %d is missing: %w", i, errReply)
	}
	v, ok := r[i].(string)
	if !ok {
		return "", fmt.Errorf("inventory: element %d is %T: %w", i, r[i], errReply)
	}
	return v, nil
}

// The codes shared by release.lua, commit.lua, retake.lua and hold.lua.
const (
	codeDone       = 0
	codeNoState    = 1
	codeFenced     = 2
	codeOtherEpoch = 3
)
