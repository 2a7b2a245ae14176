package wechatmsg_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"stampede/platform/edge/outbound"
	"stampede/platform/identity/account/wechat"
	"stampede/platform/identity/wechatmsg"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/wechattest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type logged struct {
	mu sync.Mutex
	strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

func client(t *testing.T, srv *wechattest.Server, secret string) (*wechatmsg.Client, *logged) {
	t.Helper()
	log := &logged{}
	c := wechatmsg.New(wechatmsg.Config{
		BaseURL: srv.URL, Log: slog.New(slog.NewTextHandler(log, nil)),
		Apps: map[wechat.Kind]wechat.App{wechat.Official: {ID: srv.AppID, Secret: secret}, wechat.Mini: {ID: srv.MiniAppID, Secret: secret}},
	})
	t.Cleanup(c.CloseIdleConnections)
	return c, log
}

func message(app wechat.Kind) wechatmsg.Message {
	return wechatmsg.Message{
		ID: "order-42-paid", App: app, OpenID: "open-li", Template: wechattest.TemplateID,
		Data: map[string]string{"thing1": "订单已支付"}, Page: "https://shop.example/orders/42",
	}
}

var kinds = []wechat.Kind{wechat.Official, wechat.Mini}

// A message arrives in each kind of app; a template message that is sent twice arrives once,
// and a subscription message only as often as its reader agreed.
func TestMessageArrives(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		srv := wechattest.New(t)
		srv.Subscribed["open-li"] = 1
		c, log := client(t, srv, srv.Secret)
		require.NoError(t, c.Send(t.Context(), message(kind)))
		if err := c.Send(t.Context(), message(kind)); kind == wechat.Official {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, wechatmsg.ErrRefused)
			require.Contains(t, "log", log.String(), "errcode=43101", "order-42-paid")
		}
		got, tokens := srv.Messages()
		require.Equal(t, "messages", len(got), 1)
		require.Equal(t, "tokens", tokens, 1)
		require.Equal(t, "data", got[0].Data["thing1"].Value, "订单已支付")
		require.Equal(t, "page", got[0].Page+got[0].URL, "https://shop.example/orders/42")
	}
}

// Instances share WeChat's token, and get the next one when it is withdrawn, without forcing.
func TestTokenIsShared(t *testing.T) {
	t.Parallel()
	srv := wechattest.New(t)
	srv.Subscribed["open-li"] = 100
	a, _ := client(t, srv, srv.Secret)
	b, _ := client(t, srv, srv.Secret)
	both := func() {
		var all sync.WaitGroup
		for _, c := range []*wechatmsg.Client{a, b} {
			for range 5 {
				all.Go(func() {
					if err := c.Send(t.Context(), message(wechat.Mini)); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
	}
	both()
	_, tokens := srv.Messages()
	require.Equal(t, "tokens", tokens, 2)
	srv.Withdraw()
	both()
	got, tokens := srv.Messages()
	require.Equal(t, "messages", len(got), 20)
	require.Equal(t, "tokens with those after the withdrawal", tokens, 4)
}

// The result of each of WeChat's codes. Neither the secret, the reader nor the text is in an
// error or the log, and what concerns a message leaves the breaker closed.
func TestAnswersOfWeChat(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]error{
		43101: wechatmsg.ErrRefused, 43004: wechatmsg.ErrRefused, 40003: wechatmsg.ErrRefused, 47003: wechatmsg.ErrRefused,
		45009: wechatmsg.ErrRefused, 40037: wechatmsg.ErrRefused, 45011: wechatmsg.ErrUnavailable, 42001: wechatmsg.ErrUnavailable, -1: wechatmsg.ErrUnavailable, 1: wechatmsg.ErrUnavailable,
	} {
		for _, kind := range kinds {
			srv := wechattest.New(t)
			c, log := client(t, srv, srv.Secret)
			srv.FallIll(code)
			for i := range 6 {
				err := c.Send(t.Context(), message(kind))
				require.ErrorIs(t, err, want)
				require.Equal(t, "unclear", errors.Is(err, outbound.ErrUnclear), code == 1 && kind == wechat.Mini && i < 5)
				for _, secret := range []string{srv.Secret, "open-li", "订单已支付"} {
					if strings.Contains(err.Error()+log.String(), secret) {
						t.Errorf("%s is in the error or the log: %v\n%s", secret, err, log)
					}
				}
			}
			require.Equal(t, "the next call is made", c.Available(), code != -1 && code != 1)
		}
	}
	srv := wechattest.New(t)
	c, log := client(t, srv, "planted-secret")
	require.ErrorIs(t, c.Send(t.Context(), message(wechat.Mini)), wechatmsg.ErrRefused)
	require.Contains(t, "log", log.String(), "40125", "IP allowlist")
	require.ErrorIs(t, c.Send(t.Context(), wechatmsg.Message{App: "none"}), wechatmsg.ErrRefused)
}
