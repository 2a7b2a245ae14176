package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// redisSettings are given on the command line; no configuration file is read or written.
func redisSettings(cfg Config, data, sockets string) map[string]string {
	dir := filepath.Join(data, "redis")
	settings := map[string]string{
		"port":           "0", // unix socket only
		"unixsocket":     filepath.Join(sockets, redisSocket),
		"unixsocketperm": "700",
		"dir":            dir,
		"pidfile":        filepath.Join(dir, "redis.pid"),
		"daemonize":      "no",
		"supervised":     "no",
		"logfile":        "", // standard output, which is our log file
		// A later start recognizes an orphan by this title.
		"set-proc-title":      "yes",
		"proc-title-template": "{title} {listen-addr} {server-mode}",

		// Every acknowledged grant must survive a power cut; one script call
		// decides hundreds, so syncing each call is nearly free. Snapshots are
		// off: the append-only file is the only copy.
		"appendonly":  "yes",
		"appendfsync": "always",
		"save":        "",
		// Rewriting the file takes a core for a second, possibly in the middle
		// of a rush, so it happens only when there is much to gain. A start
		// reads back half a gigabyte within some seconds.
		"auto-aof-rewrite-min-size": "512mb",
		"rdbcompression":            "no",
		// Nothing may be evicted silently: when memory is full, writes fail and
		// the sale fences itself.
		"maxmemory":        strconv.FormatInt(cfg.RedisMaxMemoryBytes, 10),
		"maxmemory-policy": "noeviction",
		// A hash of the order cache expires with all its orders at the same
		// time; free them in another thread.
		"lazyfree-lazy-expire": "yes",
		// One process is the only client; a few hundred connections are far
		// more than its pools open, and this fits the usual limit of 1024 open
		// files.
		"maxclients": "512",
	}
	if cfg.Throwaway {
		settings["appendonly"], settings["appendfsync"] = "no", "no"
	}
	maps.Copy(settings, cfg.RedisSettings)
	return settings
}

// redisPart describes Redis.
func (s *Stack) redisPart() part {
	p := part{server: redisServer(s.sockets.path), sockets: []string{redisSocket}}
	socket := filepath.Join(s.sockets.path, redisSocket)
	p.start = func(ctx context.Context) (*child, error) { return s.startRedis(ctx, p.server, socket) }
	p.check = func(ctx context.Context) error {
		if err := ping(ctx, socket); !errors.Is(err, errNoPong) {
			return err
		}
		return nil
	}
	return p
}

// startRedis starts the server and waits until it has loaded its data.
func (s *Stack) startRedis(ctx context.Context, srv server, socket string) (*child, error) {
	settings := redisSettings(s.cfg, s.data.path, s.sockets.path)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "--"+name, settings[name])
	}
	c, err := s.spawn(srv, s.Binaries.Redis, filepath.Join(s.data.path, "redis"), args...)
	if err != nil {
		return nil, err
	}
	err = c.await(ctx, s.data, func(ctx context.Context) error { return ping(ctx, socket) })
	return c, err
}

// errNoPong means that Redis answered a PING with an error, such as that it is
// loading its data.
var errNoPong = errors.New("no PONG")

// ping waits for a PONG, which Redis sends only once its data is loaded. Two
// lines of protocol need no client.
func ping(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return ask(ctx, socket, "PING\r\n", func(answer io.Reader) error {
		line, err := bufio.NewReader(answer).ReadString('\n')
		if line = strings.TrimSpace(line); err == nil && line != "+PONG" {
			err = fmt.Errorf("%w: %s", errNoPong, line)
		}
		return err
	})
}
