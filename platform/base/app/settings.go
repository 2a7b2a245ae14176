package app

import (
	"context"
	"fmt"
	"time"
)

// Settings are how long a stop may take.
type Settings struct {
	StopTimeout  time.Duration `default:"10s" env:"STAMPEDE_STOP_TIMEOUT" help:"Hard limit for an orderly stop." min:"1s" max:"10m" rare:""`
	DrainDelay   time.Duration `default:"500ms" env:"STAMPEDE_DRAIN_DELAY" help:"How long a stopping server that is no longer ready still accepts requests: a little more than the interval of the load balancer's readiness probe." min:"0s" max:"1m" rare:""`
	DrainTimeout time.Duration `default:"4s" env:"STAMPEDE_DRAIN_TIMEOUT" help:"How long requests in flight may take during a stop, shorter than --stop-timeout." rare:""`
}

// Check compares the two only when StopTimeout is within its bounds, so that
// one mistake is reported once.
func (s Settings) Check() error {
	if s.StopTimeout >= time.Second && (s.DrainTimeout <= 0 || s.DrainTimeout >= s.StopTimeout) {
		return fmt.Errorf("--drain-timeout must be a duration shorter than --stop-timeout (%s), which has more to do than drain requests, not %s",
			s.StopTimeout, s.DrainTimeout)
	}
	if s.StopTimeout >= time.Second && s.DrainDelay >= s.StopTimeout-s.DrainTimeout {
		return fmt.Errorf("--drain-delay and --drain-timeout must together be shorter than --stop-timeout (%s), not %s and %s", s.StopTimeout, s.DrainDelay, s.DrainTimeout)
	}
	return nil
}

// Notice is a stop function that waits for DrainDelay or the end of ctx, so that
// load balancers notice that the process is not ready before a listener closes.
func (s Settings) Notice(ctx context.Context) error {
	_ = Sleep(ctx, s.DrainDelay) // a stop that is out of time goes on
	return nil
}
