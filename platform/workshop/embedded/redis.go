package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
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
		// The title is how a later start recognises an orphan.
		"set-proc-title":      "yes",
		"proc-title-template": "{title} {listen-addr} {server-mode}",

		// Every grant that was answered must survive a power cut; one script call decides hundreds, so syncing each
		// is nearly free. The snapshot schedule is off: the append-only file is the one copy.
		"appendonly":  "yes",
		"appendfsync": "always",
		"save":        "",
		// Writing the file anew takes a core for a second, in the middle of a rush if that is when it has grown: it waits
		// until there is much to gain. Half a gigabyte is read back within some seconds of a start.
		"auto-aof-rewrite-min-size": "512mb",
		"rdbcompression":            "no",
		// Nothing may be forgotten silently: when memory is full, writes fail and the sale fences itself.
		"maxmemory":        strconv.FormatInt(cfg.RedisMaxMemoryBytes, 10),
		"maxmemory-policy": "noeviction",
		// A hash of the order cache ends with all its orders at once; freeing them is left to another thread.
		"lazyfree-lazy-expire": "yes",
		// One process is the only user; a few hundred connections are far more than its pools hold, and this fits
		// the usual limit of 1024 open files.
		"maxclients": "512",
	}
	if cfg.Throwaway {
		settings["appendonly"], settings["appendfsync"] = "no", "no"
	}
	maps.Copy(settings, cfg.RedisSettings)
	return settings
}

// startRedis starts the server and waits until it has loaded its data.
func (s *Stack) startRedis(ctx context.Context, cfg Config) error {
	return cfg.timed(ctx, "start Redis "+s.Binaries.RedisVersion, func(ctx context.Context) error {
		settings := redisSettings(cfg, s.data.path, s.sockets.path)
		var args []string
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			args = append(args, "--"+name, settings[name])
		}
		dir := filepath.Join(s.data.path, "redis")
		c, err := s.spawn(redisServer(s.data.path, s.sockets.path), s.Binaries.Redis, dir, args...)
		if err != nil {
			return err
		}
		s.RedisURL = "unix://" + filepath.Join(s.sockets.path, redisSocket)
		err = c.await(ctx, s.data, func(ctx context.Context) error {
			return ping(ctx, filepath.Join(s.sockets.path, redisSocket))
		})
		if err != nil {
			return err
		}
		s.watch(c)
		return nil
	})
}

// ping asks for a PONG, which Redis gives only once its data is loaded. Two lines of protocol need no client.
func ping(ctx context.Context, socket string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return fmt.Errorf("ping: %w", err)
		}
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	if answer = strings.TrimSpace(answer); answer != "+PONG" {
		return fmt.Errorf("ping: %s", answer)
	}
	return nil
}
