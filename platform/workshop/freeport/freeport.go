// Package freeport finds ports for servers that tests and benchmarks start.
package freeport

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Find chooses n distinct ports from from to below to, on which no process listens now. A range below the ephemeral
// ports keeps them free of outgoing connections, which tests open by the thousand, and a range of its own keeps others
// from a server's port while it is stopped.
func Find(ctx context.Context, n, from, to int) (ports []int, err error) {
	var held []net.Listener // until all are chosen, so that none is chosen twice
	defer func() {
		for _, l := range held {
			err = errors.Join(err, l.Close())
		}
	}()
	for range 1000 {
		port := from + rand.IntN(to-from) //nolint:gosec // a port is no secret
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		held = append(held, l)
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no free ports")
}
