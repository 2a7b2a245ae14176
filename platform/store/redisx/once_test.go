package redisx_test

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"testing"

	"stampede/platform/store/redisx"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

// lostAnswer is the answer that losingProxy recognizes and drops.
const lostAnswer = "carried out"

// losingProxy forwards connections to a server and cuts those on which lostAnswer
// comes back.
func losingProxy(t *testing.T, server string) (port int) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed
			}
			upstream, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(upstream, client)
				_ = upstream.Close()
			}()
			go func() {
				defer func() { _ = client.Close() }()
				buf := make([]byte, 64<<10)
				for {
					n, err := upstream.Read(buf)
					if err != nil || bytes.Contains(buf[:n], []byte(lostAnswer)) {
						return
					}
					if _, err := client.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// A script whose answer was lost has run. A client that retries it on its own
// would run it twice.
func TestClusterClientSendsAScriptOnce(t *testing.T) {
	t.Parallel()
	node := redistest.Shards(t, 1).Primaries[0]
	port := losingProxy(t, node.Addr)
	require.NoError(t, node.Client.ConfigSet(t.Context(), "cluster-announce-port", strconv.Itoa(port)).Err())
	rdb, err := redisx.Open(t.Context(), "redis-cluster://127.0.0.1:"+strconv.Itoa(port))
	require.NoError(t, err)
	defer func() { _ = rdb.Close() }()
	err = rdb.Eval(t.Context(), "redis.call('INCR', KEYS[1]) return ARGV[1]", []string{"runs"}, lostAnswer).Err()
	require.Equal(t, "the answer is lost", err != nil, true)
	require.Equal(t, "runs of the script", node.Client.Get(t.Context(), "runs").Val(), "1")
	require.NoError(t, rdb.Set(t.Context(), "other", 1, 0).Err())
}
