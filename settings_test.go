package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"stampede/platform/base/app"
	"stampede/platform/base/config"
	"stampede/platform/base/telemetry"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/mail"
	"stampede/platform/edge/sms"
	"stampede/platform/workshop/cli"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// TestSettingsGolden compares a server's default configuration with
// platform/workshop/cli/testdata/settings.golden: every setting of serve, and every module's
// configuration as built by main. A changed default needs a line in CHANGELOG.
func TestSettingsGolden(t *testing.T) {
	var lines []string
	set := new(settings)
	for _, f := range flagsOf(t, "config", set) {
		if len(f.Envs) > 0 {
			lines = append(lines, fmt.Sprintf("--%s=%v", f.Name, f.Target))
		}
	}
	log := telemetry.Logger("error", "text", io.Discard, nil)
	s := &server{set: set, log: log, app: app.New(log), registry: telemetry.Registry()}
	s.end = func(error) {}
	stores := cli.Stores{DatabaseURL: pgtest.DatabaseURL(t), RedisURL: pgtest.RedisURL(t), NATSDir: filepath.Join(t.TempDir(), "nats")}
	err := s.open(t.Context(), stores, shop.Key)
	t.Cleanup(func() {
		require.NoError(t, s.app.Stop(context.Background()))
	})
	require.NoError(t, err)
	for name, pool := range s.Pools {
		lines = append(lines, fmt.Sprintf("pool %s=%d", name, pool.Config().MaxConns))
	}
	found := configs{seen: map[uintptr]bool{}, values: map[string]string{}}
	found.walk(reflect.ValueOf(s))
	for name, value := range found.values {
		lines = append(lines, name+"="+value)
	}
	slices.SortFunc(lines, func(a, b string) int {
		return cmp.Or(-cmp.Compare(strings.Count(a[:2], "-"), strings.Count(b[:2], "-")), cmp.Compare(a, b))
	})
	golden := filepath.Join("platform", "workshop", "cli", "testdata", "settings.golden")
	if os.Getenv("STAMPEDE_UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(golden, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	for _, said := range differences(strings.Split(strings.TrimSpace(string(want)), "\n"), lines) {
		t.Errorf("%s (make generate writes %s)", said, golden)
	}
}

// flagsOf returns a command's flags, parsed without arguments into settings.
func flagsOf(t *testing.T, command string, set ...*settings) []*kong.Flag {
	t.Helper()
	parser, err := kong.New(append(set, new(settings))[0].program().Commands(), config.Options(new(config.File)), kong.Vars{"data": "data"})
	require.NoError(t, err)
	parsed, err := parser.Parse([]string{command})
	require.NoError(t, err)
	return parsed.Selected().Flags
}

// TestFirstHelpIsShort: at most 40 settings, each with a heading, a variable of
// the same name and a sentence.
func TestFirstHelpIsShort(t *testing.T) {
	t.Parallel()
	shown := 0
	for _, f := range flagsOf(t, "config") {
		if !f.Hidden {
			shown++
		}
		if f.Name == "help" || f.Name == "help-all" {
			continue
		}
		if len(f.Envs) != 1 || f.Envs[0] != "STAMPEDE_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")) {
			t.Errorf("--%s has the variables %v", f.Name, f.Envs)
		}
		if f.Help == "" || f.Group == nil && f.Name != "config" {
			t.Errorf("--%s has no sentence or no heading", f.Name)
		}
	}
	if shown > 40 {
		t.Errorf("%d flags are shown by --help", shown)
	}
}

// refused returns config's errors for settings given in addition to the required ones.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), append([]string{"config", "--database-url=postgres://h/d", "--redis-url=redis://h:1", "--signing-key=" + shop.Key}, args...), &out, &errs)
	if (code == 0) != (errs.Len() == 0) {
		t.Errorf("%s: exit %d, printed %q", args, code, errs.String())
	}
	return errs.String()
}

func TestWrongSettingsAreNamedInOneSentence(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef0123456789abcdef"
	together := settingBatches{}
	for _, c := range []struct {
		args, want string
		alone      bool // refused before the rest is checked
	}{
		{"--listen=shop", "--listen must be host:port", false},
		{"--listen=127.0.0.1:99999", "--listen must be host:port with a port up to 65535", false},
		{"--ops-listen=127.0.0.1:http", "--ops-listen must be host:port", false},
		{"--listen=127.0.0.1:8080 --ops-listen=127.0.0.1:8080", "--listen and --ops-listen must differ", false},
		{"--public-url=sale.example.com", "--public-url must be like", false},
		{"--time-zone=Beijing", "--time-zone must be an IANA name", false},
		{"--time-zone=", "--time-zone must be an IANA name", false},
		{"--time-zone=Local", "--time-zone must be an IANA name", false},
		{"--alarm-webhook-url=http://example.com/alarms --alarm-webhook-secret=0123456789abcdef0123456789abcdef", "--alarm-webhook-url must begin with https://", false},
		{"--alarm-webhook-url=https://example.com/alarms --alarm-webhook-secret=short", "--alarm-webhook-secret must have at least 32 bytes", false},
		{"--alarm-webhook-secret=0123456789abcdef0123456789abcdef", "give both or neither", false},
		{"--keep-records=24h", "--keep-records must be a duration of at least 168h", false},
		{"--settle-after=10s", "--settle-after must be a duration between 1m and 720h, not 10s", false},
		{"--preheat-lead=0s", "--preheat-lead must be a duration between 1m and 24h, not 0s", false},
		{"--publish-deadline=10m", "--publish-deadline must be a duration between 100ms and 1m, not 10m0s", false},
		{"--order-cache-ttl=1ns", "--order-cache-ttl must be a duration between 1m and 720h, not 1ns", false},
		{"--stop-timeout=-10s", "--stop-timeout must be a duration between 1s and 10m, not -10s", false},
		{"--drain-timeout=20s", "--drain-timeout must be a duration shorter than --stop-timeout (10s)", true},
		{"--drain-timeout=0s", "--drain-timeout must be a duration shorter than", true},
		{"--drain-delay=8s", "--drain-delay and --drain-timeout must together be shorter than --stop-timeout (10s)", true},
		{"--lane-capacity=0", "--lane-capacity must be between 64 and 1048576, not 0", false},
		{"--writer-lag-max=1", "--writer-lag-max must be between 1000 and 10000000, not 1", false},
		{"--max-sockets=-1", "--max-sockets must be between 0 and 10000000, not -1", false},
		{"--max-sockets=9000000", "--max-sockets=9000000 needs 12001025 open files, and this process may open ", false},
		{"--max-connections=9000000", "--max-connections=9000000 needs 9001024 open files, and this process may open ", false},
		{"--max-connections=1000 --max-sockets=900", "--max-sockets=900 must be at most three quarters of --max-connections=1000", false},
		{"--grants-max-mib=99999999999999", "--grants-max-mib must be between 1 and 1048576", false},
		{"--events-max-mib=0", "--events-max-mib must be between 1 and 1048576", false},
		{"--auth-human-check=verifier", "--auth-human-check is verifier, but no verifier is set", true},
		{"--verifier-url=https://example.com/siteverify", "--verifier-url, --verifier-site-key and --verifier-secret belong together", false},
		{"--verifier-url=http://example.com/v --verifier-site-key=k --verifier-secret=s --public-url=https://sale.example.com", "--verifier-url must begin with https://", false},
		{"--verifier-url=https://example.com/v --verifier-site-key=k --verifier-secret=s", "--verifier-hosts or --public-url must be set", false},
		{"--verifier-kind=tencent --verifier-site-key=app", "--verifier-kind=tencent needs --verifier-site-key (CaptchaAppId, a number)", false},
		{"--verifier-timeout=1h", "--verifier-timeout must be a duration between", false},
		{"--access-lifetime=30s", "--access-lifetime must be a duration between", false},
		{"--access-lifetime=25h", "--access-lifetime must be a duration between", false},
		{"--refresh-lifetime=1m", "--refresh-lifetime must be", true},
		{"--refresh-lifetime=5000h", "--refresh-lifetime must be", false},
		{"--first-admin-phone=me", "--first-admin-phone must be a mobile number", true},
		{"--login-per-phone=-1", "--login-per-phone must be between 0", false},
		{"--sms-countries=", "--sms-countries must be calling prefixes", false},
		{"--sms-countries=+86,852", "--sms-countries must be calling prefixes such as +86,+852, without blanks, or * alone for every country; \"852\" is not one", false},
		{"--sms-countries=*,+86", "* alone", false},
		{"--sms-signature=TheCornerBookstore", "--sms-signature must have up to 16 characters", false},
		{"--shop-name=TheCornerBookstore", "the shop's name has 18 characters, and an SMS begins with at most 16: give a shorter name with --sms-signature", true},
		{"--shop-name=", "--shop-name must have 1 to 40 characters", false},
		{"--shop-accent=#ff6a00", "--shop-accent=#ff6a00 is too light for white text: their contrast is 2.8 and must be at least 4.5; choose a darker colour", false},
		{"--shop-accent=orange", "--shop-accent must be a colour like #cf2a20", false},
		{"--shop-logo=logo.gif", "--shop-logo must be a file that ends with .svg", false},
		{"--shop-logo=none.svg", "--shop-logo=none.svg must be a file of 1 byte to 32 KiB that the server can read", false},
		{"--shop-terms-url=javascript:alert(1)", "--shop-terms-url must be like https://www.example.com/terms", false},
		{"--shop-privacy-url=/privacy", "--shop-privacy-url must be like https://www.example.com/privacy", false},
		{"--sms-gateway-url=https://sms.example.com", "give both or neither", false},
		{"--sms-gateway-url=http://sms.example.com --sms-gateway-secret=" + secret, "--sms-gateway-url must begin with https://", false},
		{"--sms-gateway-url=https://sms.example.com --sms-gateway-secret=short", "--sms-gateway-secret must have at least 32 bytes", false},
		{"--sandbox-sms --sms-gateway-url=https://sms.example.com --sms-gateway-secret=" + secret, "exclude each other", false},
		{"--smtp-url=smtp.example.com:465 --mail-from=shop@shop.example", "--smtp-url must be like smtps://", false},
		{"--smtp-url=smtps://smtp.example.com", "--mail-from must be an address", false},
		{"--smtp-password=p", "--smtp-password needs --smtp-url", false},
		{"--sms-provider=carrier", "--sms-provider must be one of", true},
		{"--wechat-app-id=wx1", "give both or neither", false},
		{"--wechat-mini-app-secret=s", "--wechat-mini-app-id and --wechat-mini-app-secret belong together", false},
		{"--wechat-app-id=wx1 --wechat-app-secret=s --wechat-mini-app-id=wx1 --wechat-mini-app-secret=s", "--wechat-mini-app-id must be the mini program's own", false},
		{"--wechat-app-id=wx1 --wechat-app-secret=s --wechat-url=http://api.example.com", "--wechat-url must begin with https://, or http:// and a loopback address", false},
		{"--max-conns=11", "--max-conns must be between 12 and 5000, not 11", false},
		{"--human-check-strength=26", "--human-check-strength must be one of", true},
		{"--password-cost=none", "--password-cost must be one of", true},
		{"--max-user-sockets=101", "--max-user-sockets must be between 1 and 100", false},
		{"--trusted-proxies=proxy.example", "--trusted-proxies must be networks such as 10.0.0.0/8", false},
		{"--proxy-header=X-Real-IP", "--proxy-header must be one of", true},
		{"--paths-per-minute=-1", "--paths-per-minute must be between", false},
		{"--rushes-per-second=1001", "--rushes-per-second must be between", false},
		{"--blacklist-max=99", "--blacklist-max must be between", false},
		{"--risk-max-offenders=1000001", "--risk-max-offenders must be between", false},
		{"--trace-endpoint=localhost:4318", "--trace-endpoint must be the URL of an OTLP/HTTP collector", true},
		{"--trace-sample=NaN", "--trace-sample must be between 0 and 1", false},
	} {
		if c.alone {
			if said := refused(t, c.args); !strings.Contains(said, c.want) || strings.Count(said, "serve would refuse") != 1 && !strings.Contains(said, "Try:") {
				t.Errorf("%s: %q, want %q", c.args, said, c.want)
			}
			continue
		}
		together.add(strings.Split(c.args, " "), c.want)
	}
	for _, batch := range together {
		said := refused(t, batch.args...)
		require.Contains(t, "the refusal of "+strings.Join(batch.args, " "), said, batch.wants...)
		require.Equal(t, "sentences in "+said, strings.Count(said, "serve would refuse"), len(batch.wants))
	}
	valid := settingBatches{}
	for _, args := range []string{
		"--first-admin-phone=+8613800138000", "--sandbox-sms --sms-countries=*", "--sms-gateway-url=http://127.0.0.1:9000/send --sms-gateway-secret=" + secret,
		"--wechat-app-id=wx1 --wechat-app-secret=s --wechat-mini-app-id=wx2 --wechat-mini-app-secret=s", "--login-per-address=0",
		"--sms-countries=+86,+852,+853,+886", "--trusted-proxies=10.0.0.0/8,2001:db8::1", "--claim-keep=0s",
	} {
		valid.add(strings.Split(args, " "), "")
	}
	for _, batch := range valid {
		require.Equal(t, "the refusal of "+strings.Join(batch.args, " "), refused(t, batch.args...), "")
	}
}

// settingBatches are cases that one call of run can check together, because
// each is about other subjects: building the command line takes a tenth of a
// second with the race detector.
type settingBatches []struct{ args, subjects, wants []string }

// add puts a case into the first batch without its subjects, which are the
// first words of its settings.
func (b *settingBatches) add(args []string, want string) {
	var subjects []string
	for _, arg := range args {
		subject, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "-")
		subject, _, _ = strings.Cut(subject, "=")
		subjects = append(subjects, subject)
	}
	i := slices.IndexFunc(*b, func(batch struct{ args, subjects, wants []string }) bool {
		return !slices.ContainsFunc(subjects, func(s string) bool { return slices.Contains(batch.subjects, s) })
	})
	if i < 0 {
		i, *b = len(*b), append(*b, struct{ args, subjects, wants []string }{})
	}
	batch := &(*b)[i]
	batch.args, batch.subjects, batch.wants = append(batch.args, args...), append(batch.subjects, subjects...), append(batch.wants, want)
}

// The handbook lists every text that has to be registered with an SMS provider, as it is.
func TestHandbookListsSMSTexts(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"channels.md", "channels.zh-CN.md"} {
		raw, err := os.ReadFile(filepath.Join("platform", "operating", page))
		require.NoError(t, err)
		for key, template := range sms.Templates() {
			row := strings.ReplaceAll("| `"+key+"` | "+template.Text[httpx.Chinese]+" | "+template.Text[httpx.English]+" |", "{", "${")
			require.Contains(t, page, string(raw), row)
		}
	}
}

// TestAllErrorsAreReportedTogether, so that a settings file can be fixed in one pass.
func TestAllErrorsAreReportedTogether(t *testing.T) {
	t.Parallel()
	args := []string{
		"--listen=shop", "--ops-listen=port", "--time-zone=Beijing", "--lane-capacity=0", "--max-conns=1", "--login-per-phone=-1", "--shop-name=",
		"--wechat-app-id=wx1", "--max-in-flight=-1", "--claim-keep=-1s", "--trace-sample=2", "--alarm-webhook-secret=short", "--keep-records=1h",
	}
	said := refused(t, args...)
	for _, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		require.Contains(t, "config", said, "serve would refuse this: "+flag)
	}
	require.Equal(t, "sentences in "+said, strings.Count(said, "\n"), len(args))
}

// differences are the flags that only one side has, and those with different
// values. A value fixed by a module may become a constant.
func differences(want, got []string) (said []string) {
	values := map[string]string{}
	for _, line := range got {
		name, value, _ := strings.Cut(line, "=")
		values[name] = value
	}
	for _, line := range want {
		name, value, ok := strings.Cut(line, "=")
		if now, there := values[name]; ok && there && now != value || !there && strings.HasPrefix(name, "--") {
			said = append(said, fmt.Sprintf("%s was %q, is %q", name, value, now))
		}
		delete(values, name)
	}
	for name, value := range values {
		if strings.HasPrefix(name, "--") {
			said = append(said, fmt.Sprintf("%s=%s is new", name, value))
		}
	}
	return said
}

// configs collects the fields of every configuration in a server's components.
type configs struct {
	seen   map[uintptr]bool
	values map[string]string
}

func (c configs) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !c.seen[v.Pointer()] && strings.HasPrefix(v.Type().Elem().PkgPath(), "stampede") {
			c.seen[v.Pointer()] = true
			c.walk(v.Elem())
		}
	case reflect.Interface:
		c.walk(v.Elem())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			c.walk(v.Index(i))
		}
	case reflect.Struct:
		if !strings.HasPrefix(v.Type().PkgPath(), "stampede") {
			return
		}
		if strings.HasSuffix(v.Type().Name(), "Config") {
			c.collect(strings.TrimPrefix(v.Type().PkgPath(), "stampede/")+"."+v.Type().Name(), v)
		}
		for _, field := range v.Fields() {
			c.walk(field)
		}
	default:
	}
}

// collect records the fields of a configuration that are settings; walk finds
// nested configurations.
func (c configs) collect(name string, v reflect.Value) {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		var text string
		switch {
		case value.Type() == reflect.TypeFor[time.Duration]():
			text = time.Duration(value.Int()).String()
		case value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Uint8, strings.Contains(field.Name, "Secret"), strings.Contains(field.Name, "URL"), strings.Contains(field.Name, "Key"):
			continue // differs from run to run
		case field.Name == "PasswordParallel", field.Name == "MaxBytes":
			continue // depends on the machine's cores, and on its disk
		case field.Anonymous:
			c.collect(name, value)
			continue
		case value.Kind() == reflect.Struct:
			c.collect(name+"."+field.Name, value)
			continue
		case value.Kind() == reflect.Func, value.Kind() == reflect.Pointer, value.Kind() == reflect.Interface, field.Name == "StoreDir":
			continue
		default:
			text = fmt.Sprint(value)
		}
		c.values[name+"."+field.Name] = text
	}
}

// A mail server that refuses messages to many holds up no alarm: its breaker is another.
func TestBulkMailHasABreakerOfItsOwn(t *testing.T) {
	t.Parallel()
	set := &settings{}
	set.Mail = mail.Settings{SMTPURL: "smtps://127.0.0.1:1", MailFrom: "no-reply@shop.example"} // nothing listens there
	s := set.server(slog.New(slog.DiscardHandler))
	require.NoError(t, s.openMail())
	for range 5 {
		require.ErrorIs(t, s.bulkMail.Send(t.Context(), mail.Message{ID: "1", To: "li@example.com"}), mail.ErrUnavailable)
	}
	require.Equal(t, "available", []bool{s.bulkMail.(*mail.Client).Available(), s.mail.(*mail.Client).Available()}, []bool{false, true})
}
