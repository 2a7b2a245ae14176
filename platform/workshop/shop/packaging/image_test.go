package packaging

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// The packaging tests check what can be checked without a Docker engine: that
// the files are consistent with each other, the tree and the program. The
// program that the other tests start is built with the image's build command.

func packagingRead(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}

// packagingFind returns what the group of a pattern matches in a file, which must have it.
func packagingFind(t *testing.T, name, pattern string) string {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(packagingRead(t, name))
	if match == nil {
		t.Fatalf("%s has nothing like %s", name, pattern)
	}
	return match[1]
}

// packagingStages returns the stages of the Dockerfile by name; docker build
// builds the last one by default.
func packagingStages(t *testing.T) (stages map[string]string, last string) {
	t.Helper()
	stages = map[string]string{}
	for _, stage := range strings.Split(packagingRead(t, "Dockerfile"), "\nFROM ")[1:] {
		head, _, _ := strings.Cut(stage, "\n")
		_, last, _ = strings.Cut(head, " AS ")
		stages[last] = stage + "\n"
	}
	return stages, last
}

// digest ends the reference of an image that a moved tag cannot replace.
var digest = regexp.MustCompile(`:[\w.-]+@sha256:[0-9a-f]{64}$`)

// TestPackagingImagesArePinned checks that every base image has a version and a
// digest. The server of NATS, which one instance does not need, has its version
// only.
func TestPackagingImagesArePinned(t *testing.T) {
	t.Parallel()
	lines := regexp.MustCompile(`(?m)^(?:FROM (?:--platform=\S+ )?|\s+image: )(\S+)`)
	images := 0
	for _, file := range []string{"Dockerfile", "compose.yaml"} {
		for _, line := range lines.FindAllStringSubmatch(packagingRead(t, file), -1) {
			image := line[1]
			if image == "stampede" || strings.HasPrefix(image, "nats:") {
				continue
			}
			images++
			if !digest.MatchString(image) {
				t.Errorf("%s: the image %s has no digest", file, image)
			}
		}
	}
	require.Equal(t, "images: the Dockerfile's three, PostgreSQL's and Redis'", images, 5)
}

func TestPackagingDockerfile(t *testing.T) {
	t.Parallel()
	stages, last := packagingStages(t)
	require.Equal(t, "the last stage, which docker build builds by default", last, "serve")
	require.Contains(t, "the builder", stages["build"], " golang:"+packagingGoVersion(t)+"-")
	for _, name := range []string{"serve", "demo"} {
		// Kubernetes' runAsNonRoot can check only a numeric id, and the last
		// USER applies.
		users := regexp.MustCompile(`(?m)^USER (.*)$`).FindAllStringSubmatch(stages[name], -1)
		if len(users) == 0 || !regexp.MustCompile(`^[1-9]\d+:[1-9]\d+$`).MatchString(users[len(users)-1][1]) {
			t.Errorf("%s: USER %v is not the numeric id of an ordinary account", name, users)
		}
		// /usr/local/bin is in PATH on every base image, so that docker exec finds the program.
		require.Contains(t, name, stages[name], "COPY --from=build /out/stampede /usr/local/bin/stampede\n", "/readyz\"]\n", "ENTRYPOINT [\"stampede\"]\n")
	}
}

// TestPackagingSources checks that builders get every package of the module: a
// folder missing there breaks only an image or a release.
func TestPackagingSources(t *testing.T) {
	t.Parallel()
	stages, _ := packagingStages(t)
	lists := map[string]string{
		`(?m)^COPY %s \./%s$`:  stages["build"],
		`(?m)^!%s/$`:           packagingRead(t, ".dockerignore"),
		`extra_files: &.*%s\b`: packagingRead(t, ".goreleaser.yaml"),
	}
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, entry := range entries {
		if !entry.IsDir() || strings.HasPrefix(entry.Name(), ".") || !packagingHasGo(t, entry.Name()) {
			continue
		}
		for pattern, list := range lists {
			if pattern = strings.ReplaceAll(pattern, "%s", entry.Name()); !regexp.MustCompile(pattern).MatchString(list) {
				t.Errorf("%s has Go code, but %s is missing in\n%s", entry.Name(), pattern, list)
			}
		}
	}
}

// packagingHasGo reports whether there is Go code below dir.
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
	require.NoError(t, err)
	return found
}

func packagingGoVersion(t *testing.T) string {
	t.Helper()
	return packagingFind(t, "go.mod", `(?m)^go (\S+)$`)
}

// TestPackagingSettings checks that an image's program has the settings that
// the image sets. A setting of another command would have no effect.
func TestPackagingSettings(t *testing.T) {
	t.Parallel()
	stages, _ := packagingStages(t)
	for _, given := range []struct{ where, text, starts, command string }{
		{"the image serve", stages["serve"], `CMD ["serve"]`, "serve"},
		{"the image demo", stages["demo"], `CMD ["run", `, "run"},
		{"compose.yaml", packagingRead(t, "compose.yaml"), "command: [serve]", "serve"},
	} {
		require.Contains(t, given.where, given.text, given.starts)
		help := shop.Command(t, 0, given.command, "--help-all")
		names := regexp.MustCompile(`STAMPEDE_[A-Z_]+`).FindAllString(given.text, -1)
		if len(names) == 0 {
			t.Errorf("%s sets no settings", given.where)
		}
		for _, name := range names {
			require.Contains(t, "the help of "+given.command+", for "+given.where, help, "$"+name+")")
		}
	}
}

// TestPackagingProgram checks the program that the image's command built.
func TestPackagingProgram(t *testing.T) {
	t.Parallel()
	program := shop.ImageProgram(t)
	out, err := exec.CommandContext(t.Context(), program, "version").CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, "stampede version", string(out), "stampede "+packagingRelease(t))
	info, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	// The base of the default image has a different C library than the builder,
	// and a program must not contain the builder's paths.
	for key, want := range map[string]string{"CGO_ENABLED": "0", "-trimpath": "true"} {
		if !slices.Contains(info.Settings, debug.BuildSetting{Key: key, Value: want}) {
			t.Errorf("the program is not built with %s=%s", key, want)
		}
	}
	for _, file := range []string{"Makefile", ".ci/setup"} {
		require.Contains(t, file, packagingRead(t, file), `CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o `) // as for the image
	}
	file, err := os.Stat(program)
	require.NoError(t, err)
	if file.Size() > largestProgram {
		t.Errorf("the program has %d bytes, at most %d: go version -m names its modules, go tool nm -size its parts", file.Size(), largestProgram)
	}
}

// largestProgram is what may be pulled and started in a moment. A module that is needed for one function, or that embeds
// more than its files in use, is found here.
const largestProgram = 84_000_000

// TestVersionIsTheSameEverywhere: change the version in main.go.
func TestVersionIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	release := packagingRelease(t)
	newest := regexp.MustCompile(`(?m)^## \d\S*`).FindString(packagingRead(t, "CHANGELOG.md")) // the newest is first
	require.Equal(t, "the newest in CHANGELOG.md", newest, "## "+strings.TrimPrefix(release, "v"))
	for _, name := range []string{"README.md", ".github/README.zh-CN.md"} {
		said := regexp.MustCompile(`(?i)stampede v\d[^+ ]*`).FindAllString(packagingRead(t, name), -1)
		if len(said) == 0 || slices.ContainsFunc(said, func(s string) bool { return !strings.HasSuffix(s, " "+release) }) {
			t.Errorf("%s shows %q, main.go has %s", name, said, release)
		}
	}
}

// packagingRelease is the version in main.go.
func packagingRelease(t *testing.T) string {
	t.Helper()
	return packagingFind(t, "main.go", `(?m)^const release = "(v\S+)"$`)
}
