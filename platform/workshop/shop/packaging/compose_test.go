package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

func TestPackagingCompose(t *testing.T) {
	t.Parallel()
	text := packagingRead(t, "compose.yaml")
	var compose struct {
		Services map[string]struct {
			Image       string
			Build       struct{ Target string }
			Command     []string
			Environment map[string]string
			Ports       []string
		}
		Configs map[string]struct{ Content string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &compose))
	for name, service := range compose.Services {
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s beyond this machine", name, port)
			}
		}
	}
	stampede := compose.Services["stampede"]
	require.Equal(t, "the stage of stampede", stampede.Build.Target, "serve")
	if !strings.HasPrefix(stampede.Environment["STAMPEDE_SIGNING_KEY"], "${STAMPEDE_SIGNING_KEY:?") {
		t.Error("the signing key must come from the environment and must be required")
	}
	for name, value := range stampede.Environment {
		// A literal value would silently override the one in .env.
		if !strings.HasPrefix(value, "${"+name+":") {
			t.Errorf("%s is %s, regardless of .env", name, value)
		}
	}
	// A variable that is neither required nor has a default would silently be empty.
	for _, use := range regexp.MustCompile(`\$\{[A-Z_]+[^:A-Z_][^}]*\}|[^$]\$[A-Z_]+`).FindAllString(text, -1) {
		t.Errorf("compose.yaml uses %s without :? or :-", use)
	}

	// Durability depends on these: without them, an acknowledged grant can be
	// lost or evicted.
	require.Contains(t, "the command of redis", strings.Join(compose.Services["redis"].Command, " "), "--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction")
	for name, rule := range map[string]string{"redis": "requirepass ${REDIS_PASSWORD:?", "nats": `authorization { user: stampede, password: "${NATS_PASSWORD:?`} {
		require.Contains(t, name+", which must refuse clients without a password,", compose.Configs[name].Content, rule)
	}
	require.Contains(t, "compose.yaml", text, "sync_interval: always") // NATS acknowledges what is on disk
	embedded := packagingFind(t, "go.mod", `nats-server/v2 v(\S+)`)
	require.Equal(t, "the image of nats, beside the embedded server", compose.Services["nats"].Image, "nats:"+embedded+"-alpine")
}

// TestPackagingComposeOperator runs the command that the file's header gives
// for the first operator, with the variables of the server's container, in
// which a shell finds the program by name.
func TestPackagingComposeOperator(t *testing.T) {
	t.Parallel()
	said := packagingFind(t, "compose.yaml", `(?m)^#   docker compose exec stampede stampede (token .*)$`)
	bin := t.TempDir()
	require.NoError(t, os.Symlink(shop.ImageProgram(t), filepath.Join(bin, "stampede")))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "stampede "+said)
	cmd.Env = []string{"PATH=" + bin, "STAMPEDE_SIGNING_KEY=" + shop.Key, "STAMPEDE_DATABASE_URL=" + pgtest.DatabaseURL(t)}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", said, err, out)
	}
	p, err := auth.NewTokens([]byte(shop.Key), time.Now).Verify(strings.TrimSpace(string(out)))
	if err != nil || p.Role != auth.Operator {
		t.Errorf("the token belongs to %+v: %v", p, err)
	}
}
