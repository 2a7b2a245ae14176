package inventory

import (
	"context"
	_ "embed" // the scripts are files of their own
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// A script runs by its hash and is sent in full only to a Redis that has not
// seen it, so a restarted or failed-over server needs no preparation.
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
	//go:embed lua/change.lua
	changeSource string
	//go:embed lua/fence.lua
	fenceSource string
	//go:embed lua/load.lua
	loadSource string
	//go:embed lua/state.lua
	stateSource string
	//go:embed lua/hold.lua
	holdSource string
	//go:embed lua/settle.lua
	settleSource string

	reserveScript = script{"reserve", redis.NewScript(reserveSource)}
	persistScript = script{"persist", redis.NewScript(persistSource)}
	releaseScript = script{"release", redis.NewScript(releaseSource)}
	commitScript  = script{"commit", redis.NewScript(commitSource)}
	changeScript  = script{"change", redis.NewScript(changeSource)}
	fenceScript   = script{"fence", redis.NewScript(fenceSource)}
	loadScript    = script{"load", redis.NewScript(loadSource)}
	stateScript   = script{"state", redis.NewScript(stateSource)}
	holdScript    = script{"hold", redis.NewScript(holdSource)}
	settleScript  = script{"settle", redis.NewScript(settleSource)}
)

// errReply means that a script answered in another form than its header says:
// the binary and the script do not belong together.
var errReply = errors.New("unexpected reply")

// run calls the script and checks that it answered a list that begins with at
// least figures integers.
func (sc script) run(ctx context.Context, rdb redis.Scripter, figures int, keys []string, args ...any) (reply, error) {
	r, err := sc.Run(ctx, rdb, keys, args...).Slice()
	if err != nil {
		return nil, sc.failed(err)
	}
	return r, sc.check(r, figures)
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

func (r reply) int(i int) int64 { return r[i].(int64) } //nolint:errcheck // as said

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

// The codes that release.lua, commit.lua and hold.lua share.
const (
	codeDone       = 0
	codeNoState    = 1
	codeFenced     = 2
	codeOtherEpoch = 3
)
