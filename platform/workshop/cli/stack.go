package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"stampede/platform/base/disk"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/embedded"
)

// stackFile is where `run` stores the addresses of its private servers, so that
// verify, rush and token find them without flags. It contains the signing key
// and is readable only by its owner.
const stackFile = "stack.json"

// Noted is what other commands need to know about a running `stampede run`.
type Noted struct {
	BaseURL     string `json:"base_url"`
	MetricsURL  string `json:"metrics_url,omitempty"`
	DatabaseURL string `json:"database_url"`
	RedisURL    string `json:"redis_url"`
	SigningKey  string `json:"signing_key"`
}

// server is the address that was given, else the stack's.
func (n Noted) server(given string) string {
	return strings.TrimSuffix(cmp.Or(given, n.BaseURL, "http://127.0.0.1:8080"), "/")
}

// key is the signing key that was given, else the stack's, which is that of the folder.
func (n Noted) key(given, folder string) (string, error) {
	key := cmp.Or(given, n.SigningKey)
	if key == "" {
		return "", fmt.Errorf("no signing key: give --signing-key, or --data with the folder of `stampede run` (looked in %s)", folder)
	}
	return key, nil
}

// ErrNoStack means that no `stampede run` has used the folder.
var ErrNoStack = errors.New("no stack is known there: start one with `stampede run`, or name the servers with flags")

// ReadStack reads what keepStack stored, or returns ErrNoStack.
func ReadStack(dir string) (Noted, error) {
	raw, err := os.ReadFile(filepath.Join(dir, stackFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Noted{}, fmt.Errorf("%s: %w", dir, ErrNoStack)
	}
	if errors.Is(err, fs.ErrPermission) {
		return Noted{}, fmt.Errorf("only root and the account of `stampede run` may read %s, which contains the signing key", filepath.Join(dir, stackFile))
	}
	if err != nil {
		return Noted{}, fmt.Errorf("read the stack: %w", err)
	}
	var s Noted
	if err := json.Unmarshal(raw, &s); err != nil {
		return Noted{}, fmt.Errorf("%s is damaged; remove it and start `stampede run` again, which makes a new signing key: %w",
			filepath.Join(dir, stackFile), err)
	}
	return s, nil
}

// knownStack is that of the folder, or an empty one.
func knownStack(dir string) (Noted, error) {
	stack, err := ReadStack(dir)
	if errors.Is(err, ErrNoStack) {
		return Noted{}, nil
	}
	return stack, err
}

// keepStack stores the stack and returns the signing key to use: the given one,
// else the stored one, else a new one. Tokens and paths thus survive a restart.
func keepStack(dir string, s Noted) (key string, err error) {
	if s.SigningKey == "" {
		earlier, err := knownStack(dir)
		if err != nil {
			return "", err
		}
		s.SigningKey = earlier.SigningKey
	}
	if s.SigningKey == "" {
		var random [32]byte
		_, _ = rand.Read(random[:]) // never fails
		s.SigningKey = hex.EncodeToString(random[:])
	}
	if err := auth.CheckKey(s.SigningKey); err != nil {
		return "", err
	}
	raw, err := json.Marshal(s)
	if err == nil {
		err = disk.Replace(filepath.Join(dir, stackFile), 0o600, func(w io.Writer) error { _, err := w.Write(raw); return err })
	}
	if err != nil {
		return "", fmt.Errorf("store the stack: %w", err)
	}
	return s.SigningKey, nil
}

// StoreRestarted is the alarm about a store of `run`.
var StoreRestarted = alarm.Define("store-restarted", alarm.Warning,
	fault.T("Postgres or Redis of `stampede run` exited or did not answer, and was started again. Meanwhile the sale stood still; nothing is lost.",
		"`stampede run` 的 Postgres 或 Redis 退出或无应答，已重新启动。期间抢购暂停，数据没有丢失。"),
	fault.T("Read the detail and the log that it names for the cause: often memory or the disk was full. Nothing else is to be done, unless it happens again.",
		"查看详情及其中提到的日志，原因多为内存或磁盘已满。若不再发生，无需其他处理。"))

// restartsEvery is how soon a restart is logged and raised.
const restartsEvery = 500 * time.Millisecond

// restarts hands restarts of run's stores to the watch, which starts later than
// the stores and keeps an alarm until Postgres is back.
type restarts struct {
	mu  sync.Mutex
	due []alarm.Finding
}

// note is embedded's Restarted.
func (r *restarts) note(done embedded.Restart) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = append(r.due, alarm.Finding{Subject: done.Server, Detail: fmt.Sprintf(
		"%s %s. It answered again after %.1f s; its log until then is %s.", done.Server, done.Cause, done.Down.Seconds(), cmp.Or(done.Log, "gone"))})
}

// probe finds each restart once.
func (r *restarts) probe() alarm.Probe {
	return alarm.Probe{Alarm: StoreRestarted, Every: restartsEvery, Look: func(context.Context) ([]alarm.Finding, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		due := r.due
		r.due = nil
		return due, nil
	}}
}

// ServerAccess names a running server for commands that use its operators' routes.
type ServerAccess struct {
	URL        string `env:"STAMPEDE_URL" help:"The server. Default: the one that --data belongs to, else http://127.0.0.1:8080." found:""`
	SigningKey string `env:"STAMPEDE_SIGNING_KEY" help:"The server's signing key, to act as an operator. Default: the one in --data." secret:"" found:""`
	Data       string `default:"${data}" env:"STAMPEDE_DATA" type:"path" help:"Data folder of stampede run, to find the server."`
}

// Operator returns the server's address and a token of a role for it.
func (s ServerAccess) Operator(role auth.Role) (server, token string, err error) {
	stack, err := knownStack(s.Data)
	if err != nil {
		return "", "", err
	}
	key, err := stack.key(s.SigningKey, s.Data)
	if err != nil {
		return "", "", err
	}
	server = stack.server(s.URL)
	token, err = auth.NewTokens([]byte(key), time.Now).Mint(auth.Principal{UserID: 1, Role: role}, staffLifetime)
	return server, token, err
}
