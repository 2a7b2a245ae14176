package cli

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"stampede/platform/edge/auth"
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

// ErrNoStack means that no `stampede run` has used the folder.
var ErrNoStack = errors.New("no stack is known there: start one with `stampede run`, or name the servers with flags")

// writeStack stores the stack in the data folder.
func writeStack(dir string, s Noted) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode stack: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("store the stack: %w", err)
	}
	defer func() { _ = root.Close() }() // a folder handle has nothing to flush
	// A file of our own, never one that was there, which could be a link to
	// another file.
	const unfinished = stackFile + ".new"
	if err := root.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("store the stack: %w", err)
	}
	f, err := root.OpenFile(unfinished, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("store the stack: %w", err)
	}
	_, err = f.Write(raw)
	// Sync to disk before the rename: after a power cut, an empty file would
	// have lost the key.
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("store the stack: %w", err)
	}
	if err := root.Rename(unfinished, stackFile); err != nil {
		return fmt.Errorf("store the stack: %w", err)
	}
	return nil
}

// ReadStack reads what writeStack stored, or returns ErrNoStack.
func ReadStack(dir string) (Noted, error) {
	raw, err := os.ReadFile(filepath.Join(dir, stackFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Noted{}, fmt.Errorf("%s: %w", dir, ErrNoStack)
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

// keepStack stores the stack and returns the signing key to use: the given one,
// else the stored one, else a new one. Tokens and paths thus survive a restart.
func keepStack(dir string, s Noted) (key string, err error) {
	if s.SigningKey == "" {
		switch earlier, err := ReadStack(dir); {
		case err == nil:
			s.SigningKey = earlier.SigningKey
		case !errors.Is(err, ErrNoStack):
			return "", err
		}
	}
	if s.SigningKey == "" {
		var random [32]byte
		if _, err := rand.Read(random[:]); err != nil {
			return "", fmt.Errorf("make a signing key: %w", err)
		}
		s.SigningKey = hex.EncodeToString(random[:])
	}
	if err := auth.CheckKey(s.SigningKey); err != nil {
		return "", err
	}
	return s.SigningKey, writeStack(dir, s)
}
