package packaging

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// clusterFile is what the tests read of a compose file.
type clusterFile struct {
	Services map[string]struct {
		Image, Restart string
		Command        []string
		Environment    map[string]string
		Ports, Volumes []string
		Healthcheck    struct{ Test []string }
		Depends        map[string]struct{ Condition string } `yaml:"depends_on"`
		Networks       yaml.Node
	}
	Configs map[string]struct{ Content string }
	Volumes map[string]any
}

var variables = regexp.MustCompile(`\$\{[A-Z_]+:[?-]([^}]*)\}`)

// TestPackagingCluster parses the compose file of the cluster: it was not started here.
func TestPackagingCluster(t *testing.T) {
	t.Parallel()
	text := packagingRead(t, "platform/operating/cluster.compose.yaml")
	var cluster, single clusterFile
	require.NoError(t, yaml.Unmarshal([]byte(text), &cluster))
	require.NoError(t, yaml.Unmarshal([]byte(packagingRead(t, "compose.yaml")), &single))
	addresses := map[string]string{}
	for kind, names := range map[string][]string{
		"stampede": {"stampede-1", "stampede-2"}, "redis": {"redis-1", "redis-2", "redis-3", "redis-cluster"},
		"nats": {"nats-1", "nats-2", "nats-3"}, "postgres": {"postgres"}, "": {"nginx"},
	} {
		for _, name := range names {
			service, ok := cluster.Services[name]
			require.Equal(t, "there is "+name, ok, true)
			if kind != "" {
				require.Equal(t, "the image of "+name, service.Image, single.Services[kind].Image)
			}
			if name == "redis-cluster" {
				continue // ends once it has made the cluster
			}
			require.Equal(t, name+" has a health check and is restarted", len(service.Healthcheck.Test) > 1 && service.Restart == "unless-stopped", true)
			var at struct {
				Cluster struct {
					Address string `yaml:"ipv4_address"`
				}
			}
			require.NoError(t, service.Networks.Decode(&at))
			addresses[name] = at.Cluster.Address
			for _, volume := range service.Volumes {
				source, _, _ := strings.Cut(volume, ":")
				if _, declared := cluster.Volumes[source]; !declared && !strings.HasPrefix(source, "../") {
					t.Errorf("%s uses the volume %s, which is not declared", name, source)
				}
			}
			for other := range service.Depends {
				if _, there := cluster.Services[other]; !there {
					t.Errorf("%s depends on %s, which there is not", name, other)
				}
			}
			for _, port := range service.Ports {
				require.Contains(t, "a port of "+name, port, "127.0.0.1:")
			}
		}
	}
	unique := map[string]bool{}
	for name, address := range addresses {
		require.Equal(t, "the address of "+name+" is its own", address != "" && !unique[address], true)
		unique[address] = true
	}
	// What keeps an acknowledged grant.
	redis := strings.Join(cluster.Services["redis-1"].Command, " ")
	require.Contains(t, "the command of redis", redis, "--cluster-enabled yes", "--cluster-require-full-coverage no", "--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction")
	nats := cluster.Configs["nats"].Content
	require.Contains(t, "the configuration of nats", nats, "sync_interval: always", "cluster {", "authorization {")
	require.Contains(t, "the configuration of redis", cluster.Configs["redis"].Content, "requirepass ${", "masterauth ${")
	// The nodes of a cluster that starts again know their slots at once, and its state after two seconds.
	makes := strings.Join(cluster.Services["redis-cluster"].Command, " ")
	require.Contains(t, "who makes the cluster", makes, "grep -q cluster_slots_assigned:16384 ||")
	for n := range 3 {
		at := addresses[fmt.Sprintf("redis-%d", n+1)] + ":6379"
		require.Contains(t, "who makes the cluster", makes, at)
		require.Contains(t, "the routes of nats", nats, "@"+addresses[fmt.Sprintf("nats-%d", n+1)]+":6222")
		require.Contains(t, "STAMPEDE_REDIS_URL", cluster.Services["stampede-1"].Environment["STAMPEDE_REDIS_URL"], at)
		require.Contains(t, "STAMPEDE_NATS_URL", cluster.Services["stampede-1"].Environment["STAMPEDE_NATS_URL"], addresses[fmt.Sprintf("nats-%d", n+1)]+":4222")
	}
	require.Contains(t, "STAMPEDE_DATABASE_URL", cluster.Services["stampede-1"].Environment["STAMPEDE_DATABASE_URL"], "@"+addresses["postgres"]+":5432")
	require.Equal(t, "the proxy that is trusted", cluster.Services["stampede-1"].Environment["STAMPEDE_TRUSTED_PROXIES"], addresses["nginx"]+"/32")
	// nginx's example has the instances at 10.0.0.11 and 10.0.0.12, which its command replaces.
	require.Contains(t, "the command of nginx", strings.Join(cluster.Services["nginx"].Command, " "), strings.TrimSuffix(addresses["stampede-1"], "1")+`\1:8080`)

	// The program knows every variable, and takes the values.
	cmd := exec.CommandContext(t.Context(), shop.Program(t), "config")
	for name, value := range cluster.Services["stampede-2"].Environment {
		value = variables.ReplaceAllStringFunc(value, func(use string) string {
			if strings.Contains(use, ":-") {
				return variables.FindStringSubmatch(use)[1]
			}
			return shop.Key
		})
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "is not a setting") {
		t.Errorf("stampede config: %v\n%s", err, out)
	}
}
