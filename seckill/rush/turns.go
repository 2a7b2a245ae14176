package rush

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

//go:embed turns.lua
var turnsSource string

var turnsScript = redis.NewScript(turnsSource)

// RedisKeys are the prefixes of the package's keys.
var RedisKeys = []string{turnsPrefix}

const turnsPrefix = "{turns:"

var errTurns = errors.New("the script's answer is malformed")

// turns are the turns of an item's users, which all instances share in Redis; see turns.lua.
type turns struct {
	redis redis.UniversalClient
	keys  []string
	now   func() int64 // Unix µs, in tests; 0 is the server's time
}

func newTurns(item int64, client redis.UniversalClient) turns {
	line := turnsPrefix + strconv.FormatInt(item, 10) + "}"
	return turns{redis: client, keys: []string{line, line + ":2", line + ":3"}, now: func() int64 { return 0 }}
}

// count counts the turns that have come at the rate, and gives the attempts theirs: 0
// for one that would be behind most others. used are users whose turns are used up.
func (t turns) count(ctx context.Context, rate int32, most int64, used []int64, asking []*attempt) (issued, reached int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, reserveTimeout)
	defer cancel()
	args := make([]any, 0, 4+len(used)+len(asking))
	args = append(args, t.now(), rate, most, len(used))
	for _, user := range used {
		args = append(args, user)
	}
	for _, a := range asking {
		args = append(args, a.user)
	}
	answer, err := turnsScript.Run(ctx, t.redis, t.keys, args...).Int64Slice()
	if err == nil && len(answer) != 2+len(asking) {
		err = errTurns
	}
	if err != nil {
		return 0, 0, fmt.Errorf("seckill: turns.lua: %w", err)
	}
	for i, a := range asking {
		a.turn = answer[2+i]
	}
	return answer[0], answer[1], nil
}

// forget forgets every turn, once the item has no rate.
func (t turns) forget(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reserveTimeout)
	defer cancel()
	if err := t.redis.Unlink(ctx, t.keys...).Err(); err != nil {
		return fmt.Errorf("seckill: forget turns: %w", err)
	}
	return nil
}
