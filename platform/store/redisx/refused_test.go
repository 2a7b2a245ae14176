package redisx_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"stampede/platform/store/redisx"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

func TestRefusedWritesAreToldFromUnclearOnes(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := redistest.StartReplica(t, primary)
	require.NoError(t, redisx.Writable(t.Context(), primary.Client))
	require.NoError(t, primary.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for _, c := range []struct {
		server *redis.Client
		want   string
	}{{primary.Client, "maxmemory"}, {replica.Client, "replica"}} {
		err := redisx.Writable(t.Context(), c.server)
		require.ErrorIs(t, err, redisx.ErrRefuses)
		require.Equal(t, fmt.Sprintf("%v is a refusal about %s", err, c.want), redisx.Refused(err) && strings.Contains(err.Error(), c.want), true)
		script := c.server.Eval(t.Context(), "#!lua\nredis.call('INCR', KEYS[1])", []string{"n"}).Err()
		require.Equal(t, fmt.Sprintf("a script: %v is a refusal", script), redisx.Refused(script), true)
	}
	primary.Kill()
	if err := redisx.Writable(t.Context(), primary.Client); err == nil || errors.Is(err, redisx.ErrRefuses) {
		t.Errorf("a killed server: %v", err)
	}
	for _, c := range []struct {
		err  error
		want bool
	}{{&net.OpError{Op: "dial", Err: errors.New("refused")}, true}, {&net.OpError{Op: "read", Err: errors.New("reset")}, false}, {redisx.ErrNoAnswer, false}, {nil, false}} {
		require.Equal(t, "refused", redisx.Refused(c.err), c.want)
	}
}
