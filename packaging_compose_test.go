package main

import (
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"stampede/platform/auth"
)

// packagingCompose is the part of compose.yaml that is checked. Decoding is strict about these fields' types only.
type packagingCompose struct {
	Services map[string]struct {
		Image   string         `yaml:"image"`
		Build   map[string]any `yaml:"build"`
		Command []string       `yaml:"command"`
		EnvFile []struct {
			Path     string `yaml:"path"`
			Required *bool  `yaml:"required"`
		} `yaml:"env_file"`
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
	if file := stampede.EnvFile; len(file) != 1 || file[0].Path != ".env" || file[0].Required == nil || *file[0].Required {
		t.Errorf("the settings of .env do not reach the server, or there has to be such a file: %+v", file)
	}
	for name, value := range stampede.Environment {
		// A value of its own would win over the one in .env, without a word.
		if !strings.HasPrefix(value, "${"+name+":") {
			t.Errorf("%s is %s, whatever .env says", name, value)
		}
	}

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

// TestPackagingComposeOperator carries out what the file's head says of the first operator, with the variables that the
// server's container has, where a shell finds the program under its name alone.
func TestPackagingComposeOperator(t *testing.T) {
	t.Parallel()
	said := regexp.MustCompile(`(?m)^#   docker compose exec stampede stampede (token .*)$`).FindStringSubmatch(packagingRead(t, "compose.yaml"))
	if said == nil {
		t.Fatal("compose.yaml does not say how the first operator gets a token")
	}
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "stampede "+said[1])
	cmd.Env = []string{"PATH=" + filepath.Dir(program), "STAMPEDE_SIGNING_KEY=" + testKey}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", said[0], err, out)
	}
	p, err := auth.NewTokens([]byte(testKey), time.Now).Verify(strings.TrimSpace(string(out)))
	if err != nil || p.Role != auth.Operator {
		t.Errorf("the token is that of %+v: %v", p, err)
	}
	for _, stage := range packagingStages(t)[1:] {
		if dir := path.Dir(strings.Fields(stage.last("COPY"))[2]); dir != "/usr/local/bin" { // in PATH on every base image
			t.Errorf("%s: docker exec finds no stampede in %s", stage.name, dir)
		}
	}
}
