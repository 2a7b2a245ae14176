package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"stampede/platform/edge/auth"
)

// ServerAccess names a running server for commands that use its operators' routes.
type ServerAccess struct {
	URL        string `env:"STAMPEDE_URL" help:"The server. Default: the one that --data belongs to, else http://127.0.0.1:8080." found:""`
	SigningKey string `env:"STAMPEDE_SIGNING_KEY" help:"The server's signing key, to act as an operator. Default: the one in --data." secret:"" found:""`
	Data       string `default:"${data}" env:"STAMPEDE_DATA" type:"path" help:"Data folder of stampede run, to find the server."`
}

// Operator returns the server's address and a token of a role for it.
func (s ServerAccess) Operator(role auth.Role) (server, token string, err error) {
	stack, err := ReadStack(s.Data)
	if err != nil && !errors.Is(err, ErrNoStack) {
		return "", "", err
	}
	key := s.SigningKey
	if key == "" {
		key = stack.SigningKey
	}
	if key == "" {
		return "", "", fmt.Errorf("no signing key: give --signing-key, or --data with the folder of `stampede run` (looked in %s)", s.Data)
	}
	server = "http://127.0.0.1:8080"
	switch {
	case s.URL != "":
		server = strings.TrimSuffix(s.URL, "/")
	case stack.BaseURL != "":
		server = stack.BaseURL
	}
	token, err = auth.NewTokens([]byte(key), time.Now).Mint(auth.Principal{UserID: 1, Role: role}, staffLifetime)
	return server, token, err
}
