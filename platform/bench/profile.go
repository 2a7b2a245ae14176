package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
)

// takeProfile runs a side once more and writes the processor profile of whoever
// does its work: the child through its ops listener, else this process.
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
	if side.Serving == nil || side.Serving.OpsURL == "" {
		if err := pprof.StartCPUProfile(f); err != nil {
			return "", err
		}
		defer pprof.StopCPUProfile()
		_, err = side.Work(ctx, n)
		return name, err
	}
	// The child is profiled while it is driven; the profile takes as long as a
	// round, so that it ends with the work or shortly after.
	fetched := make(chan error, 1)
	go func() { fetched <- fetchProfile(ctx, side.Serving.OpsURL, m.cfg.Round.Seconds(), f) }()
	_, err = side.Work(ctx, n)
	return name, errors.Join(err, <-fetched)
}

// fetchProfile asks a child for a profile of the next seconds; pprof takes whole
// ones only.
func fetchProfile(ctx context.Context, opsURL string, seconds float64, w io.Writer) error {
	url := opsURL + "/debug/pprof/profile?seconds=" + strconv.Itoa(int(math.Ceil(seconds)))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	_, err = io.Copy(w, resp.Body)
	return err
}
