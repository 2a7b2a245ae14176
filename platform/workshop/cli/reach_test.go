package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/nats-io/nats-server/v2/server"

	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

// TestUnusableStores is a table of condition → sentence → exit code for the
// stores of `serve`, like the one of platform/workshop/embedded for those of
// `run`.
func TestUnusableStores(t *testing.T) {
	t.Parallel()
	const (
		byDatabase = "correct --database-url (STAMPEDE_DATABASE_URL)"
		byRedis    = "correct --redis-url (STAMPEDE_REDIS_URL)"
		byNATS     = "correct --nats-url (STAMPEDE_NATS_URL)"
	)
	closed := listen(t, nil)
	theirs, err := url.Parse(pgtest.DatabaseURL(t))
	require.NoError(t, err)
	stranger, elsewhere := *theirs, *theirs
	stranger.User, elsewhere.Path = url.UserPassword("stranger", "planted-secret"), "/nowhere"
	redisAddr := redistest.Start(t).Addr
	natsAddr := natsServer(t, false)
	fullPostgres := listen(t, answerAsFullPostgres)
	oldPostgres, oldRedis, oldNATS := listen(t, answerAsPostgres13), listen(t, answerAsRedis6), listen(t, answerAsNATS211)

	for _, c := range []struct {
		name  string
		store store
		exit  int
		want  string // %s is the printed form of the URL
		shown string
	}{
		{"no Postgres there", database("postgres://u:planted-secret@" + closed + "/shop"), 30, "Nothing listens at %s: start PostgreSQL there, or " + byDatabase + ".", "postgres://" + closed + "/shop"},
		{"no Postgres there, not by a URL", database("host=127.0.0.1 port=1 user=u password=planted-secret"), 30, "Nothing listens at %s: start PostgreSQL there, or " + byDatabase + ".", "…"},
		{"no host of Postgres", database("postgres://u:planted-secret@h.invalid/shop"), 31, "The host name of %s does not resolve here: " + byDatabase + ", or DNS.", "postgres://h.invalid/shop"},
		{"wrong login for Postgres", database(stranger.String()), 33, "PostgreSQL at %s refuses the user or the password (", "postgres://" + theirs.Host + theirs.Path},
		{"no such database", database(elsewhere.String()), 34, "PostgreSQL at %s has no such database: create it, or " + byDatabase + ".", "postgres://" + theirs.Host + "/nowhere"},
		{"an old Postgres", database("postgres://u:planted-secret@" + oldPostgres + "/shop?sslmode=disable"), 35, "PostgreSQL at %s is version 13.4: upgrade it to 15 or newer, or " + byDatabase + ".", "postgres://" + oldPostgres + "/shop"},
		{"a full Postgres", database("postgres://u:planted-secret@" + fullPostgres + "/shop?sslmode=disable"), 36, "PostgreSQL at %s has no connection left: raise its max_connections above the sum of --max-conns over all instances, or lower --max-conns, or " + byDatabase + ".", "postgres://" + fullPostgres + "/shop"},
		{"NATS for a Postgres", database("postgres://u:planted-secret@" + natsAddr + "/shop"), 36, "The server at %s cannot be used as PostgreSQL (", "postgres://" + natsAddr + "/shop"},

		{"no Redis there", redisStore("redis://:planted-secret@" + closed + "/0"), 30, "Nothing listens at %s: start Redis there, or " + byRedis + ".", "redis://" + closed + "/0"},
		{"no socket of Redis", redisStore("unix:///nowhere/redis.sock"), 30, "Nothing listens at %s: start Redis there, or " + byRedis + ".", "unix:///nowhere/redis.sock"},
		{"no sentinel there", redisStore("redis-sentinel://" + closed + "/0?master=m"), 30, "Nothing listens at %s: start Redis there, or " + byRedis + ".", "redis-sentinel://" + closed + "/0"},
		{"no cluster there", redisStore("redis-cluster://" + closed), 30, "Nothing listens at %s: start Redis there, or " + byRedis + ".", "redis-cluster://" + closed},
		{"no host of Redis", redisStore("redis://h.invalid:6379/0"), 31, "The host name of %s does not resolve here: " + byRedis + ", or DNS.", "redis://h.invalid:6379/0"},
		{"unknown user for Redis", redisStore("redis://u:planted-secret@" + redisAddr + "/0"), 33, "Redis at %s refuses the user or the password (", "redis://" + redisAddr + "/0"},
		{"no such database of Redis", redisStore("redis://" + redisAddr + "/99"), 34, "Redis at %s has no such database: create it, or " + byRedis + ".", "redis://" + redisAddr + "/99"},
		{"an old Redis", redisStore("redis://" + oldRedis + "/0"), 35, "Redis at %s is version 6.2.14: upgrade it to 7 or newer, or " + byRedis + ".", "redis://" + oldRedis + "/0"},
		{"NATS for a Redis", redisStore("redis://" + natsAddr + "/0"), 36, "The server at %s cannot be used as Redis (", "redis://" + natsAddr + "/0"},

		{"no NATS there", natsStore("nats://planted-secret@" + closed), 30, "Nothing listens at %s: start NATS there, or " + byNATS + ".", "nats://" + closed},
		{"no host of NATS", natsStore("nats://h.invalid:4222"), 31, "The host name of %s does not resolve here: " + byNATS + ", or DNS.", "nats://h.invalid:4222"},
		{"wrong login for NATS", natsStore("nats://u:planted-secret@" + natsServer(t, true)), 33, "NATS at %s refuses the user or the password (", "nats://"},
		{"an old NATS", natsStore("nats://" + oldNATS), 35, "NATS at %s is version 2.11.8: upgrade it to 2.12 or newer, or " + byNATS + ".", "nats://" + oldNATS},
		{"NATS without JetStream", natsStore("nats://" + natsAddr), 36, "NATS at %s runs without JetStream: enable it there (jetstream { store_dir: …, sync_interval: always }), or " + byNATS + ".", "nats://" + natsAddr},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := reach(t.Context(), c.store)
			assertUnusable(t, err, c.exit, strings.Replace(c.want, "%s", c.shown, 1))
		})
	}
}

// assertUnusable compares an error with a sentence, or with its beginning up to
// the server's quoted message.
func assertUnusable(t *testing.T, err error, exit int, want string) {
	t.Helper()
	told, ok := errors.AsType[*storeError](err)
	if !ok {
		t.Fatalf("%v, want %q", err, want)
	}
	begins, _, quotes := strings.Cut(want, " refuses the user")
	if quotes && strings.HasSuffix(begins, "://") { // the table does not know the port
		want = begins
	}
	said := told.Error()
	if told.ExitCode() != exit || !strings.HasPrefix(said, want) || strings.HasSuffix(want, ".") && said != want {
		t.Errorf("got  %d %s\nwant %d %s", told.ExitCode(), said, exit, want)
	}
	if strings.Contains(said, "\n") || strings.Contains(said, "planted-secret") || !strings.Contains(said, "correct --") {
		t.Errorf("more than one line, a password, or no next step: %s", said)
	}
}

func TestSilentStores(t *testing.T) {
	t.Parallel()
	silent := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }) // until the client goes
	for _, s := range []store{database("postgres://" + silent + "/shop"), redisStore("redis://" + silent + "/0"), natsStore("nats://" + silent)} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := s.look(ctx, s.url)
		cancel()
		assertUnusable(t, s.unusable(err), 32, s.name+" at ")
	}
}

func TestUsableStores(t *testing.T) {
	t.Parallel()
	err := reach(t.Context(), database(pgtest.DatabaseURL(t)+"&pool_max_conns=4"), redisStore(redistest.Shards(t, 1).URL), redisStore(pgtest.RedisURL(t)), natsStore(""))
	if err != nil {
		t.Error(err)
	}
	// A server of a cluster that takes connections and is silent; nats.go tries the servers in an order of its own.
	silent := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	cluster := "nats://" + silent + "," + bustest.StartServer(t).URL
	var looks sync.WaitGroup
	for range 8 {
		looks.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := lookAtNATS(ctx, cluster); err != nil {
				t.Errorf("a cluster with a frozen server: %v", err)
			}
		})
	}
	looks.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := reach(ctx, database("postgres://127.0.0.1:1/d")); !interrupted(err) {
		t.Errorf("an interrupted check: %v", err)
	}
}

// listen gives every connection to serve; without it, nothing listens at the
// address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	if serve == nil {
		return "127.0.0.1:1"
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { serve(c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

// natsServer is a NATS without JetStream, with a password or without.
func natsServer(t *testing.T, locked bool) string {
	t.Helper()
	opts := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true}
	if locked {
		opts.Username, opts.Password = "somebody", "else"
	}
	srv, err := server.NewServer(opts)
	require.NoError(t, err)
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("NATS did not start")
	}
	return srv.Addr().String()
}

// Servers that are too old are not available, so their handshakes are simulated here.

func answerAsPostgres13(c net.Conn) {
	b := pgproto3.NewBackend(c, c)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "13.4"})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if b.Flush() == nil {
		_, _ = b.Receive() // the client's closing message
	}
}

func answerAsFullPostgres(c net.Conn) {
	b := pgproto3.NewBackend(c, c)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "53300", Message: "sorry, too many clients already"})
	_ = b.Flush() // the client goes with the error
}

func answerAsRedis6(c net.Conn) {
	for in := bufio.NewScanner(c); in.Scan(); {
		switch strings.ToLower(in.Text()) {
		case "hello", "client":
			_, _ = fmt.Fprint(c, "-ERR unknown command\r\n")
		case "ping":
			_, _ = fmt.Fprint(c, "+PONG\r\n")
		case "info":
			const info = "# Server\r\nredis_version:6.2.14\r\n"
			_, _ = fmt.Fprintf(c, "$%d\r\n%s\r\n", len(info), info)
		}
	}
}

func answerAsNATS211(c net.Conn) {
	_, _ = fmt.Fprint(c, `INFO {"server_id":"old","version":"2.11.8","proto":1,"max_payload":1048576}`+"\r\n")
	for in := bufio.NewScanner(c); in.Scan(); {
		if in.Text() == "PING" {
			_, _ = fmt.Fprint(c, "PONG\r\n")
		}
	}
}

// TestGrantsFlowFindsBacklog: a backlog is a violation only while the order
// writer handles nothing; what other consumers do does not matter.
func TestGrantsFlowFindsBacklog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		text     string
		handles  int64 // messages between two scrapes
		violated bool
		fails    bool
	}{
		{name: "a writer that stands still", text: "# TYPE stampede_bus_grants_messages gauge\nstampede_bus_grants_messages 3\n", violated: true},
		{name: "a writer at work", text: "# TYPE stampede_bus_grants_messages gauge\nstampede_bus_grants_messages 3\n", handles: 1},
		{name: "nothing waits", text: "# TYPE stampede_bus_grants_messages gauge\nstampede_bus_grants_messages 0\n"},
		{name: "another server", text: "up 1\n", fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var scrapes atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				n := scrapes.Add(1)
				_, _ = fmt.Fprint(w, c.text)
				_, _ = fmt.Fprintln(w, "# TYPE stampede_bus_messages_handled_total counter")
				_, _ = fmt.Fprintf(w, "stampede_bus_messages_handled_total{consumer=\"order-writer\",outcome=\"handled\"} %d\n", 7+n*c.handles)
				_, _ = fmt.Fprintf(w, "stampede_bus_messages_handled_total{consumer=\"notify\",outcome=\"handled\"} %d\n", n)
			}))
			defer server.Close()
			found, err := grantsFlow(server.URL, time.Millisecond).Run(t.Context())
			if (err != nil) != c.fails || (len(found) == 1) != c.violated || c.violated && !strings.HasPrefix(found[0].Detail, "3 messages wait") {
				t.Errorf("found %v, error %v", found, err)
			}
		})
	}
}
