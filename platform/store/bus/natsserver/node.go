package natsserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/app"
)

// Node is one server of a NATS cluster with JetStream on loopback, in a process of its own: for benchmarks, and for tests
// that kill it.
type Node struct {
	Name, Dir       string
	Port, RoutePort int
	Routes          []int // the ports by which the servers find each other
	Synced          bool  // each message is synced to disk before it is acknowledged
}

// Serve runs the server until the input ends, as it does at the end of the process that holds its other side.
func (n Node) Serve(in io.Reader) error {
	var routes []string
	for _, port := range n.Routes {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	srv, err := server.NewServer(&server.Options{
		ServerName: n.Name, Host: "127.0.0.1", Port: n.Port, JetStream: true, StoreDir: n.Dir, SyncAlways: n.Synced, NoSigs: true, NoLog: true,
		Cluster: server.ClusterOpts{Name: "shop", Host: "127.0.0.1", Port: n.RoutePort},
		Routes:  server.RoutesFromStr(strings.Join(routes, ",")),
	})
	if err != nil {
		return fmt.Errorf("natsserver: start a server of a cluster: %w", err)
	}
	srv.Start()
	_, _ = io.Copy(io.Discard, in)
	srv.Shutdown()
	srv.WaitForShutdown()
	return nil
}

// AwaitCopies waits until the cluster at the URL has a leader and can store a stream with so many copies, which takes up
// to some ten seconds after its start.
func AwaitCopies(ctx context.Context, url string, copies int) error {
	for {
		err := storesCopies(ctx, url, copies)
		if err == nil {
			return nil
		}
		if app.Sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("natsserver: the cluster did not become ready: %w", errors.Join(context.Cause(ctx), err))
		}
	}
}

func storesCopies(ctx context.Context, url string, copies int) error {
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	const name = "READY"
	if _, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{"ready"}, Replicas: copies}); err != nil {
		return err
	}
	return js.DeleteStream(ctx, name)
}
