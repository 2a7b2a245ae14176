package bus

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/tracing"
)

// MinVersion is the oldest supported NATS server, the first with message schedules: instances of
// 0.10.0 beside this one need them.
const MinVersion = "2.12"

// Settings bound how many events may wait and how long a publish is retried.
// PublishDeadline must stay below half of the streams' duplicate window, or a
// late retry would be stored a second time.
type Settings struct {
	EventsMaxMiB    int64         `name:"events-max-mib" default:"1024" env:"STAMPEDE_EVENTS_MAX_MIB" help:"Most MiB of events kept for consumers; when full, events wait in the outbox." min:"1" max:"1048576" group:"Disk and records:" rare:""`
	PublishDeadline time.Duration `default:"5s" env:"STAMPEDE_PUBLISH_DEADLINE" help:"How long a publish with an unclear outcome is retried before the shopper gets the answer unknown." min:"100ms" max:"1m" rare:""`
}

// Config configures where messages are stored and how many may wait.
type Config struct {
	// URL of an external NATS 2.12 or newer, "nats://host:4222,…". It should run with
	// "sync_interval: always" or be one of a cluster of three; otherwise a power cut may
	// lose what it acknowledged.
	URL string
	// Embedded is a server inside the process in place of a URL; then no other process
	// may use its database. Open starts it, the monitor restarts it when it is broken,
	// and Close stops it. On a small disk the streams are smaller than the settings
	// allow (see Bus.fit).
	Embedded Server
	// Queues are the modules' work queues.
	Queues []QueueConfig
	Settings
	// Log is required.
	Log *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Trace traces messages from their publisher to their consumers; nil is off.
	Trace *tracing.Tracer
}

// Server is a NATS server inside the process; package natsserver has it.
type Server interface {
	nats.InProcessConnProvider
	Start() error
	// Stop returns when the server has released its folder.
	Stop(ctx context.Context) error
	// Healthy fails at the first write error and then until a restart.
	Healthy() error
	// Writable checks that a restart would not hit the same error.
	Writable() error
	FreeBytes() (int64, error)
}

// smallestStreamBytes is below any sensible bound: one batch of 64 messages of
// 10 KiB must fit with room to spare.
const smallestStreamBytes = 1 << 20

// Validate reports missing fields.
func (c Config) Validate() error {
	switch {
	case (c.URL == "") == (c.Embedded == nil):
		return errors.New("bus: either URL or Embedded is required")
	case c.Log == nil:
		return errors.New("bus: Log is required")
	}
	return nil
}
