package account_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/config"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account"
	"stampede/platform/identity/sms"
	"stampede/platform/identity/sms/sandbox"
	"stampede/platform/workshop/pgtest"
)

// The first admin needs a phone that SMS are sent to.
func TestFirstAdminGetsItsCode(t *testing.T) {
	t.Parallel()
	set, texts := config.Defaults[account.Settings](), config.Defaults[sms.Settings]()
	set.FirstAdminPhone = "+8612345678901"
	if _, err := account.NewConfig(set, texts, nil); err == nil {
		t.Error("an impossible first-admin phone is accepted")
	}
	set.FirstAdminPhone = "+85251234567"
	if _, err := account.NewConfig(set, texts, nil); err == nil || !strings.Contains(err.Error(), "--sms-countries") {
		t.Errorf("a first admin who cannot receive a code: %v", err)
	}
	texts.SMSCountries = []string{"+86", "+852"}
	if c, err := account.NewConfig(set, texts, nil); err != nil || c.SMSReach.String() != "+86, +852" {
		t.Errorf("with another country: %s, %v", c.SMSReach, err)
	}
}

// With the sandbox gateway, a reader of its page can log in: the whole path, over
// HTTP, as a shopper takes it.
func TestSandboxLogin(t *testing.T) {
	t.Parallel()
	log, metrics, key := slog.New(slog.DiscardHandler), prometheus.NewRegistry(), []byte("a signing key of thirty-two bytes")
	tokens := auth.NewTokens(key, time.Now)
	router := httpx.NewRouter(tokens, log, "test", prometheus.NewRegistry())
	srv := httptest.NewServer(router)
	t.Cleanup(srv.Close)
	limits := ratelimit.New(pgtest.Redis(t), log, metrics)
	line := sms.DefaultGatewayConfig()
	line.URL, line.Secret = srv.URL+sandbox.SendPath, auth.Derive(key, "sandbox-sms")
	gateway, err := sandbox.New(line.Secret, time.Now, func(context.Context) ([]string, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	gateway.Routes(router.Mux)
	sender, err := sms.NewGateway(line, time.Now, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sender.CloseIdleConnections)
	accts, err := account.New(defaults(t, key), account.Deps{
		DB: pgtest.DB(t), Redis: pgtest.Redis(t), Tokens: tokens, Limits: limits, Revoke: &revoked{}, SMS: sender, Log: log, Metrics: metrics,
	})
	if err != nil {
		t.Fatal(err)
	}
	accts.Routes(router)
	client := srv.Client()
	do := func(method, path, body string, out any) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	var ignored map[string]any
	if status := do(http.MethodPost, "/api/v1/auth/sms-codes", `{"phone":"13800138000","purpose":"login"}`, &ignored); status != http.StatusAccepted {
		t.Fatalf("sms-codes: %d %v", status, ignored)
	}
	var shown struct{ Data []sandbox.Got }
	do(http.MethodGet, sandbox.Prefix+"?format=json&phone=%2B8613800138000", "", &shown)
	if len(shown.Data) != 1 || !strings.HasPrefix(shown.Data[0].Text, "【Stampede】") {
		t.Fatalf("shown %+v", shown)
	}
	var got account.Tokens
	code := sixDigits.FindString(shown.Data[0].Text)
	if status := do(http.MethodPost, "/api/v1/auth/login/sms", `{"phone":"13800138000","code":"`+code+`"}`, &got); status != http.StatusOK {
		t.Fatalf("login: %d", status)
	}
	if _, err := tokens.Verify(got.AccessToken); err != nil {
		t.Error(err)
	}
}
