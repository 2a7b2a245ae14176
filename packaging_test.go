package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

// These tests prove what can be proved about the packaging without a Docker engine: that the files fit together, fit
// the tree and fit the program, and that the build command of the image works. The set-up script runs for real, on a
// PATH of its own.

// packagingSettings are the settings of the program that Dockerfile and compose.yaml may use. TestPackagingBuild sees
// that the program knows each.
var packagingSettings = []string{
	"STAMPEDE_DATABASE_URL", "STAMPEDE_REDIS_URL", "STAMPEDE_NATS_URL", "STAMPEDE_SIGNING_KEY",
	"STAMPEDE_LISTEN", "STAMPEDE_OPS_LISTEN", "STAMPEDE_DATA",
}

// packagingStage is one stage of the Dockerfile.
type packagingStage struct {
	name, base string
	// steps are the instructions after FROM, in order.
	steps []packagingStep
}

// packagingStep is one instruction, its continuation lines joined by single spaces.
type packagingStep struct{ verb, args string }

// last is the argument of the last instruction of that kind, which is the one that counts.
func (s packagingStage) last(verb string) string {
	for _, step := range slices.Backward(s.steps) {
		if step.verb == verb {
			return step.args
		}
	}
	return ""
}

func packagingRead(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return string(data)
}

// packagingStages parses the Dockerfile. It knows the part of the language that the file uses, and fails on the rest.
func packagingStages(t *testing.T) []packagingStage {
	t.Helper()
	var stages []packagingStage
	var joined string
	for line := range strings.Lines(packagingRead(t, "Dockerfile")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if rest, more := strings.CutSuffix(line, `\`); more {
			joined += strings.TrimSpace(rest) + " "
			continue
		}
		verb, args, _ := strings.Cut(joined+line, " ")
		joined = ""
		if verb == "FROM" {
			words := slices.DeleteFunc(strings.Fields(args), func(w string) bool { return strings.HasPrefix(w, "--") })
			if len(words) != 3 || words[1] != "AS" {
				t.Fatalf("FROM %s: every stage has a name", args)
			}
			stages = append(stages, packagingStage{name: words[2], base: words[0]})
			continue
		}
		if len(stages) == 0 || !slices.Contains([]string{
			"RUN", "COPY", "ENV", "ARG", "WORKDIR", "USER", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD", "HEALTHCHECK",
		}, verb) {
			t.Fatalf("unexpected instruction %q", verb)
		}
		current := &stages[len(stages)-1]
		current.steps = append(current.steps, packagingStep{verb: verb, args: args})
	}
	return stages
}

func TestPackagingDockerfile(t *testing.T) {
	t.Parallel()
	stages := packagingStages(t)
	byName := map[string]packagingStage{}
	for _, stage := range stages {
		byName[stage.name] = stage
	}
	if got := slices.Sorted(maps.Keys(byName)); !slices.Equal(got, []string{"build", "demo", "serve"}) {
		t.Fatalf("stages are %v, want build, demo and serve", got)
	}
	if got := stages[len(stages)-1].name; got != "serve" {
		t.Errorf("the last stage, which docker build takes by default, is %s and not serve", got)
	}
	if want := "golang:" + packagingGoVersion(t) + "-"; !strings.HasPrefix(byName["build"].base, want) {
		t.Errorf("the builder is %s, go.mod asks for %s", byName["build"].base, want)
	}
	for name, want := range map[string]string{"serve": `["serve"]`, "demo": `["run", "--listen", ":8080"]`} {
		stage := byName[name]
		if got := stage.last("CMD"); got != want {
			t.Errorf("%s: CMD %s, want %s", name, got, want)
		}
		if got := stage.last("ENTRYPOINT"); got != `["stampede"]` {
			t.Errorf("%s: ENTRYPOINT %s", name, got)
		}
		// Kubernetes' runAsNonRoot can check a number only.
		if got := stage.last("USER"); !regexp.MustCompile(`^[1-9]\d+:[1-9]\d+$`).MatchString(got) {
			t.Errorf("%s: USER %q is not the number of an ordinary account", name, got)
		}
		if got := stage.steps[len(stage.steps)-1].verb; got != "CMD" {
			t.Errorf("%s: ends with %s; USER has to stay in force to the end", name, got)
		}
		if got := stage.last("COPY"); got != "--from=build /out/stampede /usr/local/bin/stampede" {
			t.Errorf("%s: COPY %s", name, got)
		}
	}
	packagingCheckSettings(t, "Dockerfile")
}

// TestPackagingSources sees that the builder gets every package of the module: a folder that is missing there breaks
// the image and nothing else, so nobody would notice.
func TestPackagingSources(t *testing.T) {
	t.Parallel()
	copied := map[string]bool{}
	for _, step := range packagingStages(t)[0].steps {
		if step.verb != "COPY" {
			continue
		}
		words := strings.Fields(step.args)
		for _, source := range words[:len(words)-1] {
			matches, err := filepath.Glob(source)
			if err != nil || (len(matches) == 0 && source != "*.go") {
				t.Errorf("COPY %s: nothing of that name here (%v)", source, err)
			}
			copied[source] = true
		}
	}
	ignore := strings.Fields(packagingRead(t, ".dockerignore"))
	for source := range copied {
		if !slices.Contains(ignore, "!"+source) && !slices.Contains(ignore, "!"+source+"/") {
			t.Errorf(".dockerignore keeps %s from the builder", source)
		}
	}
	folders, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if folder.IsDir() && !strings.HasPrefix(folder.Name(), ".") && packagingHasGo(t, folder.Name()) && !copied[folder.Name()] {
			t.Errorf("%s has Go code and is not copied to the builder", folder.Name())
		}
	}
}

// packagingHasGo says whether Go code lies anywhere below dir.
func packagingHasGo(t *testing.T, dir string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".go") {
			found = true
			return filepath.SkipAll
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func packagingGoVersion(t *testing.T) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(packagingRead(t, "go.mod"))
	if match == nil {
		t.Fatal("go.mod names no Go version")
	}
	return match[1]
}

// packagingCheckSettings fails for every STAMPEDE_… name in a file that the program does not have.
func packagingCheckSettings(t *testing.T, file string) {
	t.Helper()
	for _, name := range regexp.MustCompile(`STAMPEDE_[A-Z_]+`).FindAllString(packagingRead(t, file), -1) {
		if !slices.Contains(packagingSettings, name) {
			t.Errorf("%s uses %s, which is no setting of the program", file, name)
		}
	}
}

// TestPackagingBuild builds as the Dockerfile does and asks the result for its version and its settings.
func TestPackagingBuild(t *testing.T) {
	t.Parallel()
	var build string
	for _, step := range packagingStages(t)[0].steps {
		if step.verb == "RUN" && strings.Contains(step.args, "go build") {
			build = step.args
		}
	}
	if build == "" {
		t.Fatal("the Dockerfile builds nothing")
	}
	for _, want := range []string{"CGO_ENABLED=0 ", " -trimpath ", " -X main.version=$VERSION"} {
		if !strings.Contains(build, want) {
			t.Errorf("the build command lacks %q: %s", want, build)
		}
	}
	program := filepath.Join(t.TempDir(), "stampede")
	// The command itself goes through a shell, as in the image; only the place of the result differs.
	command := strings.Replace(build, "-o /out/stampede", "-o "+program, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // a cold build of all dependencies without -race
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = append(os.Environ(), "VERSION=v0.0.0-packaging", "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	if got := packagingOutput(ctx, t, program, "version"); !strings.Contains(got, "v0.0.0-packaging") {
		t.Errorf("stampede version prints %q without the version that was built in", got)
	}
	help := packagingOutput(ctx, t, program, "run", "--help") + packagingOutput(ctx, t, program, "serve", "--help")
	for _, name := range packagingSettings {
		if !strings.Contains(help, "$"+name) {
			t.Errorf("the program does not know %s", name)
		}
	}
}

func packagingOutput(ctx context.Context, t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("stampede %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// packagingCompose is the part of compose.yaml that is checked. Decoding is strict about these fields' types only.
type packagingCompose struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Build       map[string]any    `yaml:"build"`
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
		Ports       []string          `yaml:"ports"`
		Volumes     []string          `yaml:"volumes"`
		Profiles    []string          `yaml:"profiles"`
		DependsOn   map[string]struct {
			Condition string `yaml:"condition"`
			Required  *bool  `yaml:"required"`
		} `yaml:"depends_on"`
		Healthcheck struct {
			Test []string `yaml:"test"`
		} `yaml:"healthcheck"`
	} `yaml:"services"`
	Volumes map[string]any `yaml:"volumes"`
}

func TestPackagingCompose(t *testing.T) {
	t.Parallel()
	text := packagingRead(t, "compose.yaml")
	var compose packagingCompose
	if err := yaml.Unmarshal([]byte(text), &compose); err != nil {
		t.Fatalf("compose.yaml: %v", err)
	}
	if got := slices.Sorted(maps.Keys(compose.Services)); !slices.Equal(got, []string{"nats", "postgres", "redis", "stampede"}) {
		t.Fatalf("services are %v", got)
	}
	for name, service := range compose.Services {
		if len(service.Healthcheck.Test) == 0 {
			t.Errorf("%s has no health check", name)
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s beyond this machine", name, port)
			}
		}
		for _, volume := range service.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if _, declared := compose.Volumes[source]; !declared {
				t.Errorf("%s mounts %s, which is not declared", name, source)
			}
		}
		for dependency, terms := range service.DependsOn {
			needed, exists := compose.Services[dependency]
			optional := terms.Required != nil && !*terms.Required
			if !exists || terms.Condition != "service_healthy" || (len(needed.Profiles) > 0) != optional {
				t.Errorf("%s waits for %s with %+v", name, dependency, terms)
			}
		}
	}

	stampede := compose.Services["stampede"]
	if stampede.Build["target"] != "serve" || !slices.Equal(stampede.Command, []string{"serve"}) {
		t.Errorf("stampede is built from %v and runs %v", stampede.Build["target"], stampede.Command)
	}
	if !strings.HasPrefix(stampede.Environment["STAMPEDE_SIGNING_KEY"], "${STAMPEDE_SIGNING_KEY:?") {
		t.Error("the signing key must come from the environment and must be required")
	}
	packagingCheckSettings(t, "compose.yaml")

	// What durability rests on: without these two, a grant that was told can be lost or forgotten.
	redis := strings.Join(compose.Services["redis"].Command, " ")
	for _, want := range []string{"--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction"} {
		if !strings.Contains(redis, want) {
			t.Errorf("redis runs without %s", want)
		}
	}
	if !strings.Contains(text, "sync_interval: always") {
		t.Error("NATS acknowledges messages that are not on the disk yet")
	}
	embedded := regexp.MustCompile(`nats-server/v2 v\S+`).FindString(packagingRead(t, "go.mod"))
	want := strings.Replace(embedded, "nats-server/v2 v", "nats:", 1) + "-alpine"
	if got := compose.Services["nats"].Image; got != want {
		t.Errorf("compose.yaml runs %s, the embedded server is that of %s", got, want)
	}
	// A variable that is neither required nor has a default would silently be empty.
	for _, use := range regexp.MustCompile(`\$\{[A-Z_]+[^:A-Z_][^}]*\}|[^$]\$[A-Z_]+`).FindAllString(text, -1) {
		t.Errorf("compose.yaml uses %s without :? or :-", use)
	}
}

func TestPackagingSetupScripts(t *testing.T) {
	t.Parallel()
	for _, script := range []string{".ci/setup", ".ci/packages", ".ci/run", ".ci/fresh"} {
		if out, err := exec.CommandContext(t.Context(), "bash", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}

// packagingMachine is a folder for PATH that has what every system has, and the given programs, each a shell script.
func packagingMachine(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{
		"bash", "sh", "env", "sed", "cut", "tr", "date", "dirname", "basename", "readlink", "mkdir", "uname", "id", "sort", "cat",
		"echo", "mktemp", "rm", "chmod",
	} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("this machine has no %s: %v", name, err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, body := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPackagingSetup(t *testing.T) {
	t.Parallel()
	goNow := fmt.Sprintf("echo go version go%s linux/amd64", packagingGoVersion(t))
	const (
		postgres15 = "echo 'postgres (PostgreSQL) 15.3 (Debian 15.3-1)'"
		redis7     = "echo 'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64'"
	)
	for _, test := range []struct {
		name     string
		programs map[string]string
		ok       bool
		says     []string
	}{
		{
			"both are there",
			map[string]string{"go": goNow, "postgres": postgres15, "initdb": "", "redis-server": redis7},
			true,
			[]string{"[1/3] Go ", "[2/3] PostgreSQL 15.3 found in ", "[3/3] Redis 7.0.15 found in ", "the command ran"},
		},
		{"valkey will do", map[string]string{
			"go": goNow, "postgres": postgres15, "initdb": "", "redis-server": "echo 'Redis server v=6.2.1'",
			"valkey-server": "echo 'Valkey server v=8.1.4 sha=00000000:0'",
		}, true, []string{"[3/3] Valkey 8.1.4 found in "}},
		{
			"old postgres",
			map[string]string{"go": goNow, "postgres": "echo 'postgres (PostgreSQL) 14.20'", "initdb": "", "redis-server": redis7},
			false,
			[]string{"No usable PostgreSQL was found", "`docker compose up`", "`stampede serve --database-url"},
		},
		{"postgres without initdb", map[string]string{"go": goNow, "postgres": postgres15, "redis-server": redis7}, false, []string{"PostgreSQL"}},
		{"no redis", map[string]string{"go": goNow, "postgres": postgres15, "initdb": ""}, false, []string{"No usable Redis was found"}},
		{
			"redis that cannot start",
			map[string]string{"go": goNow, "postgres": postgres15, "initdb": "", "redis-server": "exit 127"},
			false,
			[]string{"No usable Redis was found"},
		},
		{"no go", nil, false, []string{"Go is not installed", packagingGoVersion(t) + " or newer", "https://go.dev/dl/"}},
		{
			"old go that cannot fetch another",
			map[string]string{"go": "echo go version go1.19.8 linux/amd64"},
			false,
			[]string{"Go 1.19.8 found at ", "needs Go " + packagingGoVersion(t), "https://go.dev/dl/"},
		},
		{"old go that fetches the right one", map[string]string{
			"go": "case $1 in env) echo auto ;; *) echo go version go1.24.4 linux/amd64 ;; esac", "postgres": postgres15, "initdb": "",
			"redis-server": redis7,
		}, true, []string{"the go command downloads that version itself", "started by Go 1.24.4"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			out, err := packagingRunSetup(t, packagingMachine(t, test.programs), nil, "exec", "echo", "the command ran")
			var failed *exec.ExitError
			if errors.As(err, &failed) == test.ok || (err != nil && failed == nil) {
				t.Errorf("ended with %v", err)
			}
			for _, want := range test.says {
				if !strings.Contains(out, want) {
					t.Errorf("does not say %q", want)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// TestPackagingSetupTest runs `.ci/setup test` with a go that only repeats what it was told.
func TestPackagingSetupTest(t *testing.T) {
	t.Parallel()
	servers := map[string]string{
		"go":       fmt.Sprintf(`if [ "$1" = test ]; then echo "go $*"; else echo go version go%s linux/amd64; fi`, packagingGoVersion(t)),
		"postgres": "echo 'postgres (PostgreSQL) 17.2'", "initdb": "", "redis-server": "echo 'Redis server v=7.2.4'",
	}
	const (
		compiler = `while [ "$1" != -o ]; do shift; done; echo '#!/bin/sh' >"$2"; chmod 755 "$2"`
		noRace   = "The tests ran without -race, because this machine has no working C compiler.\n"
	)
	for _, test := range []struct {
		name       string
		more       map[string]string
		env        []string
		ok         bool
		says, ends string
	}{
		{"compiler", map[string]string{"gcc": compiler, "chromium": "", "nginx": ""}, nil, true, "go test -race -timeout 10m -v ./...\n", " s)\n"},
		{"no compiler", map[string]string{"chromium": "", "nginx": ""}, nil, true, "go test -timeout 10m -v ./...\n", noRace},
		{"compiler without headers", map[string]string{"gcc": "exit 1", "chromium": "", "nginx": ""}, nil, true, "go test -timeout 10m -v ./...\n", noRace},
		{"another compiler", map[string]string{"gcc": "exit 1", "clang": compiler, "chromium": "", "nginx": ""}, nil, true, "-race: clang", " s)\n"},
		{"no browser", map[string]string{"gcc": compiler}, nil, true, "the browser test cannot run", " s)\n"},
		{"no browser in CI", map[string]string{"gcc": compiler}, []string{"CI=true"}, false, "Chromium is required with CI=true", "fetched.\n"},
		{"no nginx", map[string]string{"gcc": compiler, "chromium": ""}, nil, true, "the test of its example cannot run", " s)\n"},
		{
			"no nginx in CI",
			map[string]string{"gcc": compiler, "chromium": ""},
			[]string{"CI=true"},
			false,
			"nginx is required with CI=true", "fetched.\n",
		},
		{"no compiler in CI", nil, []string{"CI=true"}, false, "A C compiler is required with CI=true", "fetched.\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			programs := maps.Clone(servers)
			maps.Copy(programs, test.more)
			out, err := packagingRunSetup(t, packagingMachine(t, programs), append(test.env, "TESTFLAGS=-v"), "test")
			if (err == nil) != test.ok || !strings.Contains(out, test.says) || !strings.HasSuffix(out, test.ends) {
				t.Errorf("ended with %v, want %q and at the end %q; said:\n%s", err, test.says, test.ends, out)
			}
		})
	}
}

// packagingRunSetup runs .ci/setup in a copy of the scripts, where nothing but the programs on path can be found and
// nothing can be fetched.
func packagingRunSetup(t *testing.T, path string, env []string, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".ci"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".ci/setup", ".ci/packages", "go.mod"} {
		if err := os.WriteFile(dir+"/"+name, []byte(packagingRead(t, name)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), path+"/bash", append([]string{dir + "/.ci/setup"}, args...)...)
	cmd.Env = append([]string{"PATH=" + path, "SETUP_WAYS=path", "HOME=" + dir}, env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
