package door

import (
	"bytes"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// The credentials of the table's account.
const (
	plantedPhone    = "13800138777"
	plantedPassword = "planted-password-of-a-shopper"
)

// plants are a server's settings with a unique word in each secret one.
type plants struct {
	args  []string
	words []string
}

// word is a secret that cannot appear anywhere by chance.
func (p *plants) word(flag string) string {
	w := "planted-" + flag + "-0a92d8e54b7391aa02c4f1e0d9b8"
	p.words = append(p.words, w)
	return w
}

// plant fills every setting marked as secret, including future ones. gateway
// receives SMS.
func plant(t *testing.T, databaseURL, redisURL, gateway string) plants {
	t.Helper()
	var p plants
	set := func(flag, value string) { p.args = append(p.args, "--"+flag+"="+value) }
	for _, flag := range secretFlags(t) {
		switch {
		case flag == "signing-key":
			p.words = append(p.words, shop.Key) // the test's tokens are signed with it
		case flag == "first-admin-phone":
			p.words = append(p.words, "13900139888")
			set(flag, "+8613900139888")
		case flag == "database-url", flag == "database-read-url": // the second is no standby, so that the primary does its reads
			u := parsedURL(t, databaseURL)
			q := u.Query()
			q.Set("password", p.word(flag)) // a server that trusts the test's user does not check it
			u.RawQuery = q.Encode()
			set(flag, u.String())
		case flag == "redis-url", flag == "lock-redis-urls":
			set(flag, withPassword(t, redisURL, flag, p.word(flag)))
		case flag == "nats-url": // the server embeds its own; `config` is checked with one below
		case flag == "sms-gateway-url":
			set(flag, gateway+"/?key="+p.word(flag))
		case flag == "backup-to":
			set(flag, "s3://key:"+p.word(flag)+"@127.0.0.1:9/bucket") // nothing listens there
		case flag == "stripe-key":
			set(flag, "sk_test_"+strings.ReplaceAll(p.word(flag), "-", "_"))
			p.words[len(p.words)-1] = strings.ReplaceAll(p.words[len(p.words)-1], "-", "_")
		case flag == "stripe-secrets":
			set(flag, "whsec_"+p.word(flag))
		case flag == "alarm-to", flag == "alarm-then":
			set(flag, "dingtalk://"+p.word(flag)+"?via=https://"+flag+".invalid&secret="+p.word(flag+"-secret"))
		case strings.HasSuffix(flag, "-url"):
			set(flag, "https://"+flag+".invalid/?key="+p.word(flag))
		default:
			set(flag, p.word(flag))
		}
	}
	// Settings that some of them require.
	set("smtp-url", "smtps://shop@smtp.invalid")
	set("mail-from", "shop@shop.example")
	set("wechat-app-id", "wx0000000000000000")
	set("wechat-mini-app-id", "wx0000000000000001")
	set("stripe-account", "acct_planted")
	set("verifier-kind", "tencent")
	set("verifier-url", "https://verifier.invalid/")
	set("verifier-site-key", "199999164")
	set("verifier-access-key", "public")
	set("backup-for", "age1lvyvwawkr0mcnnnncaghunadrqkmuf9e6507x9y920xxpp866cnql7dp2z")
	return p
}

// secretFlags returns the settings without a default that config does not print as they are given.
func secretFlags(t *testing.T) (names []string) {
	t.Helper()
	given := map[string]bool{}
	var out, errs bytes.Buffer
	shop.Run(t.Context(), []string{"config", "--signing-key=" + shop.Key}, &out, &errs)
	for _, line := range regexp.MustCompile(`(?m)^--(\S+) .* \((?:empty|set, .*)\) `).FindAllStringSubmatch(out.String(), -1) {
		given[line[1]] = line[1] != "config" // which would be read
	}
	value := func(flag string) string {
		switch flag { // those without which another is refused
		case "smtp-url":
			return "smtps://user@given-for-smtp-url"
		case "mail-from":
			return "given-for@mail-from.example"
		}
		return "given-for-" + flag
	}
	for range len(given) { // until none is refused for what it is
		out.Reset()
		errs.Reset()
		args := []string{"config"}
		for flag, give := range given {
			if give {
				args = append(args, "--"+flag+"="+value(flag))
			}
		}
		shop.Run(t.Context(), args, &out, &errs)
		wrong := regexp.MustCompile(`--([a-z-]+)`).FindStringSubmatch(errs.String())
		if out.Len() > 0 || wrong == nil {
			break
		}
		given[wrong[1]] = false
	}
	for flag, give := range given {
		if give && !strings.Contains(out.String(), value(flag)) {
			names = append(names, flag)
		}
	}
	if !slices.Contains(names, "signing-key") || len(names) < 6 {
		t.Fatalf("only %v are secret\n%s%s", names, out.String(), errs.String())
	}
	return names
}

func parsedURL(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	return u
}

// withPassword creates a Redis user of that name for the duration of the test,
// and returns the URL that logs in as this user.
func withPassword(t *testing.T, redisURL, name, password string) string {
	t.Helper()
	rdb := pgtest.RedisAt(t, redisURL)
	u := parsedURL(t, redisURL)
	user := "acceptance-" + name + "-" + strings.Trim(u.Path, "/")
	require.NoError(t, rdb.Do(t.Context(), "ACL", "SETUSER", user, "reset", "on", ">"+password, "~*", "&*", "+@all").Err())
	t.Cleanup(func() {
		if err := rdb.Do(t.Context(), "ACL", "DELUSER", user).Err(); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	u.User = url.UserPassword(user, password)
	return u.String()
}

// nothingLeaks stops the server and searches its whole output at level debug,
// and the output of `config` with the same settings, for every secret.
func (d *frontDoor) nothingLeaks(t *testing.T) {
	t.Helper()
	require.Equal(t, "exit code", d.Stop(), 0)
	nats := d.plants.word("nats-url")
	var printed, errs bytes.Buffer
	args := append([]string{"config", "--signing-key=" + shop.Key, "--nats-url=nats://user:" + nats + "@bus.invalid:4222"}, d.plants.args...)
	if code := shop.Run(t.Context(), args, &printed, &errs); code != 0 {
		t.Errorf("config: exit %d: %s", code, errs.String())
	}
	// The error about an unreachable database must not contain its password.
	refused := d.plants.word("wrong-database-url")
	shop.Run(t.Context(), []string{
		"serve", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--signing-key=" + shop.Key,
		"--database-url=postgres://user:" + refused + "@127.0.0.1:1/shop", "--redis-url=redis://:" + refused + "@127.0.0.1:1/0",
	}, &printed, &errs)
	secrets := append(slices.Concat(d.plants.words, d.told), plantedPhone, plantedPassword)
	for where, text := range map[string]string{"log": d.Err.String(), "output": d.Out.String(), "config": printed.String(), "errors": errs.String()} {
		for _, secret := range secrets {
			if at := strings.Index(text, secret); at >= 0 {
				begin, end := max(0, at-200), min(len(text), at+len(secret))
				t.Errorf("the %s contains a secret: …%s", where, text[begin:end])
			}
		}
	}
	require.Contains(t, "the log, in which no secret was found,", d.Err.String(), "level=DEBUG", "msg=request")
	require.Contains(t, "config", printed.String(), "--signing-key", fmt.Sprintf("(set, %d bytes)", len(shop.Key)), "bus.invalid:4222")
}
