package main

import (
	"debug/buildinfo"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// The tests of the packaging prove what can be proved without a Docker engine: that the files fit together, fit the
// tree and fit the program. The program that the other tests start is built by the image's own command.

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
		if got := stage.last("HEALTHCHECK"); !strings.HasSuffix(got, `CMD ["wget", "-q", "-O", "/dev/null", "http://127.0.0.1:9180/readyz"]`) {
			t.Errorf("%s: HEALTHCHECK %s", name, got)
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

// TestPackagingSettings sees that the program of an image has the settings that the image gives it. A setting of another
// command has no effect at all.
func TestPackagingSettings(t *testing.T) {
	t.Parallel()
	for _, stage := range packagingStages(t)[1:] {
		var given string
		for _, step := range stage.steps {
			if step.verb == "ENV" {
				given += step.args + " "
			}
		}
		packagingCheckSettings(t, "the image "+stage.name, given, strings.Trim(strings.Split(stage.last("CMD"), ",")[0], `["]`))
	}
	packagingCheckSettings(t, "compose.yaml", packagingRead(t, "compose.yaml"), "serve")
}

// packagingCheckSettings fails for every STAMPEDE_… name in a text that a command does not have.
func packagingCheckSettings(t *testing.T, where, text, command string) {
	t.Helper()
	help := packagingOutput(t, command, "--help")
	names := regexp.MustCompile(`STAMPEDE_[A-Z_]+`).FindAllString(text, -1)
	if len(names) == 0 {
		t.Errorf("%s gives no settings", where)
	}
	for _, name := range names {
		if !strings.Contains(help, "$"+name+")") {
			t.Errorf("%s gives %s, which is no setting of stampede %s", where, name, command)
		}
	}
}

// TestPackagingProgram looks at the program that the image's command built.
func TestPackagingProgram(t *testing.T) {
	t.Parallel()
	if got := packagingOutput(t, "version"); !strings.Contains(got, builtVersion) {
		t.Errorf("stampede version prints %q without the version that was built in", got)
	}
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	// The base of the default image has another C library than the builder, and nobody's folders belong in a program.
	for key, want := range map[string]string{"CGO_ENABLED": "0", "-trimpath": "true"} {
		if !slices.Contains(info.Settings, debug.BuildSetting{Key: key, Value: want}) {
			t.Errorf("the program is not built with %s=%s", key, want)
		}
	}
}

// packagingOutput is what the image's program prints.
func packagingOutput(t *testing.T, args ...string) string {
	t.Helper()
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("stampede %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
