package redisx_test

import (
	"errors"
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
		if !errors.Is(err, redisx.ErrRefuses) || !redisx.Refused(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want one about %s", err, c.want)
		}
		if err := c.server.Eval(t.Context(), "#!lua\nredis.call('INCR', KEYS[1])", []string{"n"}).Err(); !redisx.Refused(err) {
			t.Errorf("a script: %v", err)
		}
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
