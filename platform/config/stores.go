package config

import (
	"errors"
	"fmt"
	"net/url"

	"stampede/platform/redisx"
)

// Stores names the servers that `serve` uses.
type Stores struct {
	DatabaseURL string `default:"" env:"STAMPEDE_DATABASE_URL" help:"Required. PostgreSQL 15 or newer, postgres://user:password@host/database." secret:"" group:"required"`
	RedisURL    string `default:"" env:"STAMPEDE_REDIS_URL" help:"Required. Redis 7 or newer with appendfsync always and noeviction: redis://, rediss://, unix://, redis-sentinel://host,host/0?master=name or redis-cluster://host,host." secret:"" group:"required"`
	NATSURL     string `name:"nats-url" default:"" env:"STAMPEDE_NATS_URL" help:"NATS with JetStream, nats://host:4222; the servers of a cluster with commas between. Empty: embedded, and this process is the only instance." secret:"" group:"nats"`
	NATSDir     string `name:"nats-dir" default:"" env:"STAMPEDE_NATS_DIR" help:"Folder for the embedded NATS server's data when no NATS URL is given. Empty: ./data/nats." group:"nats"`
}

// Validate checks the stores' URLs without connecting, and returns a sentence for
// each that is wrong.
func (s Stores) Validate() error {
	return errors.Join(s.needed(), s.validateDatabase(), s.validateRedis(), s.validateNATS())
}

// needed finds a URL that was left out.
func (s Stores) needed() error {
	if s.DatabaseURL == "" || s.RedisURL == "" {
		return errors.New("--database-url and --redis-url are needed, or STAMPEDE_DATABASE_URL and STAMPEDE_REDIS_URL; `stampede run` brings stores of its own")
	}
	return nil
}

func (s Stores) validateDatabase() error {
	if u, err := url.Parse(s.DatabaseURL); s.DatabaseURL != "" && (err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql")) {
		return errors.New("--database-url must be like postgres://user:password@host/database")
	}
	return nil
}

func (s Stores) validateRedis() error {
	if s.RedisURL == "" {
		return nil
	}
	if _, err := redisx.Parse(s.RedisURL); err != nil {
		// Such an error repeats the URL, and with it the password.
		if bad, ok := errors.AsType[*url.Error](err); ok {
			err = bad.Err
		}
		return fmt.Errorf("--redis-url must be like redis://:password@host:6379/0: %w", err)
	}
	return nil
}

func (s Stores) validateNATS() error {
	if u, err := url.Parse(s.NATSURL); s.NATSURL != "" && (err != nil || (u.Scheme != "nats" && u.Scheme != "tls") || u.Host == "") {
		return errors.New("--nats-url must be like nats://host:4222")
	}
	return nil
}
