package wechat_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stampede/platform/identity/account/wechat"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/wechattest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, change func(*wechat.Config)) *wechat.Client {
	t.Helper()
	cfg := wechat.DefaultConfig()
	change(&cfg)
	c := wechat.New(cfg)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func appsOf(srv *wechattest.Server) map[wechat.Kind]wechat.App {
	return map[wechat.Kind]wechat.App{wechat.Official: {ID: srv.AppID, Secret: srv.Secret}, wechat.Mini: {ID: srv.MiniAppID, Secret: srv.Secret}}
}

// Both kinds of app exchange a code once, and WeChat's errors are sorted into those
// that the shopper can fix and the others.
func TestExchange(t *testing.T) {
	t.Parallel()
	for _, kind := range []wechat.Kind{wechat.Official, wechat.Mini} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			srv := wechattest.New(t)
			c := client(t, func(cfg *wechat.Config) {
				cfg.BaseURL, cfg.Apps = srv.URL, appsOf(srv)
			})
			app := appsOf(srv)[kind].ID
			code := srv.Code("open-li", "union-li")
			who, err := c.Exchange(t.Context(), kind, code)
			if want := (wechat.Identity{AppID: app, OpenID: "open-li", UnionID: "union-li"}); who != want || err != nil {
				t.Errorf("Exchange = %+v, %v", who, err)
			}
			calls := srv.Calls()
			for _, bad := range []string{code, "made-up", "", strings.Repeat("c", 129)} {
				if who, err := c.Exchange(t.Context(), kind, bad); !errors.Is(err, wechat.ErrBadCode) || who != (wechat.Identity{}) {
					t.Errorf("Exchange(%.10q) = %+v, %v", bad, who, err)
				}
			}
			require.Equal(t, "calls for two possible codes", srv.Calls()-calls, 2)
			for _, ill := range []int{-1, 45011, 40013, 40125, 1} {
				srv.FallIll(ill)
				if _, err := c.Exchange(t.Context(), kind, srv.Code("open-li", "")); !errors.Is(err, wechat.ErrUnavailable) {
					t.Errorf("errcode %d: %v", ill, err)
				}
			}
		})
	}
}

// Wrong codes do not count as failures of WeChat.
func TestWrongCodesLeaveTheBreakerClosed(t *testing.T) {
	t.Parallel()
	srv := wechattest.New(t)
	c := client(t, func(cfg *wechat.Config) {
		cfg.BaseURL, cfg.Apps, cfg.BreakerFailures, cfg.BreakerDelay = srv.URL, appsOf(srv), 1, time.Hour
	})
	if _, err := c.Exchange(t.Context(), wechat.Official, "made-up"); !errors.Is(err, wechat.ErrBadCode) || !c.Available() {
		t.Errorf("a wrong code: %v, the next call is made: %v", err, c.Available())
	}
	srv.FallIll(-1)
	if _, err := c.Exchange(t.Context(), wechat.Official, srv.Code("open-li", "")); !errors.Is(err, wechat.ErrUnavailable) || c.Available() {
		t.Errorf("a failing WeChat: %v, the next call is made: %v", err, c.Available())
	}
}

// No failure puts the app's secret or the person's code into the error, and the
// secret goes to no other address.
func TestErrorsHoldNoSecret(t *testing.T) {
	t.Parallel()
	const secret, code = "planted-app-secret", "planted-code"
	var strayed atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	t.Cleanup(elsewhere.Close)
	serve := func(h http.HandlerFunc) string {
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		return srv.URL
	}
	for name, base := range map[string]string{
		"refused": "http://127.0.0.1:1",
		"status":  serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }),
		"redirected": serve(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"?"+r.URL.RawQuery, http.StatusFound)
		}),
		"repeating": serve(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"errcode":-1,"errmsg":%q}`, r.URL.RawQuery)
		}),
		"no openid": serve(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"session_key":%q}`, r.URL.RawQuery)
		}),
		"unreadable": serve(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.RawQuery)) }),
		"hanging":    serve(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
	} {
		c := client(t, func(cfg *wechat.Config) {
			cfg.BaseURL, cfg.Apps, cfg.Timeout = base, map[wechat.Kind]wechat.App{wechat.Official: {ID: "wx1", Secret: secret}}, 200*time.Millisecond
		})
		_, err := c.Exchange(context.WithoutCancel(t.Context()), wechat.Official, code)
		if !errors.Is(err, wechat.ErrUnavailable) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	require.Equal(t, "requests with the app's secret that followed a redirect", strayed.Load(), 0)
}
