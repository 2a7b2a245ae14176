package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/telemetry/tracing"
)

// MinVersion is the oldest NATS server that will do: schedules came with it.
const MinVersion = "2.12"

// Config says where the messages live and how many may wait.
type Config struct {
	// URL of an outside NATS 2.12 or newer, "nats://host:4222,…". Empty starts
	// one inside the process; then the process must be alone on its database. An
	// outside server should run with "sync_interval: always" or be one of a cluster
	// of three; otherwise a power cut may lose what it acknowledged.
	URL string
	// StoreDir is the embedded server's folder. Unused with a URL.
	StoreDir string
	// MaxGrantsBytes bounds what waits for the order writer, in bytes. A grant
	// takes about 40, so the default of 1 GiB is 25 million queued attempts.
	// On a small disk the embedded server takes less (see boundsFor).
	MaxGrantsBytes int64
	// MaxEventsBytes bounds the kept events, in bytes. An order's event takes
	// about 450 and is dropped when needed once every consumer has had it.
	// Defaults to 1 GiB.
	MaxEventsBytes int64
	// PublishDeadline is how long Publish repeats a message without a clear
	// answer. It must stay well below the duplicate window of two minutes.
	// Defaults to 5 s.
	PublishDeadline time.Duration
	// Log is required.
	Log *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Trace follows messages from their publisher to their consumers; nil is off.
	Trace *tracing.Tracer
}

// DefaultConfig is an embedded bus that still needs its folder and logger.
func DefaultConfig() Config {
	return Config{
		MaxGrantsBytes:  1 << 30,
		MaxEventsBytes:  1 << 30,
		PublishDeadline: 5 * time.Second,
	}
}

// smallestStreamBytes is below any sensible bound: one batch of 64 messages of
// 10 KiB must fit with room to spare.
const smallestStreamBytes = 1 << 20

// Validate reports the first setting that cannot work, by its name.
func (c Config) Validate() error {
	switch {
	case c.URL == "" && c.StoreDir == "":
		return errors.New("bus: StoreDir is required without a URL")
	case c.MaxGrantsBytes < smallestStreamBytes:
		return fmt.Errorf("bus: MaxGrantsBytes is %d, at least %d are needed", c.MaxGrantsBytes, smallestStreamBytes)
	case c.MaxEventsBytes < smallestStreamBytes:
		return fmt.Errorf("bus: MaxEventsBytes is %d, at least %d are needed", c.MaxEventsBytes, smallestStreamBytes)
	case c.PublishDeadline < 100*time.Millisecond || c.PublishDeadline > duplicateWindow/2:
		return fmt.Errorf("bus: PublishDeadline is %s, it must be between 100ms and %s", c.PublishDeadline, duplicateWindow/2)
	case c.Log == nil:
		return errors.New("bus: Log is required")
	}
	return nil
}
