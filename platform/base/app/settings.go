package app

import (
	"fmt"
	"time"
)

// Settings are how long a stop may take.
type Settings struct {
	StopTimeout  time.Duration `default:"10s" env:"STAMPEDE_STOP_TIMEOUT" help:"Hard limit for an orderly stop." min:"1s" max:"10m" rare:""`
	DrainTimeout time.Duration `default:"4s" env:"STAMPEDE_DRAIN_TIMEOUT" help:"How long requests in flight may take during a stop, shorter than --stop-timeout." rare:""`
}

// Check compares the two only when StopTimeout is within its bounds, so that
// one mistake is reported once.
func (s Settings) Check() error {
	if s.StopTimeout >= time.Second && (s.DrainTimeout <= 0 || s.DrainTimeout >= s.StopTimeout) {
		return fmt.Errorf("--drain-timeout must be a duration shorter than --stop-timeout (%s), which has more to do than drain requests, not %s",
			s.StopTimeout, s.DrainTimeout)
	}
	return nil
}
