package redisx_test

import (
	"fmt"
	"slices"
	"testing"

	"stampede/platform/store/redisx"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url     string
		addrs   []string
		master  string
		cluster bool
		db      int
		user    string
	}{
		{url: "redis://h:6379/3", addrs: []string{"h:6379"}, db: 3},
		{url: "redis://me:pw@h:6379", addrs: []string{"h:6379"}, user: "me"},
		{url: "unix:///run/redis.sock?db=2", addrs: []string{"/run/redis.sock"}, db: 2},
		{url: "redis-sentinel://me:p%40w@a:26379,b:26379/1?master=shop", addrs: []string{"a:26379", "b:26379"}, master: "shop", db: 1, user: "me"},
		{url: "redis-cluster://a:6379,b:6379,c:6379?tls=true", addrs: []string{"a:6379", "b:6379", "c:6379"}, cluster: true},
	} {
		o, err := redisx.Parse(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if !slices.Equal(o.Addrs, c.addrs) || o.MasterName != c.master || o.IsClusterMode != c.cluster || o.DB != c.db || o.Username != c.user || o.MaxRetries != -1 {
			t.Errorf("%s: %+v", c.url, o)
		}
	}
	for _, bad := range []string{"", "h:6379", "http://h", "redis-sentinel://a:26379", "redis-sentinel://a:26379/x?master=m", "redis-cluster://a,b:6379"} {
		o, err := redisx.Parse(bad)
		require.Equal(t, fmt.Sprintf("Parse(%q) = %+v is an error", bad, o), err != nil, true)
	}
}

func TestMain(m *testing.M) { pgtest.Main(m) }
