package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"stampede/platform/workshop/bench"
	"stampede/platform/workshop/cli"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// TestBenchInShort runs `stampede bench` in its short forms, which run the same
// code with few operations: a private server, real stores, real sockets. It
// also interrupts bench while it works. However bench ends, it must leave no
// process and no file.
func TestBenchInShort(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args  []string
		check func(t *testing.T, report []byte)
		end   syscall.Signal // sent while it works; 0 means never
		code  int
	}{
		"stages":     {args: []string{"--quick", "--json"}, check: checkStages},
		"instances":  {args: []string{"--quick", "--json", "--instances=2", "--stages=refusal,paths,whole"}, check: checkStages},
		"million":    {args: []string{"--scale=million", "--quick", "--json", "--instances=4"}, check: checkMillion},
		"killed":     {args: []string{"--stages=refusal"}, end: syscall.SIGKILL, code: -1},
		"terminated": {args: []string{"--stages=refusal"}, end: syscall.SIGTERM, code: exitInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			temp := filepath.Dir(shop.DataDir(t)) // where bench creates its folder
			p := &shop.Process{Out: shop.NewConsole()}
			p.Cmd = exec.Command(shop.ImageProgram(t), append([]string{"bench"}, c.args...)...)
			p.Cmd.Env = append(os.Environ(), "TMPDIR="+temp)
			var report bytes.Buffer
			p.Start(t, &report)
			if c.end != 0 {
				// The baseline's child starts after the server has answered.
				pgtest.Eventually(t, time.Minute, func() bool { return strings.Contains(shop.ChildrenBelow(t, p.Cmd.Process.Pid), "bench-part bare") }, "bench to be working")
				require.Contains(t, "what bench may leave behind", shop.ChildrenOf(t, temp), "postgres", "redis", " serve ")
				require.Equal(t, "exit code", p.End(t, c.end, time.Minute), c.code)
			} else {
				select {
				case <-p.Ended:
				case <-time.After(10 * time.Minute): // hung; beside other load it may take a few
					t.Fatal("bench did not exit")
				}
				require.Equal(t, "exit code", p.Cmd.ProcessState.ExitCode(), 0)
				c.check(t, report.Bytes())
			}
			left := func() string {
				files, err := filepath.Glob(filepath.Join(temp, "*"))
				return fmt.Sprint(shop.ChildrenOf(t, temp), files, err)
			}
			pgtest.Eventually(t, time.Minute, func() bool { return left() == fmt.Sprint("", []string(nil), nil) }, "no process and no file to be left")
		})
	}
}

// exitInterrupted is a shell's exit code for SIGINT.
const exitInterrupted = 130

// checkStages checks that both sides of every stage have a rate. Its value is
// meaningless while other tests run.
func checkStages(t *testing.T, raw []byte) {
	t.Helper()
	var report bench.Report
	require.NoError(t, json.Unmarshal(raw, &report))
	stages := bench.Stages()
	if report.Instances > 0 {
		stages = stages[:3]
	}
	require.Equal(t, "stages measured", len(report.Stages), len(stages))
	for i, res := range report.Stages {
		if res.Name != stages[i].Name || res.Ratio <= 0 || res.BaselinePerSecond <= 0 || res.OursPerSecond <= 0 {
			t.Errorf("stage %s: %+v", stages[i].Name, res)
		}
		for _, f := range res.Findings {
			if f.Unit == "ms" && (f.Value <= 0 || f.Value > 60_000) {
				t.Errorf("stage %s: %s is %v ms", res.Name, f.Name, f.Value)
			}
		}
	}
}

// checkMillion checks a crowd for a tenth as many units, of an item with four shards, at four instances, whose books are
// proved against the client log. Times and memory are meaningless while other tests run; the
// counts are exact.
func checkMillion(t *testing.T, raw []byte) {
	t.Helper()
	var m bench.MillionReport
	require.NoError(t, json.Unmarshal(raw, &m))
	if !m.Sound() || m.Granted != 500 || m.Shoppers != 5000 || m.VisibleAfter <= 0 || m.PeakMiB <= 0 {
		t.Errorf("%+v", m)
	}
}

func TestBenchNamesWhatItTakes(t *testing.T) {
	t.Parallel()
	for n, taken := range map[int]bool{-1: false, 0: true, bench.MostInstances: true, bench.MostInstances + 1: false} {
		require.Equal(t, fmt.Sprint(n, " instances are taken"), (&cli.Bench{Instances: n}).Validate() == nil, taken)
	}
	var all []string
	for _, st := range bench.Stages() {
		all = append(all, st.Name)
	}
	names := strings.Join(all, ", ")
	field, _ := reflect.TypeFor[cli.Bench]().FieldByName("Stages")
	require.Contains(t, "the help of --stages", field.Tag.Get("help"), names)
}
