package bench

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// takeProfile runs a side once more and writes the processor profile of the
// server, through its ops listener.
func (m *measurement) takeProfile(ctx context.Context, side Side, n int) (name string, err error) {
	if err := os.MkdirAll(m.cfg.ProfileDir, 0o750); err != nil {
		return "", err
	}
	name = filepath.Join(m.cfg.ProfileDir, m.stage.Name+".pprof")
	f, err := os.Create(filepath.Clean(name))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if side.Prepare != nil {
		if err := side.Prepare(ctx, n); err != nil {
			return "", err
		}
	}
	if side.Check != nil {
		defer func() { err = errors.Join(err, side.Check(ctx, n)) }()
	}
	// It takes as long as a round, so that it ends with the work or shortly after;
	// pprof takes whole seconds only.
	address := m.rig.server.OpsURL + "/debug/pprof/profile?seconds=" + strconv.Itoa(int(math.Ceil(m.cfg.Round.Seconds())))
	fetched := make(chan error, 1)
	go func() {
		profile, err := get(ctx, address, "")
		if err == nil {
			_, err = f.Write(profile)
		}
		fetched <- err
	}()
	_, err = side.Work(ctx, n)
	return name, errors.Join(err, <-fetched)
}
