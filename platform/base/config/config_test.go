package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"stampede/platform/base/config"
	"stampede/platform/workshop/require"
)

// shop is settings as a package declares them.
type shop struct {
	Lanes  int           `default:"4" env:"SHOP_LANES" help:"Lanes." min:"1" max:"8" unit:"lanes"`
	Share  float64       `default:"0.5" env:"SHOP_SHARE" help:"Share." min:"0" max:"1"`
	Wait   time.Duration `default:"5s" env:"SHOP_WAIT" help:"Wait." min:"100ms" max:"1m" rare:""`
	Hosts  []string      `env:"SHOP_HOSTS" help:"Hosts."`
	Open   bool          `env:"SHOP_OPEN" help:"Open."`
	Key    string        `env:"SHOP_KEY" help:"Key." secret:""`
	Server server        `embed:"" group:"Server:"`
}

type server struct {
	Listen string `default:":80" env:"SHOP_LISTEN" help:"Address."`
}

func (s server) Check() error {
	if s.Listen == "" {
		return errors.New("--listen must be given")
	}
	return nil
}

// program is the command line that contains shop's settings.
type program struct {
	Serve struct {
		Config  string `env:"SHOP_CONFIG"`
		HelpAll config.HelpAll
		Fresh   bool
		kong.Plugins
	} `cmd:""`
	Other struct{} `cmd:""`
}

// parse runs a command line and returns its output.
func parse(t *testing.T, args ...string) (shop, *kong.Context, *config.File, string, error) {
	t.Helper()
	var p program
	var set shop
	p.Serve.Plugins = kong.Plugins{&set}
	file, out := new(config.File), new(bytes.Buffer)
	parser, err := kong.New(&p, config.Options(file), kong.Writers(out, out), kong.Exit(func(int) {}))
	require.NoError(t, err)
	command, err := parser.Parse(append([]string{"serve"}, args...))
	return set, command, file, out.String(), err
}

// write creates a settings file.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "shop.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestDefaultsIgnoreVariables(t *testing.T) {
	t.Setenv("SHOP_LANES", "7")
	s := config.Defaults[shop]()
	require.Equal(t, "defaults", fmt.Sprintf("%v %v %v %v %v", s.Lanes, s.Share, s.Wait, s.Server.Listen, s.Hosts), "4 0.5 5s :80 []")
}

func TestCheckNamesEachSettingOutOfBounds(t *testing.T) {
	t.Parallel()
	set := config.Defaults[shop]()
	require.NoError(t, config.Check(&set))
	set.Lanes, set.Share, set.Wait, set.Server.Listen = 9, -1, time.Hour, ""
	const want = `--lanes must be between 1 and 8 lanes, not 9
--share must be between 0 and 1, not -1
--wait must be a duration between 100ms and 1m, not 1h0m0s
--listen must be given`
	require.Equal(t, "refusal", fmt.Sprint(config.Check(&set)), want)
}

// TestSourcesTakePrecedenceInOrder checks flag, variable, file, default; and
// that config prints the source.
func TestSourcesTakePrecedenceInOrder(t *testing.T) {
	name := write(t, "# a shop's\nlanes: 2\nshare: 0.25\nhosts: [a.example, 'b,c']\nopen: yes\nkey: planted-secret\nlisten:\n")
	t.Setenv("SHOP_CONFIG", name)
	t.Setenv("SHOP_SHARE", "0.75")
	t.Setenv("SHOP_LANES", "3")
	set, command, file, _, err := parse(t, "--lanes=5")
	require.NoError(t, err)
	read := fmt.Sprintf("%v %v %q %v %q %v", set.Lanes, set.Share, set.Hosts, set.Open, set.Server.Listen, set.Wait)
	require.Equal(t, "settings", read, `5 0.75 ["a.example" "b,c"] true "" 5s`)
	var out strings.Builder
	require.NoError(t, config.Print(&out, command, file))
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"--lanes SHOP_LANES 5 flag", "--share SHOP_SHARE 0.75 environment", "--wait SHOP_WAIT 5s default", `--hosts SHOP_HOSTS a.example,b\,c ` + name + ":4",
		"--open SHOP_OPEN true " + name + ":5", "--key SHOP_KEY (set, 14 bytes) " + name + ":6", "--listen SHOP_LISTEN (empty) " + name + ":7",
	} {
		require.Contains(t, "printed", "\n"+strings.Join(got, "\n")+"\n", "\n"+want+"\n")
	}
	if strings.Contains(out.String(), "planted-secret") || strings.Contains(out.String(), "--fresh") {
		t.Errorf("printed\n%s", out.String())
	}
}

func TestFileErrorsAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"lane: 3\n\nnonsense: planted-secret\n": ":1: lane is not a setting of serve; did you mean lanes?\n--config: FILE:3: nonsense is not a setting of serve",
		"fresh: true":                           ":1: fresh is not a setting of serve",
		"config: other.yaml":                    ":1: config is not a setting of serve",
		"lanes: 3\nlanes: 4":                    ":2: lanes is already set in line 1",
		"lanes: {most: 3}":                      ":1: lanes must be one value or a list of values",
		"- lanes":                               " must have lines such as max-sockets: 10000",
		"lanes: [":                              " is not valid YAML: ",
		"lanes: many":                           "--lanes: expected",
		"wait: 5":                               "--wait: a duration needs a unit",
	} {
		name := write(t, text)
		_, _, _, _, err := parse(t, "--config="+name)
		if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(want, "FILE", name)) || strings.Contains(err.Error(), "planted-secret") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	_, _, _, _, err := parse(t, "--config=/nowhere.yaml")
	require.Contains(t, "no file", fmt.Sprint(err), "--config: open /nowhere.yaml")
	set, _, _, _, err := parse(t, "--config="+write(t, "# nothing\n"))
	require.Equal(t, "lanes of an empty file", fmt.Sprint(set.Lanes, err), "4 <nil>")
}

func TestRareSettingsAreOnlyInHelpAll(t *testing.T) {
	t.Parallel()
	_, _, _, help, _ := parse(t, "--help")
	_, _, _, all, _ := parse(t, "--help-all")
	if strings.Contains(help, "--wait") || !strings.Contains(help, "--lanes") || !strings.Contains(all, "--wait") || !strings.Contains(all, "--lanes") {
		t.Errorf("help:\n%s\nhelp of all:\n%s", help, all)
	}
	for _, want := range []string{"Between 1 and 8 lanes", "A duration between 100ms and 1m", "$SHOP_LANES", "\nServer:\n"} {
		require.Contains(t, "help", strings.Join(strings.Fields(all), " "), strings.TrimSpace(want))
	}
}
